//! Detects programs that ran out of disk space. The result of such a program says nothing about its
//! input.
//!
//! Programs that run at the same time share a disk, and the first one to end frees its space before
//! the disk is checked for another. So every check is remembered, and each program is followed by
//! one before its folder is emptied.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cache::fs::Space;
use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::signal::Signal;

use super::run::CommandError;

/// Programs that ignore TMPDIR write there too.
const TEMPORARY: &str = "/tmp";
/// With more free space than this, a program that reports a full disk means another disk.
const PLENTY: u64 = 1 << 30;
/// With less free space than this, a failure is no verdict on the input.
const LITTLE: u64 = 64 << 20;
/// The time after the folders of a program are removed in which the rest must be gone.
const REMOVAL: Duration = Duration::from_secs(2);

/// The last time at which a disk was seen in each state.
#[derive(Default)]
struct DiskHistory {
    full: Option<Instant>,
    nearly_full: Option<Instant>,
}

/// The states of the disks that programs use.
#[derive(Default)]
pub struct Disks(Mutex<HashMap<u64, DiskHistory>>);

impl Disks {
    /// The record of this process.
    pub fn shared() -> &'static Disks {
        static SHARED: std::sync::LazyLock<Disks> = std::sync::LazyLock::new(Disks::default);
        &SHARED
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<u64, DiskHistory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the disk of a folder; None if the system does not report it.
    pub fn look(&self, folder: &Utf8Path) -> Option<Space> {
        let space = Space::of(folder).ok()?;
        self.note(&space, Instant::now());
        Some(space)
    }

    fn note(&self, space: &Space, now: Instant) {
        if space.is_nearly_full() || space.is_full() {
            let mut seen = self.seen();
            let seen = seen.entry(space.disk).or_default();
            seen.nearly_full = Some(now);
            if space.is_full() {
                seen.full = Some(now);
            }
        }
    }

    fn was_full(&self, disk: u64, since: Instant) -> bool {
        self.seen().get(&disk).and_then(|seen| seen.full).is_some_and(|at| at >= since)
    }

    fn was_nearly_full(&self, disk: u64, since: Instant) -> bool {
        self.seen().get(&disk).and_then(|seen| seen.nearly_full).is_some_and(|at| at >= since)
    }
}

/// The disks of one program, from its start on.
pub struct Room<'a> {
    disks: &'static Disks,
    folder: &'a Utf8Path,
    /// In the parent of the folders of this run; None for a folder of the user.
    mark: Option<Utf8PathBuf>,
    /// The folders in it that were made for the program.
    within: &'a [&'a str],
    started: Instant,
}

impl<'a> Room<'a> {
    pub fn of(folder: &'a Utf8Path, within: &'a [&'a str]) -> Room<'a> {
        let mark = folder.parent().map(cache::staging_lock).filter(|mark| mark.exists());
        Room { disks: Disks::shared(), folder, mark, within, started: Instant::now() }
    }

    /// False if somebody has removed the folder, or files in it: the mark is removed with them,
    /// even if the program has made its folder again.
    fn is_in_place(&self) -> bool {
        let is_marked = || self.mark.as_ref().is_none_or(|mark| mark.exists());
        let is_whole = || self.within.iter().all(|name| self.folder.join(name).is_dir());
        let start = Instant::now();
        loop {
            if !self.folder.exists() || !is_marked() {
                return false;
            }
            // The program may have removed its own folders. If somebody is removing everything,
            // the rest is gone soon.
            if is_whole() || self.mark.is_none() || start.elapsed() > REMOVAL {
                return true;
            }
            std::thread::sleep(REMOVAL / 100);
        }
    }

    /// The result of a program, unless it ran out of space. Must be called before anything in its
    /// folder is removed.
    pub fn judge<T>(&self, given: Result<T, CommandError>) -> Result<T, CommandError> {
        let space = self.disks.look(self.folder);
        let without_room = |error: Option<CommandError>| CommandError::NoRoom {
            folder: self.folder.parent().unwrap_or(self.folder).to_owned(),
            free: space.map_or(0, |space| space.free),
            cause: error.map_or_else(String::new, |error| format!("; {}", error.in_short())),
        };
        match given {
            // It may have continued after a failed write.
            Ok(_) if self.was(Disks::was_full, space) => Err(without_room(None)),
            Ok(given) => Ok(given),
            Err(error) if !error.is_of_the_program() => Err(error),
            Err(error) if self.had_no_room(&error, space) => Err(without_room(Some(error))),
            Err(error) if says(&error, &FULL) => {
                Err(CommandError::NoRoomElsewhere { cause: error.in_short() })
            }
            Err(error) if says_it_cannot_start(&error) => {
                Err(CommandError::NoProcess { cause: error.in_short() })
            }
            Err(error) if says_it_is_the_machine(&error) || !self.is_in_place() => {
                Err(CommandError::Machine { cause: error.in_short() })
            }
            Err(error) if self.has_little_room(space) => Err(CommandError::LittleRoom {
                folder: self.folder.parent().unwrap_or(self.folder).to_owned(),
                free: space.map_or(0, |space| space.free),
                cause: error.in_short(),
            }),
            Err(error) => Err(error),
        }
    }

    fn was(&self, was: fn(&Disks, u64, Instant) -> bool, space: Option<Space>) -> bool {
        space.is_some_and(|space| was(self.disks, space.disk, self.started))
    }

    /// A program may have filled such a small disk and removed its files before it ended.
    fn has_little_room(&self, space: Option<Space>) -> bool {
        space.is_some_and(|space| space.free < LITTLE)
    }

    fn had_no_room(&self, error: &CommandError, space: Option<Space>) -> bool {
        let temporary = || self.disks.look(Utf8Path::new(TEMPORARY));
        let is_tight = space.is_none_or(|space| space.free < PLENTY);
        self.was(Disks::was_nearly_full, space)
            || self.was(Disks::was_nearly_full, temporary())
            || matches!(error, CommandError::Killed { signal, .. } if *signal == Signal::SIGXFSZ as i32)
            || (is_limited(&[Resource::RLIMIT_FSIZE]) && says(error, &["file too large"]))
            || (is_tight && says(error, &FULL))
    }
}

/// The system's messages for it, in the language that programs run in. Lower case.
const FULL: [&str; 2] = ["no space left on device", "disk quota exceeded"];
const UNABLE: [&str; 8] = [
    "input/output error",
    "too many open files",
    "cannot allocate memory",
    "memoryerror",
    "std::bad_alloc",
    "read-only file system",
    "stale file handle",
    "transport endpoint is not connected",
];
/// The words of the loader, of shells and of programs for a limit on their memory. Without such a
/// limit the input may ask for too much.
const NO_MEMORY: [&str; 5] = [
    "out of memory",
    "out of space",
    "memory exhausted",
    "failed to map segment",
    "cannot map zero-fill pages",
];
/// Limits of processes and threads, which no input causes: the next item would meet them too.
const NO_PROCESS: [&str; 4] = [
    "cannot fork",
    "can't start new thread",
    "failed to spawn thread",
    "resource temporarily unavailable",
];

fn says_it_cannot_start(error: &CommandError) -> bool {
    says(error, &NO_PROCESS)
}

fn says(error: &CommandError, texts: &[&str]) -> bool {
    let said = error.said().to_lowercase();
    texts.iter().any(|text| said.contains(text))
}

fn says_it_is_the_machine(error: &CommandError) -> bool {
    let lacks_memory = || is_limited(&MEMORY_LIMITS) && says(error, &NO_MEMORY);
    says(error, &UNABLE) || lacks_memory()
}

const MEMORY_LIMITS: [Resource; 2] = [Resource::RLIMIT_AS, Resource::RLIMIT_DATA];

fn is_limited(resources: &[Resource]) -> bool {
    let is_finite = |(limit, _)| limit != RLIM_INFINITY;
    resources.iter().any(|resource| getrlimit(*resource).is_ok_and(is_finite))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, clippy::unwrap_used)]
    use super::*;
    use crate::command::run::End;

