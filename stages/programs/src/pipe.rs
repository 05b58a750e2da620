//! The pipes of a program that answers questions, with a limit on the time until it does.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Handle;

/// The time between two looks at a program that is silent.
const LOOK: Duration = Duration::from_secs(1);

/// The time to wait for a program. By default there is no limit.
#[derive(Clone, Default)]
pub struct Patience {
    limit: Option<Duration>,
    end: Option<Instant>,
    silence: Option<Silence>,
}

/// The limit on the time in which a program neither says nor computes anything.
#[derive(Clone)]
struct Silence {
    limit: Duration,
    program: Handle,
    ticks: Option<u64>,
    since: Instant,
}

impl Patience {
    /// Ends when this time has passed.
    pub fn within(limit: Duration) -> Patience {
        let end = Instant::now().checked_add(limit);
        Patience { limit: Some(limit), end, silence: None }
    }

    /// Ends also when the program has neither said nor computed anything for this time.
    pub fn unless_silent(self, limit: Duration, program: Handle) -> Patience {
        let (ticks, since) = (program.ticks(), Instant::now());
        Patience { silence: Some(Silence { limit, program, ticks, since }), ..self }
    }

    /// The limit that has passed.
    pub fn passed(&self) -> Option<Duration> {
        self.limit.filter(|_| self.end.is_some_and(|end| end <= Instant::now()))
    }

    /// Waits until a file is ready, or fails with [`ErrorKind::TimedOut`].
    fn wait(&mut self, file: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
        loop {
            let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
            let look = self.silence.as_ref().map(|_| LOOK);
            let time = left.into_iter().chain(look).min();
            let time = match time {
                // A part of a millisecond would be rounded down to a busy loop.
                Some(time) => PollTimeout::try_from(time + Duration::from_millis(1))
                    .unwrap_or(PollTimeout::MAX),
                None => PollTimeout::NONE,
            };
            match poll(&mut [PollFd::new(file, flags)], time) {
                Ok(0) | Err(Errno::EINTR) => self.check()?,
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn check(&mut self) -> io::Result<()> {
        if let Some(limit) = self.passed() {
            let message = format!("no answer within {} s", limit.as_secs_f64());
            return Err(Error::new(ErrorKind::TimedOut, message));
        }
        let Some(silence) = &mut self.silence else { return Ok(()) };
        let ticks = silence.program.ticks();
        if ticks != silence.ticks {
            (silence.ticks, silence.since) = (ticks, Instant::now());
        }
        if silence.since.elapsed() < silence.limit {
            Ok(())
        } else {
            let seconds = silence.limit.as_secs_f64();
            let message = format!("it has neither answered nor computed for {seconds} s");
            Err(Error::new(ErrorKind::TimedOut, message))
        }
    }

    fn is_heard(&mut self) {
        if let Some(silence) = &mut self.silence {
            silence.since = Instant::now();
        }
    }
}

/// The own end of a pipe.
pub struct Pipe<F> {
    file: F,
    pub patience: Patience,
}

impl<F: AsFd> Pipe<F> {
    /// The other end is not changed.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn new(file: F) -> io::Result<Pipe<F>> {
        rustix::io::ioctl_fionbio(&file, true)?;
        Ok(Pipe { file, patience: Patience::default() })
    }

    fn when_ready<T>(
        &mut self,
        flags: PollFlags,
        mut work: impl FnMut(&mut F) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match work(&mut self.file) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.patience.wait(self.file.as_fd(), flags)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => {
                    self.patience.is_heard();
                    return done;
                }
            }
        }
    }
}

impl<F: Read + AsFd> Read for Pipe<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::POLLIN, |file| file.read(bytes))
    }
}

impl<F: Write + AsFd> Write for Pipe<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::POLLOUT, |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::disallowed_methods)]
    use std::process::{ChildStdin, ChildStdout, Command, Stdio};

    use super::*;
    use crate::{self as programs, Program};

    fn started(script: &str) -> (Program, Pipe<ChildStdin>, Pipe<ChildStdout>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = programs::start(&mut command).unwrap();
        let (input, output, _) = program.pipes();
        (program, Pipe::new(input.unwrap()).unwrap(), Pipe::new(output.unwrap()).unwrap())
    }

    #[test]
    fn an_answer_of_any_size_is_read_and_written_whole() {
        let (program, mut input, mut output) = started("cat");
        let sent: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
        let expected = sent.clone();
        let writer = std::thread::spawn(move || {
            input.patience = Patience::within(Duration::from_secs(600));
            input.write_all(&sent).unwrap();
        });
        let mut got = Vec::new();
        output.read_to_end(&mut got).unwrap();
        writer.join().unwrap();
        assert!(got == expected);
        program.end().unwrap();
    }

    #[test]
    fn a_program_that_says_half_is_not_waited_for() {
        let (program, _input, mut output) = started("printf half; exec sleep 600");
        output.patience = Patience::within(Duration::from_millis(100));
        let mut got = [0; 8];
        let error = output.read_exact(&mut got).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "no answer within 0.1 s");
        assert_eq!(output.patience.passed(), Some(Duration::from_millis(100)));
        program.end().unwrap();
    }

    #[test]
    fn a_program_that_reads_nothing_is_not_waited_for() {
        let (program, mut input, _output) = started("exec sleep 600");
        input.patience = Patience::within(Duration::from_millis(100));
        let error = input.write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        program.end().unwrap();
    }

    #[test]
    fn a_program_that_only_sleeps_is_silent() {
        let (program, _input, mut output) = started("exec sleep 600");
        let patience = Patience::within(Duration::from_secs(600));
        output.patience = patience.unless_silent(Duration::from_millis(100), program.handle());
        let error = output.read(&mut [0]).unwrap_err();
        assert_eq!(error.to_string(), "it has neither answered nor computed for 0.1 s");
        assert_eq!(output.patience.passed(), None);
        program.end().unwrap();
    }
}
