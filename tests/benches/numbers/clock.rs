//! Times and medians.

use std::fmt;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::table::milliseconds;

/// The time that programs took, and the processor time of theirs.
#[derive(Clone, Copy)]
pub struct Spent {
    pub wall: Duration,
    pub processor: Duration,
}

impl Spent {
    /// The one in the middle by the clock, with its own processor time.
    pub fn median(mut all: Vec<Spent>) -> Spent {
        all.sort_by_key(|spent| spent.wall);
        all[all.len() / 2]
    }

    pub fn over(self, other: Spent) -> Spent {
        let wall = self.wall.saturating_sub(other.wall);
        Spent { wall, processor: self.processor.saturating_sub(other.processor) }
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} CPU)", milliseconds(self.wall), milliseconds(self.processor))
    }
}

/// What is spent by programs that are started and waited for.
pub fn spent<T>(work: impl FnOnce() -> T) -> (Spent, T) {
    let before = of_children();
    let (wall, value) = timed(work);
    (Spent { wall, processor: of_children().saturating_sub(before) }, value)
}

/// The processor time of all programs that were started and waited for.
pub fn of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let time = |time: TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1_000);
    time(usage.user_time()) + time(usage.system_time())
}

pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let value = work();
    (started.elapsed(), value)
}

/// The median time of several runs.
pub fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs.max(1)).map(|_| timed(&mut work).0).collect();
    times.sort();
    times[times.len() / 2]
}

/// Two measurements in turn, so that both see the same machine: on a shared machine the speed
/// changes by a tenth from one second to the next. Returns the median time of each.
pub fn medians_in_turn(
    runs: usize,
    mut one: impl FnMut() -> Duration,
    mut other: impl FnMut() -> Duration,
) -> (Duration, Duration) {
    let mut times = (Vec::new(), Vec::new());
    for _ in 0..runs.max(1) {
        times.0.push(one());
        times.1.push(other());
    }
    times.0.sort();
    times.1.sort();
    (times.0[times.0.len() / 2], times.1[times.1.len() / 2])
}

/// Waits until files are old enough to be trusted by their stat.
pub fn let_files_age() {
    std::thread::sleep(Duration::from_millis(150));
}