    fn failed(said: &str) -> CommandError {
        CommandError::Failed { status: 1, end: End(said.to_owned()) }
    }

    #[test]
    fn what_another_program_saw_since_the_start_counts_and_what_was_before_does_not() {
        let disks = Disks::default();
        let before = Instant::now();
        let full = Space { disk: 7, free: 0, total: 500_000, files: None };
        disks.note(&full, before);
        assert!(disks.was_full(7, before) && disks.was_nearly_full(7, before));
        assert!(!disks.was_full(8, before), "another disk");
        let after = before + std::time::Duration::from_millis(1);
        assert!(!disks.was_full(7, after) && !disks.was_nearly_full(7, after));
        disks.note(&Space { free: 30_000, ..full }, after);
        assert!(!disks.was_full(7, after) && disks.was_nearly_full(7, after));
    }

    #[test]
    fn a_program_that_speaks_of_the_machine_gives_no_verdict() {
        for said in [
            "OSError: [Errno 24] Too many open files: 'x'",
            "read failed: Input/output error",
            "Traceback (most recent call last):\n  in <module>\nMemoryError",
        ] {
            assert!(says_it_is_the_machine(&failed(said)), "{said}");
        }
        for said in [
            "sh: 1: Cannot fork",
            "RuntimeError: can't start new thread",
            "bash: fork: retry: Resource temporarily unavailable",
        ] {
            assert!(says_it_cannot_start(&failed(said)), "{said}");
        }
        for said in ["", "not a WAV file", "no voice in it", "the file is too short"] {
            assert!(!says_it_is_the_machine(&failed(said)), "{said}");
        }
    }

    #[test]
    fn a_folder_that_is_emptied_from_outside_makes_no_verdict() {
        let scratch = tempfile::tempdir().unwrap();
        let own = Utf8Path::from_path(scratch.path()).unwrap().join("1-a");
        let mark = cache::staging_lock(&own);
        let folder = own.join("command-1");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(&mark, "").unwrap();
        let no_output = || CommandError::NoOutput { path: "t".into(), end: End::default() };
        let room = Room::of(&folder, &["out"]);
        let code = || room.judge::<()>(Err(no_output())).unwrap_err().reject_code();
        // The program has removed the folder of its outputs.
        assert_eq!(code(), Some("no-output"));
        // The folder of the outputs is gone first, the rest follows.
        let removal = std::thread::spawn({
            let mark = mark.clone();
            move || {
                std::thread::sleep(REMOVAL / 20);
                std::fs::remove_file(mark).unwrap();
            }
        });
        assert_eq!(code(), None);
        removal.join().unwrap();
        std::fs::write(&mark, "").unwrap();
        std::fs::create_dir(folder.join("out")).unwrap();
        assert_eq!(code(), Some("no-output"));
        // The program has made its folder again.
        std::fs::remove_file(&mark).unwrap();
        assert_eq!(code(), None);
    }

    #[test]
    fn a_bad_input_on_a_disk_with_room_is_a_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::of(Utf8Path::from_path(folder.path()).unwrap(), &[]);
        let judged = room.judge::<()>(Err(failed("no voice"))).unwrap_err();
        assert_eq!(judged.reject_code(), Some("command-failed"));
        let judged = room.judge::<()>(Err(failed("Input/output error"))).unwrap_err();
        assert_eq!(judged.reject_code(), None);
        assert!(room.judge(Ok(1)).is_ok());
    }
}
