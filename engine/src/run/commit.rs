//! Group commits: finished work becomes durable within half a second, on a separate thread. Only
//! then are its claims released for other processes.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use cache::{Cache, CacheError, Claim, Digest, Table};
use crossbeam_channel::Sender;

use super::message::Message;

const EVERY: Duration = Duration::from_millis(500);
/// Commit at once when this many bytes are pending, regardless of the clock: at the end of a run,
/// everything waits for the last commit.
const LARGE: u64 = 16 << 20;
/// Towards the end the threshold shrinks to this: bytes that are still pending are written after
/// the last item, when nothing else is left to do.
const SMALL: u64 = 1 << 20;

/// For a run that keeps nothing.
pub const NEVER: Duration = Duration::MAX;

pub struct Committer {
    cache: Cache,
    messages: Sender<Message>,
    every: Duration,
    /// Claims with results that wait for the next commit.
    claims: Vec<Claim>,
    dirty: bool,
    /// The commit threshold in bytes.
    large: u64,
    last: Instant,
    running: Option<JoinHandle<()>>,
}

impl Committer {
    pub fn new(cache: Cache, messages: Sender<Message>, every: Option<Duration>) -> Committer {
        Committer {
            cache,
            messages,
            every: every.unwrap_or(EVERY),
            claims: Vec::new(),
            dirty: false,
            large: LARGE,
            last: Instant::now(),
            running: None,
        }
    }

    /// Records a value, which becomes durable with the next commit.
    pub fn record(&mut self, table: Table, key: &Digest, value: Vec<u8>) -> Result<(), CacheError> {
        self.cache.record(table, key, value)?;
        self.mark();
        Ok(())
    }

    /// Notes that something was recorded.
    pub fn mark(&mut self) {
        self.dirty = true;
    }

    /// The same; its claims are kept until it is durable.
    pub fn note(&mut self, claims: Vec<Claim>) {
        self.claims.extend(claims);
        self.mark();
    }

    /// Keeps claims until the end of this committer.
    pub fn hold(&mut self, claims: impl Iterator<Item = Claim>) {
        self.claims.extend(claims);
    }

    /// True while claims of this run wait for a commit: an item that is tried again meets its own.
    pub fn holds_claims(&self) -> bool {
        !self.claims.is_empty() || self.running.is_some()
    }

    /// The approximate number of bytes to come.
    pub fn expect(&mut self, bytes: u64) {
        self.large = (bytes / 2).clamp(SMALL, LARGE);
    }

    pub fn start_if_due(&mut self) {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) {
            self.running = None;
        }
        let is_much = self.every < NEVER && self.cache.pending_bytes() >= self.large;
        let due = self.last.elapsed() >= self.every || is_much;
        if !self.dirty || self.running.is_some() || !due {
            return;
        }
        self.dirty = false;
        self.last = Instant::now();
        let (cache, messages) = (self.cache.clone(), self.messages.clone());
        let claims = Arc::new(Mutex::new(std::mem::take(&mut self.claims)));
        let commit = move || {
            let result = cache.commit().map(drop);
            claims.lock().unwrap_or_else(PoisonError::into_inner).clear();
            // The schedule is gone only after the run.
            let _ = messages.send(Message::Committed(result));
        };
        match Builder::new().name("commit".into()).spawn(commit.clone()) {
            Ok(running) => self.running = Some(running),
            // Without a thread, the schedule waits for the disk.
            Err(_) => commit(),
        }
        // With zero delay, work waits until finished work is durable.
        if self.every.is_zero() {
            self.join();
        }
    }

    /// Waits for a running commit.
    pub fn join(&mut self) {
        if let Some(running) = self.running.take() {
            // A panic there is a bug in the store; the next commit contains its pending data.
            let _ = running.join();
        }
    }

    /// Commits everything that is left.
    pub fn finish(&mut self) -> Result<(), CacheError> {
        self.join();
        if !self.dirty {
            return Ok(());
        }
        self.dirty = false;
        let result = self.cache.commit().map(drop);
        self.claims.clear();
        result
    }
}
