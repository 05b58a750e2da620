//! A program on a terminal: an emulator reads its output, as people would see it.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::Child;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Pty, open};

/// Beyond this the program hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Screen {
    child: Child,
    terminal: Arc<Pty>,
    emulator: Arc<Mutex<vt100::Parser>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Screen {
    /// Starts a program on a terminal of this size, as its controlling terminal.
    pub fn start(command: Command, columns: u16, rows: u16) -> Screen {
        let (terminal, own) = open().unwrap();
        terminal.resize(Size::new(rows, columns)).unwrap();
        let terminal = Arc::new(terminal);
        let (rows, columns) = (size(rows), size(columns));
        let emulator = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 1_000)));
        let child = pty_process::blocking::Command::from(command).spawn(own).unwrap();
        let (output, parser) = (terminal.clone(), emulator.clone());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading ends with an error when the other side is closed.
            while let Ok(count @ 1..) = (&*output).read(&mut buffer) {
                parser.lock().unwrap_or_else(PoisonError::into_inner).process(&buffer[..count]);
            }
        });
        Screen { child, terminal, emulator, reader: Some(reader) }
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        let mut emulator = self.emulator.lock().unwrap_or_else(PoisonError::into_inner);
        emulator.set_size(size(rows), size(columns));
        self.terminal.resize(Size::new(rows, columns)).unwrap();
    }

    /// Keys typed by a person.
    pub fn press(&self, keys: &str) {
        (&*self.terminal).write_all(keys.as_bytes()).unwrap();
    }

    /// The current screen of the emulator.
    pub fn picture(&self) -> vt100::Screen {
        self.emulator.lock().unwrap_or_else(PoisonError::into_inner).screen().clone()
    }

    pub fn text(&self) -> String {
        self.picture().contents()
    }

    /// Waits until this text is visible.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |shown| shown.contains(text))
    }

    pub fn wait_until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let shown = self.text();
            if is_there(&shown) {
                return shown;
            }
            assert!(start.elapsed() < PATIENCE, "{what} never comes:\n{shown}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end; returns the exit code, and the final screen.
    pub fn end(mut self) -> (Option<i32>, vt100::Screen) {
        let code = self.child.wait().unwrap().code();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (code, self.picture())
    }
}

fn size(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

impl Drop for Screen {
    fn drop(&mut self) {
        // It has exited already if the test succeeded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
