//! Pushes during a run.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use cache::Cache;
use remote::{Pushing, Remote};

use super::push;

/// Pushes during a run, on a thread of its own.
pub struct Pusher {
    ends: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// The shortest time between two pushes.
const EVERY: Duration = Duration::from_secs(60);
/// Pushing takes at most this part of the time.
const SHARE: u32 = 20;

impl Pusher {
    /// None if the remote is not written to during a run.
    pub fn start(cache: &Cache, remote: Option<&Arc<Remote>>) -> Option<Pusher> {
        let is_written = |remote: &&Arc<Remote>| {
            remote.settings().push == Pushing::Always && remote.is_writable()
        };
        let remote = remote.filter(is_written)?;
        let ends = Arc::new((Mutex::new(false), Condvar::new()));
        let (cache, remote, told) = (cache.clone(), Arc::clone(remote), Arc::clone(&ends));
        let work = move || {
            let mut pause = EVERY;
            while !waited(&told, pause) && remote.is_usable() {
                let started = Instant::now();
                // After a failure, the push at the end of the run tries again and reports it.
                let _ = push(&cache, &remote, &|_, _| {});
                pause = EVERY.max(started.elapsed() * SHARE);
            }
        };
        // If the thread cannot start, everything is pushed at the end.
        let thread = Builder::new().name("push".into()).spawn(work).ok();
        Some(Pusher { ends, thread })
    }
}

/// Waits for this time, or until the end: then true.
fn waited(ends: &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let (ended, changed) = ends;
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(ended, time, |ended| !*ended);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for Pusher {
    /// Waits for a push that is going on.
    fn drop(&mut self) {
        *self.ends.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there is a bug, and the push at the end still follows.
            let _ = thread.join();
        }
    }
}
