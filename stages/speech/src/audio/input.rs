//! The bytes of a recording: in memory, or a file of any length that is read in parts.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

use stage_core::FileParts;
use symphonia::core::io::MediaSource;

use super::fault::ReadError;

/// The bytes of a file that are read at once.
const PART_BYTES: usize = 1 << 18;

pub struct Input<'a> {
    origin: Origin<'a>,
    /// The bytes of a file from `window_start` on.
    window: Vec<u8>,
    window_start: u64,
}

#[derive(Clone)]
enum Origin<'a> {
    Memory(&'a [u8]),
    File(Arc<dyn FileParts>),
}

impl<'a> Input<'a> {
    pub fn memory(bytes: &'a [u8]) -> Input<'a> {
        Input { origin: Origin::Memory(bytes), window: Vec::new(), window_start: 0 }
    }

    pub fn file(parts: Arc<dyn FileParts>) -> Input<'a> {
        Input { origin: Origin::File(parts), window: Vec::new(), window_start: 0 }
    }

    pub fn size(&self) -> u64 {
        match &self.origin {
            Origin::Memory(bytes) => bytes.len() as u64,
            Origin::File(parts) => parts.size(),
        }
    }

    pub fn is_in_memory(&self) -> bool {
        matches!(self.origin, Origin::Memory(_))
    }

    /// The bytes from `at` on: at least `count` if the input does not end before, or more.
    pub fn bytes(&mut self, at: u64, count: usize) -> Result<&[u8], ReadError> {
        if let Origin::Memory(bytes) = self.origin {
            let at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
            return Ok(&bytes[at..]);
        }
        let window_end = self.window_start + self.window.len() as u64;
        if !(self.window_start..=window_end).contains(&at) {
            self.window.clear();
            self.window_start = at;
        }
        let start = (at - self.window_start) as usize;
        if self.window.len() - start < count {
            self.window.drain(..start);
            self.window_start = at;
            self.fill(count)?;
            return Ok(&self.window);
        }
        Ok(&self.window[start..])
    }

    /// At most `count` bytes from `at` on; fewer only at the end.
    pub fn part(&mut self, at: u64, count: usize) -> Result<&[u8], ReadError> {
        let bytes = self.bytes(at, count)?;
        Ok(&bytes[..count.min(bytes.len())])
    }

    /// Extends the window to `count` bytes, or to the end of the file.
    fn fill(&mut self, count: usize) -> Result<(), ReadError> {
        let Origin::File(parts) = &self.origin else { return Ok(()) };
        let left = usize::try_from(parts.size().saturating_sub(self.window_start));
        let wanted = count.max(PART_BYTES).min(left.unwrap_or(usize::MAX));
        let mut filled = self.window.len();
        self.window.resize(wanted.max(filled), 0);
        while filled < wanted {
            let at = self.window_start + filled as u64;
            match parts.read_at(&mut self.window[filled..], at) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
        self.window.truncate(filled);
        if filled < wanted {
            Err(ReadError::Io(io::Error::other("the file became shorter")))
        } else {
            Ok(())
        }
    }

    /// A part of the input as a source for a demuxer, with the cell for a failure to read.
    pub fn source(&self, start: u64, end: u64) -> (InputReader<'a>, InputFailure) {
        let failure = InputFailure::default();
        let origin = self.origin.clone();
        (InputReader { origin, start, end, at: 0, failure: failure.clone() }, failure)
    }
}

/// The failure of the file below a demuxer, which replaces it by an error of its own.
#[derive(Clone, Default)]
pub struct InputFailure(Arc<Mutex<Option<io::Error>>>);

impl InputFailure {
    pub fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn keep(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        kind.into()
    }
}

/// A part of the input that is read and sought in.
pub struct InputReader<'a> {
    origin: Origin<'a>,
    start: u64,
    end: u64,
    /// From the start of the part.
    at: u64,
    failure: InputFailure,
}

impl Read for InputReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let from = self.start.saturating_add(self.at).min(self.end);
        let left = usize::try_from(self.end - from).unwrap_or(usize::MAX);
        let buffer_end = buffer.len().min(left);
        let buffer = &mut buffer[..buffer_end];
        let count = match &self.origin {
            Origin::Memory(bytes) => bytes.get(from as usize..).unwrap_or_default().read(buffer)?,
            Origin::File(parts) => match parts.read_at(buffer, from) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => return Err(self.failure.keep(error)),
            },
        };
        self.at += count as u64;
        Ok(count)
    }
}

impl Seek for InputReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => (self.end - self.start).checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

impl MediaSource for InputReader<'_> {
    fn is_seekable(&self) -> bool {
        true
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.end - self.start)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_file_in_parts_gives_the_bytes_of_the_whole_at_any_place() {
        let whole: Vec<u8> = (0..PART_BYTES * 3 + 17).map(|at| (at * 7 % 251) as u8).collect();
        let mut file = Input::file(Arc::new(Bytes::from(whole.clone())));
        let mut memory = Input::memory(&whole);
        for (at, count) in
            [(0, 4), (10, PART_BYTES), (PART_BYTES * 2, 9), (5, 5), (whole.len() - 3, 100)]
        {
            let expected = memory.part(at as u64, count).unwrap().to_vec();
            assert_eq!(file.part(at as u64, count).unwrap(), expected, "{at} {count}");
        }
        assert_eq!(file.part(whole.len() as u64 + 9, 4).unwrap(), b"");
    }
}
