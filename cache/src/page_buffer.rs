//! A buffer for writing to a file in whole pages.

use crate::fs::{FsFile, FsResult};

/// The usual page size of memory and files.
pub(crate) const PAGE: usize = 4 << 10;
/// The number of bytes written at a time: they fit the caches of a core when the system copies
/// them.
const CHUNK: usize = 256 << 10;

/// Bytes to append to a file from some position on. The system copies one page at a time, a fifth
/// faster if a page in memory becomes a page of the file: so the bytes are aligned here as in the
/// file.
#[derive(Debug)]
pub(crate) struct PageBuffer {
    bytes: Vec<u8>,
    /// The start of the waiting bytes; those before it are unused.
    start: usize,
    /// The file position of the waiting bytes.
    at: u64,
}

impl PageBuffer {
    /// For bytes from this file position on.
    pub fn new(at: u64) -> PageBuffer {
        let mut bytes = Vec::with_capacity(2 * CHUNK + 2 * PAGE);
        let start = to_page(&bytes) + at as usize % PAGE;
        bytes.resize(start, 0);
        PageBuffer { bytes, start, at }
    }

    /// The end of the buffer, where bytes are added.
    pub fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Writes the whole pages if there are enough of them.
    pub fn write_pages(&mut self, file: &dyn FsFile) -> FsResult<()> {
        let waiting = self.bytes.len() - self.start;
        if waiting < CHUNK {
            return Ok(());
        }
        let after = self.at + waiting as u64;
        let rest = (after % PAGE as u64) as usize;
        let end = self.bytes.len() - rest;
        file.write_all_at(&self.bytes[self.start..end], self.at)?;
        self.at = after - rest as u64;
        self.start = to_page(&self.bytes).min(end);
        self.bytes.copy_within(end.., self.start);
        self.bytes.truncate(self.start + rest);
        Ok(())
    }

    /// Writes all waiting bytes.
    pub fn write_all(self, file: &dyn FsFile) -> FsResult<()> {
        file.write_all_at(&self.bytes[self.start..], self.at)
    }
}

/// The distance from the start of these bytes to the next page boundary.
pub(crate) fn to_page(bytes: &[u8]) -> usize {
    bytes.as_ptr().align_offset(PAGE).min(PAGE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use camino::Utf8Path;

    use super::*;
    use crate::fs::{Fs, Open, RealFs};

    #[test]
    fn a_file_holds_what_was_put() {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(folder.path()).unwrap().join("file");
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        for (first, lengths) in [
            (0u64, vec![1, 2, 3]),
            (48, vec![300_000, 5, 70_000, 70_000, 250_000, 1]),
            (4095, vec![2_000_000, 4096, 262_144]),
            (8192, vec![262_144, 262_144, 1]),
        ] {
            let file = fs.open(&path, Open::Create).unwrap();
            file.set_len(0).unwrap();
            let mut expected = vec![0u8; first as usize];
            let mut buffer = PageBuffer::new(first);
            for (number, length) in lengths.iter().enumerate() {
                let part = vec![number as u8 + 1; *length];
                buffer.end().extend_from_slice(&part);
                expected.extend(part);
                buffer.write_pages(&*file).unwrap();
            }
            buffer.write_all(&*file).unwrap();
            assert!(fs.read(&path).unwrap() == expected, "{lengths:?} from {first} on");
        }
    }
}
