//! The bytes of a file: a view if they are in memory or mapped, else only the requested ranges.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use stage_core::FileParts;

use crate::error::FormatError;

/// The bytes that a sequential reader takes at a time.
pub(crate) const WINDOW: usize = 16 << 10;

#[derive(Clone)]
pub enum Parts {
    Memory(Bytes),
    File(Arc<dyn FileParts>),
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bytes", self.len())
    }
}

impl From<Bytes> for Parts {
    fn from(bytes: Bytes) -> Parts {
        Parts::Memory(bytes)
    }
}

impl From<Vec<u8>> for Parts {
    fn from(bytes: Vec<u8>) -> Parts {
        Parts::Memory(bytes.into())
    }
}

impl From<&'static [u8]> for Parts {
    fn from(bytes: &'static [u8]) -> Parts {
        Parts::Memory(bytes.into())
    }
}

impl From<Arc<dyn FileParts>> for Parts {
    fn from(file: Arc<dyn FileParts>) -> Parts {
        Parts::File(file)
    }
}

impl Parts {
    /// For a file longer than the address space, the part that fits.
    pub fn len(&self) -> usize {
        match self {
            Parts::Memory(bytes) => bytes.len(),
            Parts::File(file) => usize::try_from(file.size()).unwrap_or(usize::MAX),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// This number of bytes, or those up to the end.
    pub fn up_to(
        &self,
        format: &'static str,
        start: usize,
        length: usize,
    ) -> Result<Bytes, FormatError> {
        let end = start.saturating_add(length).min(self.len());
        let start = start.min(end);
        let failed = |source| FormatError::Read { format, source };
        match self {
            Parts::Memory(bytes) => Ok(bytes.slice(start..end)),
            Parts::File(_) => {
                // The memory is requested by the length of the file, which may be false.
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(end - start).map_err(|error| failed(error.into()))?;
                bytes.resize(end - start, 0);
                self.reader(start, end - start).read_exact(&mut bytes).map_err(failed)?;
                Ok(bytes.into())
            }
        }
    }

    /// This number of bytes, or None if the file ends before.
    pub fn exactly(
        &self,
        format: &'static str,
        start: usize,
        length: usize,
    ) -> Result<Option<Bytes>, FormatError> {
        match start.checked_add(length) {
            Some(end) if end <= self.len() => self.up_to(format, start, length).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads this number of bytes from an offset, or those up to the end.
    pub fn reader(&self, start: usize, length: usize) -> PartsReader<'_> {
        let end = start.saturating_add(length).min(self.len());
        PartsReader { parts: self, at: start.min(end), end }
    }
}

/// Reads exactly the requested bytes: a buffer is for callers that read little at a time.
#[derive(Debug)]
pub struct PartsReader<'a> {
    parts: &'a Parts,
    at: usize,
    end: usize,
}

impl Read for PartsReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(self.end - self.at);
        let buffer = &mut buffer[..length];
        let count = match self.parts {
            Parts::Memory(bytes) => {
                buffer.copy_from_slice(&bytes[self.at..self.at + length]);
                length
            }
            Parts::File(_) if length == 0 => 0,
            Parts::File(file) => file.read_at(buffer, self.at as u64)?,
        };
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns three bytes at a time.
    struct Slow(Vec<u8>);

    impl FileParts for Slow {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let length = buffer.len().min(3);
            (&self.0[offset as usize..]).read(&mut buffer[..length])
        }
    }

    #[test]
    fn both_forms_give_the_same_bytes_and_end_where_the_file_ends() {
        let bytes: Vec<u8> = (0..20).collect();
        let slow: Arc<dyn FileParts> = Arc::new(Slow(bytes.clone()));
        for parts in [Parts::from(bytes.clone()), slow.into()] {
            assert_eq!(parts.up_to("x", 3, 8).unwrap(), bytes[3..11]);
            assert_eq!(parts.up_to("x", 15, 100).unwrap(), bytes[15..]);
            assert!(parts.up_to("x", 100, usize::MAX).unwrap().is_empty());
            assert_eq!(parts.exactly("x", 12, 8).unwrap().unwrap(), bytes[12..]);
            assert!(parts.exactly("x", 12, 9).unwrap().is_none());
            assert!(parts.exactly("x", 1, usize::MAX).unwrap().is_none());
            let mut all = Vec::new();
            parts.reader(4, 12).read_to_end(&mut all).unwrap();
            assert_eq!(all, bytes[4..16]);
        }
    }

    #[test]
    fn a_file_that_ends_before_its_size_is_an_error() {
        struct Short;
        impl FileParts for Short {
            fn size(&self) -> u64 {
                10
            }
            fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
                Ok(0)
            }
        }
        let file: Arc<dyn FileParts> = Arc::new(Short);
        assert!(matches!(Parts::from(file).up_to("x", 0, 10), Err(FormatError::Read { .. })));
    }
}
