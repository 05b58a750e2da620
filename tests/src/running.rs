//! A running program, and its events.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::RanProgram;

/// A started program, killed when the test ends before it.
pub struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
    events: Vec<Value>,
    /// Its messages for people, which may be more than a pipe can hold.
    errors: File,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let errors = tempfile::tempfile().unwrap();
        let said = errors.try_clone().unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { child, lines, events: Vec::new(), errors }
    }

    pub fn send(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    /// Reads events up to the first of this name.
    pub fn read_to(&mut self, event: &str) -> Value {
        self.read_until(|value| value["event"] == event)
    }

    /// Reads events up to the first wanted one.
    pub fn read_until(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let event = self.find(is_wanted);
        event.unwrap_or_else(|| {
            let (code, errors) = (self.code(), self.errors());
            panic!("the output ends before the event, code {code:?}: {:?}\n{errors}", self.events)
        })
    }

    /// The same for a program that may exit before.
    pub fn find(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        std::iter::from_fn(|| self.next()).find(is_wanted)
    }

    /// Waits for the end, and returns all events, earlier ones included.
    pub fn ended(mut self) -> RanProgram {
        while self.next().is_some() {}
        let (code, events) = (self.code(), std::mem::take(&mut self.events));
        RanProgram { code, events, errors: self.errors() }
    }

    fn errors(&mut self) -> String {
        let mut errors = Vec::new();
        self.errors.rewind().unwrap();
        self.errors.read_to_end(&mut errors).unwrap();
        String::from_utf8_lossy(&errors).into_owned()
    }

    pub fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        // A killed program may leave half a line.
        let event: Value = serde_json::from_str(line.strip_suffix('\n')?).unwrap();
        self.events.push(event.clone());
        Some(event)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has exited already if the test succeeded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to an existing process.
pub fn send(process: u32, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(process).unwrap()), signal).unwrap();
}
