//! Temporary errors of the machine, such as a full disk.
//!
//! They say nothing about the bytes that were read or written, so no verdict may depend on them.
//! Only this module knows which errors these are.

use std::io::{self, ErrorKind};

use nix::libc::{
    EAGAIN, EBUSY, EDQUOT, EFBIG, EHOSTDOWN, EIO, EMFILE, ENFILE, ENOLCK, ENOMEM, ENOSPC, ENOTCONN,
    EROFS, ESTALE, ETIMEDOUT,
};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::FsError;

/// A fault of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MachineFault {
    /// The disk, a quota, or the limit on file sizes leaves no space.
    DiskFull,
    /// Anything else, such as failing to open one more file.
    Unable,
}

/// The messages of the standard library, `rayon` and C++ for a missing thread or stack.
const NO_THREAD: [&str; 4] = [
    "failed to spawn thread",
    "thread pool has not been initialized",
    "failed to allocate an alternative stack",
    "Resource temporarily unavailable",
];

/// The messages of the standard library, C++ and the program loader for a lack of memory.
const NO_MEMORY: [&str; 6] = [
    "no memory left",
    "memory allocation of",
    "std::bad_alloc",
    "Cannot allocate memory",
    "failed to map segment from shared object",
    "cannot map zero-fill pages",
];

/// The messages of the system, and of stores that answer over HTTP, for a full disk.
const NO_SPACE: [&str; 5] = [
    "No space left on device",
    "no storage space",
    "Disk quota exceeded",
    "quota exceeded",
    "Insufficient Storage",
];

impl MachineFault {
    /// None if the error concerns the file, or the way in which it was opened.
    pub fn of(error: &io::Error) -> Option<MachineFault> {
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<FsError>()) {
            return MachineFault::of(&error.source);
        }
        match error.raw_os_error() {
            Some(number) => MachineFault::of_number(number),
            None => MachineFault::of_kind(error.kind()),
        }
    }

    /// Advice for a person, if the error itself has none.
    pub fn advice(error: &io::Error) -> Option<&'static str> {
        match error.raw_os_error()? {
            EMFILE => Some("raise the limit on open files (`ulimit -n`)"),
            ENFILE => Some("the whole machine has too many open files"),
            _ => None,
        }
    }

    /// The fault behind a panic, such as that of a library without a thread.
    pub fn of_panic(text: &str) -> Option<MachineFault> {
        let is_of_threads = NO_THREAD.iter().any(|sign| text.contains(sign));
        is_of_threads.then_some(MachineFault::Unable)
    }

    /// The fault that the last words of a program tell of.
    pub fn of_last_words(text: &str) -> Option<MachineFault> {
        let is_of_memory = NO_MEMORY.iter().any(|sign| text.contains(sign));
        is_of_memory.then_some(MachineFault::Unable)
    }

    /// The full disk that a message tells of. For messages of other machines and programs; errors of
    /// this process are values.
    pub fn of_message(text: &str) -> Option<MachineFault> {
        let is_full = NO_SPACE.iter().any(|sign| text.contains(sign));
        is_full.then_some(MachineFault::DiskFull)
    }

    fn of_number(number: i32) -> Option<MachineFault> {
        match number {
            ENOSPC | EDQUOT | EFBIG => Some(MachineFault::DiskFull),
            EIO | EAGAIN | ENOMEM | EBUSY | ENFILE | EMFILE | EROFS | ENOLCK | ENOTCONN
            | ETIMEDOUT | EHOSTDOWN | ESTALE => Some(MachineFault::Unable),
            _ => None,
        }
    }

    fn of_kind(kind: ErrorKind) -> Option<MachineFault> {
        match kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Some(MachineFault::DiskFull)
            }
            ErrorKind::OutOfMemory
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::ResourceBusy
            | ErrorKind::StaleNetworkFileHandle
            | ErrorKind::TimedOut => Some(MachineFault::Unable),
            _ => None,
        }
    }
}

/// Turns the limit on file sizes into an error of the write that exceeds it; by default it ends the
/// process. Child processes keep the default: they do not inherit a handler, but would inherit an
/// ignored signal.
pub fn outlive_file_size_limit() {
    extern "C" fn nothing(_: std::ffi::c_int) {}
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing. The call fails only for signals that cannot be handled.
    let _ = unsafe { sigaction(Signal::SIGXFSZ, &action) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Call;

    fn of(number: i32) -> Option<MachineFault> {
        MachineFault::of(&io::Error::from_raw_os_error(number))
    }

    #[test]
    fn what_the_machine_could_not_do_is_told_from_what_a_file_is() {
        for full in [ENOSPC, EDQUOT, EFBIG] {
            assert_eq!(of(full), Some(MachineFault::DiskFull), "{full}");
        }
        for unable in [EIO, EMFILE, ENFILE, ENOMEM, EROFS, ESTALE] {
            assert_eq!(of(unable), Some(MachineFault::Unable), "{unable}");
        }
        use nix::libc::{EACCES, EISDIR, ENAMETOOLONG, ENOENT};
        for file in [ENOENT, EACCES, EISDIR, ENAMETOOLONG] {
            assert_eq!(of(file), None, "{file}");
        }
    }

    #[test]
    fn a_panic_for_want_of_a_thread_is_of_the_machine() {
        let error = io::Error::from_raw_os_error(EAGAIN);
        for text in [
            format!("failed to spawn thread: {error:?}"),
            format!(
                "The global thread pool has not been initialized.: ThreadPoolBuildError {{ kind: IOError({error:?}) }}"
            ),
        ] {
            assert_eq!(MachineFault::of_panic(&text), Some(MachineFault::Unable), "{text}");
        }
        assert_eq!(MachineFault::of_panic("index out of bounds"), None);
    }

    #[test]
    fn a_program_that_says_that_it_has_no_memory_is_not_to_blame() {
        for text in [
            "the worker ended (exit status: 75): it closed its output; last output: \
             throstle-torch: the system has no memory left",
            "throstle-torch: error while loading shared libraries: libtorch_cpu.so: failed to map \
             segment from shared object",
            "terminate called after throwing an instance of 'std::bad_alloc'",
        ] {
            assert_eq!(MachineFault::of_last_words(text), Some(MachineFault::Unable), "{text}");
        }
        assert_eq!(MachineFault::of_last_words("libtorch_cpu.so: cannot open shared object"), None);
    }

    #[test]
    fn a_message_about_a_full_disk_is_known_in_the_words_of_the_system() {
        for number in [ENOSPC, EDQUOT] {
            let text = FsError::new(Call::Write, "/x".into(), io::Error::from_raw_os_error(number));
            let told = MachineFault::of_message(&text.whole());
            assert_eq!(told, Some(MachineFault::DiskFull), "{}", text.whole());
        }
        assert_eq!(MachineFault::of_message("permission denied"), None);
    }

    #[test]
    fn an_error_that_was_handed_through_a_writer_is_still_known() {
        let source = io::Error::from_raw_os_error(ENOSPC);
        let wrapped = io::Error::other(FsError::new(Call::Write, "/x".into(), source));
        assert_eq!(MachineFault::of(&wrapped), Some(MachineFault::DiskFull));
        let by_kind = io::Error::from(ErrorKind::StorageFull);
        assert_eq!(MachineFault::of(&by_kind), Some(MachineFault::DiskFull));
    }
}
