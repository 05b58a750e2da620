//! Memory that the system does not give.
//!
//! The standard library aborts a program without memory, and an abort looks like a bug. A program
//! with this [`Allocator`] that calls [`outlive`] ends with a message and an exit code of its
//! choice. Nothing that is finished is lost by that: it is the same as being killed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::OnceLock;

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// The allocator of the system; it notes when there is no memory.
#[derive(Debug)]
pub struct Allocator;

/// The last words of a program without memory, and its exit code.
#[derive(Debug)]
struct LastWords {
    message: &'static str,
    code: u8,
}

/// More than the C library asks for at a time.
const SPARE: usize = 1 << 20;

static END: OnceLock<LastWords> = OnceLock::new();

thread_local! {
    /// The bytes that this thread was refused, if it has not got as many since; else 0.
    static REFUSED: Cell<usize> = const { Cell::new(0) };
}

/// Ends this program with a message on standard error and an exit code where it would be aborted
/// since the system gives it no memory. The program needs [`Allocator`] as its global one.
pub fn outlive(message: &'static str, code: u8) {
    if END.set(LastWords { message, code }).is_err() {
        return;
    }
    // The handler stays installed, since several threads may run out of memory and abort at the
    // same time. After an abort for another reason the C library removes it.
    let flags = SaFlags::SA_ONSTACK;
    let action = SigAction::new(SigHandler::Handler(on_abort), flags, SigSet::empty());
    // SAFETY: the handler calls only what a signal handler may call. The call fails only for
    // signals that cannot be handled.
    let _ = unsafe { sigaction(Signal::SIGABRT, &action) };
}

/// An abort for any other reason goes on.
extern "C" fn on_abort(_: c_int) {
    let Some(LastWords { message, code }) = END.get() else { return };
    if REFUSED.get() == 0 && !is_exhausted() {
        return;
    }
    // SAFETY: the descriptor is only written to; if it is closed, the write fails.
    let errors = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let _ = nix::unistd::write(errors, message.as_bytes());
    // SAFETY: it ends the process and touches nothing.
    unsafe { libc::_exit(c_int::from(*code)) }
}

/// Tests if the system refuses memory now: the C library also aborts by itself without it.
fn is_exhausted() -> bool {
    // A limit on the data of a process counts pages that may be written.
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: it maps fresh pages, which nobody uses; the process ends soon.
    let given = unsafe { libc::mmap(std::ptr::null_mut(), SPARE, access, kind, -1, 0) };
    given == libc::MAP_FAILED
}

fn noted(given: *mut u8, bytes: usize) -> *mut u8 {
    // A thread that gets as much again has not been aborted: it had a way on. Less may be for the
    // message of the abort itself.
    if given.is_null() {
        REFUSED.set(bytes.max(1))
    } else if REFUSED.get() > 0 && bytes >= REFUSED.get() {
        REFUSED.set(0)
    }
    given
}

// SAFETY: every call is handed on to the allocator of the system as it is.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        noted(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        noted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        noted(unsafe { System.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}
