//! Programs that the engine and its stages start, each with all that it starts in turn.
//!
//! A program leads a process group of its own. It is reaped after all of its group has ended, and
//! not before: as long as it can be signalled its process id is not reused. To end the process at
//! once, with no time for stages to clean up, call [`end_all`]; if the process is killed, the
//! watcher ends its programs (`watcher`).

mod tree;
pub mod watcher;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use watcher::Watched;

/// The time that a killed program may take to be gone.
const LAST_BREATH: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
/// The time that the end of the process waits for a program that is being started.
const START: Duration = Duration::from_millis(300);

struct Register {
    last: u64,
    programs: BTreeMap<u64, Handle>,
    /// None before the first program, and if nothing can watch.
    watched: Option<Watched>,
}

/// Held while a program is started and not in the register yet.
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
    let child = command.process_group(0).spawn()?;
    let handle = Handle(Arc::new(Leader { id: child.id(), is_reaped: Mutex::new(false) }));
    let mut register = register();
    register.last += 1;
    let number = register.last;
    register.programs.insert(number, handle.clone());
    let slot = watcher::enter(&mut register.watched, child.id());
    Ok(Program { child, handle, number, slot, has_left: false })
}

/// Ends all that runs. Nothing is started any more: whoever tries to waits for ever, so the
/// caller has to end the process.
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

/// Signals a program from another thread than the one that waits for it.
#[derive(Clone)]
pub struct Handle(Arc<Leader>);

impl Handle {
    /// Kills the program and everything that it has started and that is still below it.
    pub fn end(&self) {
        self.signal(|group| {
            tree::kill(&[group.as_raw_pid()], None);
            // This works even if processes cannot be listed.
            let _ = kill_process_group(group, Signal::KILL);
        });
    }

    /// Kills the group alone; once its leader has ended, nothing else can be found.
    fn end_group(&self) {
        // An empty group is no error.
        self.signal(|group| _ = kill_process_group(group, Signal::KILL));
    }

    /// Continues a program that was stopped.
    pub fn wake(&self) {
        self.signal(|group| _ = kill_process_group(group, Signal::CONT));
    }

    /// The processor time of the program itself in ticks; none if unknown.
    pub fn ticks(&self) -> Option<u64> {
        let reaped = self.0.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if *reaped { None } else { tree::ticks(self.0.id) }
    }

    fn signal(&self, signal: impl FnOnce(Pid)) {
        let reaped = self.0.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let group = i32::try_from(self.0.id).ok().and_then(Pid::from_raw);
        if let (false, Some(group)) = (*reaped, group) {
            signal(group);
        }
    }
}

/// A program with everything that it started. Dropping it kills the rest.
pub struct Program {
    child: Child,
    handle: Handle,
    number: u64,
    slot: Option<watcher::Slot>,
    has_left: bool,
}

impl Program {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Its ends of the pipes that were requested and not taken before.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// True when it has ended by itself. Programs that it has started may still be there.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn has_ended(&self) -> io::Result<bool> {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(id) = id else { return Ok(true) };
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(id), how)?.is_some())
    }

    /// Waits until it has ended by itself, but not for longer than this.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn ends_within(&self, patience: Duration) -> io::Result<bool> {
        let begin = Instant::now();
        loop {
            let has_ended = self.has_ended()?;
            if has_ended || begin.elapsed() >= patience {
                return Ok(has_ended);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills the rest of it, and says how it ended.
    ///
    /// # Errors
    ///
    /// Those of the system calls; `TimedOut` if the system does not let go of it.
    pub fn end(mut self) -> io::Result<ExitStatus> {
        self.leave()
    }

    fn leave(&mut self) -> io::Result<ExitStatus> {
        self.has_left = true;
        match self.has_ended()? {
            // Programs that it started and left running are in its group, or out of reach.
            true => self.handle.end_group(),
            false => self.handle.end(),
        }
        if !self.ends_within(LAST_BREATH)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // Before its process id can be reused.
        self.forget();
        let mut reaped = self.handle.0.is_reaped.lock().unwrap_or_else(PoisonError::into_inner);
        *reaped = true;
        self.child.wait()
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
