//! Group commits: what is finished becomes durable within half a second, on a thread of its
//! own, and only then do other processes see it as no longer claimed.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use cache::{CacheError, Claim};
use crossbeam_channel::Sender;

use super::message::Message;
use crate::store::Store;

const EVERY: Duration = Duration::from_millis(500);
/// So much pending is committed at once, whatever the clock says: at the end of a run all wait for
/// what is left.
const LARGE: u64 = 16 << 20;
/// Towards the end that is less and less, down to this: what waits then is written after the last
/// item, when there is nothing else to do.
const SMALL: u64 = 1 << 20;

/// For a run that keeps nothing.
pub const NEVER: Duration = Duration::MAX;

pub struct Committer {
    messages: Sender<Message>,
    every: Duration,
    /// Claims whose results wait for the next commit.
    claims: Vec<Claim>,
    dirty: bool,
    /// So much pending is much.
    large: u64,
    last: Instant,
    running: Option<JoinHandle<()>>,
}

impl Committer {
    pub fn new(messages: Sender<Message>, every: Option<Duration>) -> Committer {
        Committer {
            messages,
            every: every.unwrap_or(EVERY),
            claims: Vec::new(),
            dirty: false,
            large: LARGE,
            last: Instant::now(),
            running: None,
        }
    }

    /// Something was recorded; these claims are kept until it is durable.
    pub fn note(&mut self, claims: Vec<Claim>) {
        self.claims.extend(claims);
        self.dirty = true;
    }

    /// About so many bytes are to come yet.
    pub fn expect(&mut self, bytes: u64) {
        self.large = (bytes / 2).clamp(SMALL, LARGE);
    }

    pub fn start_if_due(&mut self, store: &Store) {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            self.running = None;
        }
        let is_much = self.every < NEVER && store.cache().pending_bytes() >= self.large;
        let due = self.last.elapsed() >= self.every || is_much;
        if !self.dirty || self.running.is_some() || !due {
            return;
        }
        self.dirty = false;
        self.last = Instant::now();
        let (cache, messages) = (store.cache().clone(), self.messages.clone());
        let claims = Arc::new(Mutex::new(std::mem::take(&mut self.claims)));
        let commit = move || {
            let result = cache.commit().map(drop);
            claims.lock().unwrap_or_else(PoisonError::into_inner).clear();
            // The schedule is gone only when the run is over.
            let _ = messages.send(Message::Committed(result));
        };
        match Builder::new().name("commit".into()).spawn(commit.clone()) {
            Ok(running) => self.running = Some(running),
            // Without a thread for it, the schedule waits for the disk.
            Err(_) => commit(),
        }
        // Without any delay nothing goes on before what is finished is durable.
        if self.every.is_zero() {
            self.join();
        }
    }

    /// Waits for a commit under way.
    pub fn join(&mut self) {
        if let Some(running) = self.running.take() {
            // A panic there is a defect of the store; what it left pending is committed next.
            let _ = running.join();
        }
    }

    /// Commits what is left.
    pub fn finish(&mut self, store: &Store) -> Result<(), CacheError> {
        self.join();
        if !self.dirty {
            return Ok(());
        }
        self.dirty = false;
        let result = store.cache().commit().map(drop);
        self.claims.clear();
        result
    }
}
