//! A user's file that must not change while it is read.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use cache::Hasher;
use cache::fs::FsFile;
use cache::stat::StatEntry;
use stage_core::FileParts;

/// An open file that is the one that was scanned.
pub struct ScannedFile {
    file: Box<dyn FsFile>,
    entry: StatEntry,
    /// Its content was found to differ from the entry.
    is_other: AtomicBool,
}

impl ScannedFile {
    pub fn new(file: Box<dyn FsFile>, entry: StatEntry) -> ScannedFile {
        ScannedFile { file, entry, is_other: AtomicBool::new(false) }
    }

    /// True if it is unchanged since an earlier look.
    pub fn is_as(&self, seen: &StatEntry) -> bool {
        self.file.metadata().is_ok_and(|now| seen.describes(&now))
    }

    /// An error if it has changed.
    pub fn check(&self) -> io::Result<()> {
        let now = self.file.metadata().map_err(io::Error::other)?;
        if self.entry.describes(&now) && !self.is_other.load(Ordering::Relaxed) {
            Ok(())
        } else {
            let path = &self.entry.path;
            let message = format!("`{path}` changed while it was read: run again");
            Err(io::Error::other(message))
        }
    }
}

impl FileParts for ScannedFile {
    fn size(&self) -> u64 {
        self.entry.size
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check()?;
        let read = self.file.read_at(buffer, offset);
        let count = read.map_err(|error| io::Error::new(error.kind(), error))?;
        self.check()?;
        Ok(count)
    }

    fn verify(&self) -> io::Result<()> {
        const PIECE: usize = 256 << 10;
        self.check()?;
        let (mut hasher, mut buffer) = (Hasher::new(), vec![0; PIECE]);
        let mut offset = 0;
        loop {
            let read = self.file.read_at(&mut buffer, offset);
            let count = read.map_err(|error| io::Error::new(error.kind(), error))?;
            if count == 0 {
                break;
            }
            hasher.update(&buffer[..count]);
            offset += count as u64;
        }
        self.is_other.store(hasher.finish() != self.entry.digest, Ordering::Relaxed);
        self.check()
    }
}
