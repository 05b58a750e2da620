//! The process of a worker as other threads than its own see it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stage_programs::Handle;

/// Lets the schedule watch the process of a task, and give up on it.
#[derive(Clone, Default)]
pub struct ProcessHandle(Arc<HandleState>);

#[derive(Default)]
struct HandleState {
    process: Mutex<Option<Handle>>,
    /// The latest task that was given up on. It, and one before it, may not have reached the
    /// process yet; one before it that was not given up on is retried.
    condemned: AtomicU64,
    /// The run is stopping, and the process does not.
    is_abandoned: AtomicBool,
    /// The number of messages from it.
    messages: AtomicU64,
}

impl ProcessHandle {
    pub fn end_task(&self, ticket: u64) {
        self.0.condemned.fetch_max(ticket, Ordering::SeqCst);
        self.end();
    }

    /// Ends the process because the run stops: its work is left for the next run.
    pub fn abandon(&self) {
        self.0.is_abandoned.store(true, Ordering::SeqCst);
        self.end();
    }

    fn end(&self) {
        let process = self.process().clone();
        if let Some(process) = process {
            process.end();
        }
    }

    /// Continues a process that was stopped by a signal.
    pub fn wake(&self) {
        if let Some(process) = &*self.process() {
            process.wake();
        }
    }

    /// A value that changes whenever the process has done anything.
    pub fn pulse(&self) -> (u64, Option<u64>) {
        let ticks = self.process().as_ref().and_then(Handle::ticks);
        (self.0.messages.load(Ordering::SeqCst), ticks)
    }

    fn process(&self) -> MutexGuard<'_, Option<Handle>> {
        self.0.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_process(&self, process: Option<Handle>) {
        *self.process() = process;
        // `leave` may have been called meanwhile, without seeing the process.
        if self.is_abandoned() {
            self.end();
        }
    }

    pub fn is_condemned(&self, ticket: u64) -> bool {
        self.0.condemned.load(Ordering::SeqCst) >= ticket
    }

    pub fn is_abandoned(&self) -> bool {
        self.0.is_abandoned.load(Ordering::SeqCst)
    }

    pub fn has_said_something(&self) {
        self.0.messages.fetch_add(1, Ordering::SeqCst);
    }
}
