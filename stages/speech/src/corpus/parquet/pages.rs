//! A file for the Parquet reader: only the requested parts are read.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use stage_core::FileParts;

pub struct Pages(pub Arc<dyn FileParts>);

impl Length for Pages {
    fn len(&self) -> u64 {
        self.0.size()
    }
}

impl ChunkReader for Pages {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<BufReader<From>> {
        Ok(BufReader::new(From { file: self.0.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // A damaged file may request more than the available memory.
        let end = start.checked_add(length as u64).filter(|end| *end <= self.0.size());
        if end.is_none() {
            let message = format!("{length} bytes at {start} are not in the file");
            return Err(ParquetError::EOF(message));
        }
        let mut bytes = vec![0; length];
        From { file: self.0.clone(), at: start }.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reads on from a position.
pub struct From {
    file: Arc<dyn FileParts>,
    at: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
