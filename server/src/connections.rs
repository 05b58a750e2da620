//! The open connections, and the places that they take.
//!
//! A request that is being answered keeps its place. A connection that still sends its request, or
//! that is being closed, gives way to a new one when all places are taken: the peer with the most of
//! them loses the slowest. So no number of slow peers keeps a place from others.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::Limits;

/// The time in which a new connection cannot lose its place.
const GRACE: Duration = Duration::from_millis(200);

pub struct Connections {
    limits: Limits,
    state: Mutex<OpenConnections>,
    /// Notified when a place is free.
    freed: Condvar,
}

#[derive(Default)]
struct OpenConnections {
    /// By the order in which they were accepted.
    open: BTreeMap<u64, Connection>,
    accepted: u64,
}

struct Connection {
    stream: TcpStream,
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    address: IpAddr,
    since: Instant,
    received: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its request is on the way.
    Sends,
    IsAnswered,
    /// Its answer is sent or refused.
    Closes,
}

impl Progress {
    /// The time from which it may lose its place; `None` while it is answered.
    fn yields_from(&self) -> Option<Instant> {
        match self.phase {
            Phase::Sends => Some(self.since + GRACE),
            Phase::IsAnswered => None,
            Phase::Closes => Some(self.since),
        }
    }

    /// Bytes per second. One that is being closed sends nothing that anybody waits for.
    fn rate(&self, now: Instant) -> f64 {
        match self.phase {
            Phase::Closes => -1.0,
            _ => {
                let age = now.saturating_duration_since(self.since).as_secs_f64();
                self.received as f64 / age.max(1e-9)
            }
        }
    }
}

/// The connection that loses its place, or else the time at which one will be able to.
fn choose(open: &[(u64, Progress)], now: Instant) -> Result<u64, Option<Instant>> {
    let yields = |progress: &Progress| progress.yields_from();
    let ready: Vec<&(u64, Progress)> =
        open.iter().filter(|(_, progress)| yields(progress).is_some_and(|at| at <= now)).collect();
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for (_, progress) in open.iter().filter(|(_, progress)| yields(progress).is_some()) {
        *counts.entry(progress.address).or_default() += 1;
    }
    let count = |progress: &Progress| counts.get(&progress.address).copied().unwrap_or_default();
    let worst = ready.into_iter().min_by(|(a, one), (b, other)| {
        let by_peer = count(other).cmp(&count(one));
        by_peer.then(one.rate(now).total_cmp(&other.rate(now))).then(a.cmp(b))
    });
    let next = || open.iter().filter_map(|(_, progress)| yields(progress)).min();
    worst.map(|(order, _)| *order).ok_or_else(next)
}

impl Connections {
    pub fn new(limits: Limits) -> Connections {
        Connections { limits, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Gives a place to a new connection. If all are taken, another one loses its place, or this waits
    /// until one may.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn admit(self: &Arc<Self>, stream: &TcpStream) -> io::Result<Ticket> {
        let address = stream.peer_addr()?.ip();
        let stream = stream.try_clone()?;
        let places = self.limits.connections + self.limits.arriving.max(1);
        let mut state = self.state();
        while state.open.len() >= places {
            let now = Instant::now();
            let open: Vec<_> =
                state.open.iter().map(|(order, own)| (*order, own.progress)).collect();
            match choose(&open, now) {
                Ok(order) => {
                    if let Some(lost) = state.open.remove(&order) {
                        // Its thread reads the end of the stream, and says why. A failure means that
                        // the client was faster.
                        let _ = lost.stream.shutdown(Shutdown::Read);
                    }
                }
                Err(next) => {
                    let pause = next.map_or(GRACE, |at| at.saturating_duration_since(now));
                    let waited = self.freed.wait_timeout(state, pause);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        state.accepted += 1;
        let order = state.accepted;
        let (since, received, phase) = (Instant::now(), 0, Phase::Sends);
        let progress = Progress { address, since, received, phase };
        state.open.insert(order, Connection { stream, progress });
        Ok(Ticket { connections: self.clone(), order })
    }

    fn state(&self) -> MutexGuard<'_, OpenConnections> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a connection.
pub struct Ticket {
    connections: Arc<Connections>,
    order: u64,
}

impl Ticket {
    pub fn received(&self, bytes: usize) {
        self.update(|progress| progress.received += bytes as u64);
    }

    /// True if it lost its place to another connection.
    pub fn is_lost(&self) -> bool {
        !self.connections.state().open.contains_key(&self.order)
    }

    /// Keeps its place for the answer; false if there are too many that are answered.
    pub fn keep(&self) -> bool {
        let mut state = self.connections.state();
        let phase = |own: &&Connection| own.progress.phase == Phase::IsAnswered;
        let is_free =
            state.open.values().filter(phase).count() < self.connections.limits.connections;
        let own = state.open.get_mut(&self.order).filter(|_| is_free);
        own.map(|own| own.progress.phase = Phase::IsAnswered).is_some()
    }

    /// Its answer is over.
    pub fn closes(&self) {
        self.update(|progress| progress.phase = Phase::Closes);
        self.connections.freed.notify_one();
    }

    fn update(&self, change: impl FnOnce(&mut Progress)) {
        if let Some(own) = self.connections.state().open.get_mut(&self.order) {
            change(&mut own.progress);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.connections.state().open.remove(&self.order);
        self.connections.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    fn sends(address: IpAddr, since: Instant, received: u64) -> Progress {
        Progress { address, since, received, phase: Phase::Sends }
    }

    #[test]
    fn the_slowest_of_a_peer_loses_its_place_and_of_equals_the_oldest() {
        let begin = Instant::now();
        let now = begin + Duration::from_secs(2);
        let open = [
            (1, sends(HERE, begin, 500)),
            (2, sends(HERE, begin, 20)),
            (3, sends(HERE, begin + Duration::from_secs(1), 10)),
            (4, sends(HERE, now, 0)),
        ];
        assert_eq!(choose(&open, now), Ok(2));
        assert_eq!(choose(&[open[0], open[3]], now), Ok(1), "the new one has its grace");
        let silent = [(5, sends(HERE, begin, 0)), (6, sends(HERE, begin, 0))];
        assert_eq!(choose(&silent, now), Ok(5));
    }

    #[test]
    fn the_peer_with_the_most_loses_first() {
        let begin = Instant::now();
        let now = begin + Duration::from_secs(1);
        let open = [
            (1, sends(HERE, begin, 0)),
            (2, sends(THERE, begin, 900)),
            (3, sends(THERE, begin, 800)),
        ];
        assert_eq!(choose(&open, now), Ok(3));
    }

    #[test]
    fn an_answer_is_not_cut_off_and_what_closes_goes_first() {
        let begin = Instant::now();
        let now = begin + Duration::from_secs(1);
        let answered = Progress { phase: Phase::IsAnswered, ..sends(HERE, begin, 0) };
        let closing = Progress { phase: Phase::Closes, ..sends(HERE, now, 9_000) };
        assert_eq!(choose(&[(1, answered), (2, sends(HERE, begin, 0)), (3, closing)], now), Ok(3));
        assert_eq!(choose(&[(1, answered)], now), Err(None));
        let new = now - GRACE / 2;
        let next = choose(&[(1, answered), (2, sends(HERE, new, 0))], now);
        assert_eq!(next, Err(Some(new + GRACE)));
    }
}
