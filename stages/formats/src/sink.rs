//! Outputs for writers.

use std::io::{self, Write};

use cache::fs::{Fs, FsFile, FsResult, Open};
use camino::Utf8Path;

const BUFFER: usize = 1 << 20;

/// A new file that is written sequentially. Small writes are buffered.
#[derive(Debug)]
pub struct FileSink {
    file: Box<dyn FsFile>,
    offset: u64,
    buffer: Vec<u8>,
}

impl FileSink {
    /// An error if the file exists.
    pub fn create(fs: &dyn Fs, path: &Utf8Path) -> FsResult<FileSink> {
        let file = fs.open(path, Open::CreateNew)?;
        Ok(FileSink { file, offset: 0, buffer: Vec::with_capacity(BUFFER) })
    }

    /// Makes the contents durable; the caller syncs the name.
    pub fn finish(mut self) -> FsResult<()> {
        self.empty()?;
        self.file.sync_data()
    }

    fn empty(&mut self) -> FsResult<()> {
        self.file.write_all_at(&self.buffer, self.offset)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Write for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.empty().map_err(io::Error::other)?;
        }
        if bytes.len() >= BUFFER {
            self.file.write_all_at(bytes, self.offset).map_err(io::Error::other)?;
            self.offset += bytes.len() as u64;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.empty().map_err(io::Error::other)
    }
}
