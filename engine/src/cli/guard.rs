//! A stage that ends the whole process must not look like a run that was done.
//!
//! Only `exit` can be noticed from inside. What is ended by a signal, such as an abort or an
//! overflow of the stack, has a status that says so by itself.

use std::io::{self, IsTerminal};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::FAILED;

static IS_WORKING: AtomicBool = AtomicBool::new(false);
static REGISTERED: Once = Once::new();

const MESSAGE: &[u8] = b"error: a stage ended the whole program by calling `exit`\n  \
    help: run again to go on, what was finished is kept; such work belongs into a `command` stage\n";

/// Of what is drawn of a run, from the cursor on.
const ERASE: &[u8] = b"\r\x1b[J";

/// While it lives, whoever ends the process by `exit` ends it as failed.
pub struct Guard(());

impl Guard {
    pub fn new() -> Guard {
        REGISTERED.call_once(|| {
            // SAFETY: the function is made for it: it takes nothing, unwinds nowhere, and calls
            // only what may be called while the process ends. Without room for one more there is
            // no guard, which changes nothing else.
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

/// The program itself is about to end the process.
pub fn stand_down() {
    IS_WORKING.store(false, Ordering::SeqCst);
}

extern "C" fn at_exit() {
    if IS_WORKING.load(Ordering::SeqCst) {
        if io::stderr().is_terminal() {
            let _ = nix::unistd::write(io::stderr(), ERASE);
        }
        // Not through the handle of the standard library, which may be locked for good.
        let _ = nix::unistd::write(io::stderr(), MESSAGE);
        // SAFETY: it ends the process and touches nothing.
        unsafe { libc::_exit(i32::from(FAILED)) }
    }
}
