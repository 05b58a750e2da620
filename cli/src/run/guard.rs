//! Reports a failure if a stage calls `exit`: that must not look like a finished run.
//!
//! Only `exit` can be detected from inside. A process that a signal ends, such as by an abort or a
//! stack overflow, already has a status that shows it.

use std::io::{self, IsTerminal};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::FAILED;

static IS_WORKING: AtomicBool = AtomicBool::new(false);
static REGISTERED: Once = Once::new();

const MESSAGE: &[u8] = b"error: a stage ended the program by calling `exit`\n  help: run again to \
                         continue, finished work is kept; move that code into a `command` stage\n";

/// Clears the screen from the cursor to its end, where the display of a run may be.
const ERASE: &[u8] = b"\r\x1b[J";

/// While this value lives, a call of `exit` ends the process as failed.
pub struct Guard(());

impl Guard {
    pub fn new() -> Guard {
        REGISTERED.call_once(|| {
            // SAFETY: `atexit` accepts this function: it has no arguments, does not unwind, and
            // calls only functions that are allowed during exit. If registration fails there is no
            // guard, and nothing else changes.
            let _ = unsafe { libc::atexit(at_exit) };
        });
        IS_WORKING.store(true, Ordering::SeqCst);
        Guard(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        stand_down();
    }
}

/// Tells the guard that the program itself is about to end the process.
pub fn stand_down() {
    IS_WORKING.store(false, Ordering::SeqCst);
}

extern "C" fn at_exit() {
    if IS_WORKING.load(Ordering::SeqCst) {
        if io::stderr().is_terminal() {
            let _ = nix::unistd::write(io::stderr(), ERASE);
        }
        // The handle of the standard library is not used, since a thread may hold its lock for
        // ever.
        let _ = nix::unistd::write(io::stderr(), MESSAGE);
        // SAFETY: `_exit` ends the process and touches no memory.
        unsafe { libc::_exit(i32::from(FAILED)) }
    }
}
