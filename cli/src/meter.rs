//! A progress line on a terminal for long reads and writes.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::units;

/// Rewrites one line on standard error, at most ten times a second.
pub struct Meter {
    seen: bool,
    what: &'static str,
    told: Mutex<Option<Instant>>,
}

impl Meter {
    /// Silent if standard error is not a terminal.
    pub fn new(seen: bool, what: &'static str) -> Meter {
        Meter { seen, what, told: Mutex::new(None) }
    }

    pub fn tell(&self, done: u64, total: u64) {
        let is_due = |told: Instant| told.elapsed() >= Duration::from_millis(100);
        let mut last = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if self.seen && last.is_none_or(is_due) {
            *last = Some(Instant::now());
            let (what, done, total) = (self.what, units::bytes(done), units::bytes(total));
            let _ = write!(io::stderr(), "\r{what}: {done} of {total}   ");
        }
    }

    pub fn end(&self) {
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}
