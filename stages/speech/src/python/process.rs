//! A Python process: its start, its messages and its end.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use camino::Utf8Path;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use stage_core::device::DeviceName;
use stage_core::{Context, StageError};
use stage_programs::{self as programs, Program};

use super::messages::{LONGEST, Reply, Request};
use crate::command::private::Private;
use crate::command::run::{CommandError, End};
use crate::command::tail::{self, OutputTail};

/// The interval at which a busy process is checked for a request to stop and for its time limit.
const LOOK: Duration = Duration::from_millis(20);
/// The time to give up a request, or to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// The time in which the last words of a dead process arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The bytes of one read.
const PIECE: usize = 64 << 10;

/// The reason why a process gave no answer. It is of no use any more.
#[derive(Debug)]
pub enum ProcessFault {
    Stopped,
    Late {
        said: End,
    },
    Ended(CommandError),
    /// Its answer is wrong.
    Broken(String),
    Io(io::Error),
}

pub struct Process {
    program: Option<Program>,
    input: Option<File>,
    output: File,
    errors: Option<OutputTail>,
    /// The bytes that it has not taken yet.
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// The bytes of `incoming` without a line break.
    seen: usize,
    requests: u64,
    pub device: DeviceName,
    /// False if it reports each item as soon as it is done.
    pub works_in_batches: bool,
    /// Removed after the program has ended.
    private: Private,
}

/// The settings of a new process.
pub struct Start<'a> {
    pub python: &'a str,
    pub environment: &'a BTreeMap<String, String>,
    pub device: DeviceName,
}

