//! Child programs of the engine and its stages, each with its descendants.
//!
//! A program leads its own process group. It is reaped only after its whole group has ended: as
//! long as it can be signalled, its process id is not reused. To end the process at once, with no
//! time for stages to clean up, call [`end_all`]; if the process is killed, the watcher ends its
//! programs (`watcher`).

mod pipe;
mod tree;
pub mod watcher;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    test_kill_process_group, waitid,
};

pub use pipe::{Patience, Pipe};
use watcher::Watched;

/// The time that a killed program may take to exit.
const LAST_BREATH: Duration = Duration::from_secs(5);
/// The time between two looks at a program if the system does not report its end.
const POLL: Duration = Duration::from_millis(5);
/// The time that the end of the process waits for a program that is just starting.
const START: Duration = Duration::from_millis(300);

struct Register {
    last: u64,
    programs: BTreeMap<u64, Handle>,
    /// None before the first program, and if no watcher can run.
    watched: Option<Watched>,
}

/// Held while a program starts and is not registered yet.
static STARTING: RwLock<()> = RwLock::new(());
static REGISTER: Mutex<Register> =
    Mutex::new(Register { last: 0, programs: BTreeMap::new(), watched: None });

fn register() -> MutexGuard<'static, Register> {
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program in a process group of its own.
///
/// # Errors
///
/// Those of starting a program.
pub fn start(command: &mut Command) -> io::Result<Program> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let slot = watcher::enter(&mut register().watched);
    let started = command.process_group(0).spawn();
    let mut register = register();
    let child = match started {
        Ok(child) => child,
        Err(error) => {
            watcher::leave(&mut register.watched, slot);
            return Err(error);
        }
    };
    watcher::set_group(&register.watched, slot.as_ref(), child.id());
    let handle = Handle(Arc::new(Leader { id: child.id(), is_reaped: Mutex::new(false) }));
    register.last += 1;
    let number = register.last;
    register.programs.insert(number, handle.clone());
    let ending = ending(child.id());
    Ok(Program { child, handle, number, slot, ending, has_left: false })
}

/// A descriptor that becomes readable when the process ends. None if the system has no more of them.
fn ending(id: u32) -> Option<OwnedFd> {
    pidfd_open(pid(id)?, PidfdFlags::empty()).ok()
}

fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// Waits until one of these can be read, but not for longer than this.
///
/// # Errors
///
/// Those of the system call.
pub fn wait_to_read<'a>(
    files: impl IntoIterator<Item = BorrowedFd<'a>>,
    patience: Duration,
) -> io::Result<()> {
    let mut files: Vec<PollFd> =
        files.into_iter().map(|file| PollFd::new(file, PollFlags::POLLIN)).collect();
    let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    match poll(&mut files, patience) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Ends all running programs. Nothing starts any more: a caller that tries to start one waits for
/// ever, so the process has to end.
pub fn end_all() {
    let begin = Instant::now();
    while begin.elapsed() < START {
        if let Ok(starting) = STARTING.try_write() {
            std::mem::forget(starting);
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let programs: Vec<Handle> = register().programs.values().cloned().collect();
    programs.iter().for_each(Handle::end);
}

/// The leader of a group. It is signalled only until it is reaped.
struct Leader {
    id: u32,
    is_reaped: Mutex<bool>,
}

/// Signals a program from another thread than the waiting one.
#[derive(Clone)]
pub struct Handle(Arc<Leader>);

impl Handle {
    /// Kills the program and all its descendants that are still below it.
    pub fn end(&self) {
        self.signal(|group| {
            tree::kill(&[group.as_raw_pid()], None);
            // This works even if processes cannot be listed.
            let _ = kill_process_group(group, Signal::KILL);
        });
    }

    /// Kills only the group; once its leader has ended, nothing else can be found.
    fn end_group(&self) {
        // An empty group is no error.
        self.signal(|group| _ = kill_process_group(group, Signal::KILL));
    }

    /// Continues a program that was stopped.
    pub fn wake(&self) {
        self.signal(|group| _ = kill_process_group(group, Signal::CONT));
    }

    /// The processor time of the program itself in ticks; None if unknown.
    pub fn ticks(&self) -> Option<u64> {
        let reaped = self.0.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if *reaped { None } else { tree::ticks(self.0.id) }
    }

    fn signal(&self, signal: impl FnOnce(Pid)) {
        let reaped = self.0.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if let (false, Some(group)) = (*reaped, pid(self.0.id)) {
            signal(group);
        }
    }
}

/// The end of a program.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// No process of its group is left, not even one that is still dying.
    pub is_group_gone: bool,
}

/// A program with its descendants. Dropping it kills the rest.
pub struct Program {
    child: Child,
    handle: Handle,
    number: u64,
    slot: Option<watcher::Slot>,
    /// Becomes readable when it ends.
    ending: Option<OwnedFd>,
    has_left: bool,
}

impl Program {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The requested pipe ends that were not taken before.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// True if it has exited by itself. Its descendants may still be running.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn has_ended(&self) -> io::Result<bool> {
        let Some(id) = pid(self.child.id()) else { return Ok(true) };
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(id), how)?.is_some())
    }

    /// Waits at most this long for it to exit by itself, or for one of these files to become
    /// readable. True when it has exited.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn ends_or_says<'a>(
        &'a self,
        files: impl Iterator<Item = BorrowedFd<'a>>,
        patience: Duration,
    ) -> io::Result<bool> {
        let patience = if self.ending.is_some() { patience } else { patience.min(POLL) };
        wait_to_read(files.chain(self.ending.as_ref().map(AsFd::as_fd)), patience)?;
        self.has_ended()
    }

    /// Waits at most this long for it to exit by itself.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn ends_within(&self, patience: Duration) -> io::Result<bool> {
        let begin = Instant::now();
        loop {
            let left = patience.saturating_sub(begin.elapsed());
            let has_ended = self.ends_or_says(std::iter::empty(), left)?;
            if has_ended || left.is_zero() {
                return Ok(has_ended);
            }
        }
    }

    /// Kills its descendants, and returns its exit status.
    ///
    /// # Errors
    ///
    /// Those of the system calls; `TimedOut` if the system does not let go of it.
    pub fn end(mut self) -> io::Result<Ended> {
        self.leave()
    }

    fn leave(&mut self) -> io::Result<Ended> {
        self.has_left = true;
        if self.has_ended()? {
            // Remaining descendants are in its group, or out of reach.
            self.handle.end_group();
        } else {
            self.handle.end();
            if !self.ends_within(LAST_BREATH)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        // Before its process id can be reused.
        self.forget();
        let mut reaped = self.handle.0.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        *reaped = true;
        let status = self.child.wait()?;
        // Any other answer may concern a new group with the same number.
        let probe = pid(self.child.id()).map(test_kill_process_group);
        Ok(Ended { status, is_group_gone: probe == Some(Err(rustix::io::Errno::SRCH)) })
    }

    fn forget(&mut self) {
        let mut register = register();
        register.programs.remove(&self.number);
        watcher::leave(&mut register.watched, self.slot.take());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.has_left {
            // Its status is not needed.
            let _ = self.leave();
        }
    }
}

#[cfg(test)]
mod tests;
