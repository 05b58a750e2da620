//! The last that a program writes to one of its streams.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use stage_programs::wait_to_read;

/// The bytes that are kept of a stream.
pub const KEPT_BYTES: usize = 4096;
/// The bytes of one read.
const PIECE: usize = 16 << 10;

pub struct OutputTail {
    /// None after its end.
    stream: Option<File>,
    /// A file for all of it.
    copy: Option<File>,
    kept: VecDeque<u8>,
}

impl OutputTail {
    pub fn new(stream: OwnedFd, copy: Option<File>) -> io::Result<OutputTail> {
        fcntl(&stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(OutputTail { stream: Some(stream.into()), copy, kept: VecDeque::new() })
    }

    /// The stream as long as there may be more.
    pub fn open(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    /// Takes what is there, without waiting.
    pub fn read(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut buffer = [0; PIECE];
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => self.take(&buffer[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            _ => self.stream = None,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(copy) = &mut self.copy {
            // A full disk must not hold up the program.
            let _ = copy.write_all(bytes);
        }
        self.kept.extend(bytes);
        self.kept.drain(..self.kept.len().saturating_sub(KEPT_BYTES));
    }

    /// The last of it as text.
    pub fn text(self) -> String {
        harmless(&String::from_utf8_lossy(&Vec::from(self.kept)))
    }
}

/// Reads streams to their ends, but not for longer than this: a process that has left the group of
/// its program may hold them open.
pub fn drain(tails: &mut [OutputTail], patience: Duration) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        tails.iter_mut().for_each(OutputTail::read);
        let left = patience.saturating_sub(begin.elapsed());
        if left.is_zero() || tails.iter().all(|tail| tail.stream.is_none()) {
            return Ok(());
        }
        wait_to_read(tails.iter().filter_map(OutputTail::open), left)?;
    }
}

/// Without the controls that move a cursor or change a terminal.
fn harmless(text: &str) -> String {
    let is_harmful = |character: char| {
        (character.is_control() && !matches!(character, '\n' | '\t'))
            || matches!(character, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|character| if is_harmful(character) { '\u{FFFD}' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_stream_that_stays_open_keeps_nobody_and_gives_what_it_said() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut tails = [OutputTail::new(reader.into(), None).unwrap()];
        writer.write_all(&[b'x'; KEPT_BYTES]).unwrap();
        writer.write_all(b"last").unwrap();
        drain(&mut tails, Duration::from_millis(50)).unwrap();
        assert!(tails[0].open().is_some());
        drop(writer);
        drain(&mut tails, Duration::from_secs(60)).unwrap();
        assert!(tails[0].open().is_none());
        let [tail] = tails;
        let text = tail.text();
        assert!(text.len() == KEPT_BYTES && text.ends_with("xlast"), "{text}");
    }
}