impl Process {
    pub fn start(start: &Start, context: &mut dyn Context) -> Result<Process, StageError> {
        let private = Private::new(context)?;
        let folder = private.path();
        let mut command = Command::new(start.python);
        command.args(["-m", "throstle"]).current_dir(folder).env_clear().envs(start.environment);
        command.env("PWD", folder).env("TMPDIR", folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: io::Error| {
            StageError::of_io(format!("`{}` cannot be started: {error}", start.python), &error)
        };
        let copy = match context.kept() {
            Some(_) => Some(File::create(folder.join("stderr.txt")).map_err(failed)?),
            None => None,
        };
        let mut program = programs::start(&mut command).map_err(failed)?;
        let (Some(input), Some(output), Some(errors)) = program.pipes() else {
            return Err(failed(ErrorKind::BrokenPipe.into()));
        };
        let open = |end: OwnedFd| -> io::Result<File> {
            fcntl(&end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            Ok(end.into())
        };
        Ok(Process {
            program: Some(program),
            input: Some(open(input.into()).map_err(failed)?),
            output: open(output.into()).map_err(failed)?,
            errors: Some(OutputTail::new(errors.into(), copy).map_err(failed)?),
            outgoing: Vec::new(),
            incoming: Vec::new(),
            seen: 0,
            requests: 0,
            device: start.device,
            works_in_batches: true,
            private,
        })
    }

    pub fn folder(&self) -> &Utf8Path {
        self.private.path()
    }

    pub fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.requests
    }

    /// Queues a message; it is written while an answer is awaited.
    pub fn send(&mut self, request: &Request) {
        // None of the messages has keys that are no texts.
        let mut line = serde_json::to_vec(request).unwrap_or_default();
        line.push(b'\n');
        self.outgoing.append(&mut line);
    }

    /// The next message. A request that is given up is cancelled first.
    pub fn receive(
        &mut self,
        request: u64,
        deadline: Option<Instant>,
        context: &mut dyn Context,
    ) -> Result<Reply, ProcessFault> {
        let mut given_up: Option<Instant> = None;
        loop {
            if let Some(line) = self.line() {
                let text = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                return serde_json::from_slice(&line).map_err(|error| {
                    ProcessFault::Broken(format!("its answer `{text}` is invalid: {error}"))
                });
            }
            if self.incoming.len() > LONGEST {
                return Err(ProcessFault::Broken(format!(
                    "it sent a line of more than {LONGEST} bytes"
                )));
            }
            if !self.pump().map_err(ProcessFault::Io)? {
                return Err(self.ended());
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return Err(ProcessFault::Late { said: self.end().1 });
            }
            match given_up {
                None if context.stopping() => {
                    self.send(&Request::Cancel { request });
                    given_up = Some(Instant::now());
                }
                Some(since) if since.elapsed() > GRACE => return Err(ProcessFault::Stopped),
                _ => {}
            }
        }
    }

    /// A whole line of what has arrived, without its break.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.incoming[self.seen..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| self.seen + end) else {
            self.seen = self.incoming.len();
            return None;
        };
        let rest = self.incoming.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.incoming, rest);
        line.pop();
        self.seen = 0;
        Some(line)
    }

    /// Moves what can be moved, and waits a moment if that is nothing. False at the end.
    fn pump(&mut self) -> io::Result<bool> {
        let quiet = {
            let mut files = vec![PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
            let errors = self.errors.as_ref().and_then(OutputTail::open);
            files.extend(errors.map(|end| PollFd::new(end, PollFlags::POLLIN)));
            if let Some(input) = self.input.as_ref().filter(|_| !self.outgoing.is_empty()) {
                files.push(PollFd::new(input.as_fd(), PollFlags::POLLOUT));
            }
            let patience = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::MAX);
            match poll(&mut files, patience) {
                Ok(ready) => ready == 0,
                Err(Errno::EINTR) => true,
                Err(error) => return Err(error.into()),
            }
        };
        self.write()?;
        self.errors.iter_mut().for_each(OutputTail::read);
        let is_open = self.read()?;
        // A descendant may hold the pipe open.
        let has_ended = || self.program.as_ref().is_none_or(|it| it.has_ended().unwrap_or(true));
        Ok(is_open && !(quiet && has_ended()))
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        while !self.outgoing.is_empty() {
            match input.write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The end is seen on the other pipe.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    self.outgoing.clear();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = [0; PIECE];
        match self.output.read(&mut buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.incoming.extend_from_slice(&buffer[..count]);
                Ok(true)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// The way in which it ended by itself, with its last words.
    fn ended(&mut self) -> ProcessFault {
        let (status, end) = self.end();
        match status {
            Err(error) => ProcessFault::Io(error),
            Ok(status) => ProcessFault::Ended(match status.signal() {
                Some(signal) => {
                    let name =
                        Signal::try_from(signal).map_or("unknown", Signal::as_str).to_owned();
                    CommandError::Killed { signal, name, end }
                }
                None => CommandError::Failed { status: status.code().unwrap_or(-1), end },
            }),
        }
    }

    /// Ends it.
    fn end(&mut self) -> (io::Result<std::process::ExitStatus>, End) {
        self.input = None;
        if let Some(program) = &self.program {
            // It may be on its way out.
            let _ = program.ends_within(LAST_WORDS);
        }
        let status = match self.program.take() {
            Some(program) => program.end().map(|ended| ended.status),
            None => Err(ErrorKind::NotFound.into()),
        };
        let Some(tail) = self.errors.take() else { return (status, End::default()) };
        let mut tails = [tail];
        let _ = tail::drain(&mut tails, LAST_WORDS);
        let [tail] = tails;
        // The folder has a new name each time, and a reason must not depend on it.
        (status, End(tail.text().replace(self.private.path().as_str(), ".")))
    }

    /// Asks it to end by itself.
    pub fn ask_to_end(&mut self) {
        self.send(&Request::Stop {});
        let _ = self.write();
        self.input = None;
    }

    /// Waits for that until this time.
    pub fn see_off(self, until: Instant) {
        if let Some(program) = &self.program {
            let _ = program.ends_within(until.saturating_duration_since(Instant::now()));
        }
    }

    /// The time by which processes that were asked to end are killed.
    pub fn parting() -> Instant {
        Instant::now() + GRACE
    }
}
