//! The volumes of an archive in the making: each is written under a name of its own, synced, and
//! renamed when it is full.

use camino::{Utf8Path, Utf8PathBuf};

use super::index::{Volume, volume_path};
use crate::CacheError;
use crate::entry::{Entry, PACK_MARK};
use crate::fs::{Fs, FsFile, FsResult, Open};

/// So much is collected before it is written.
const CHUNK: usize = 4 << 20;
const UNFINISHED: &str = "part";

pub struct Volumes<'a> {
    fs: &'a dyn Fs,
    folder: &'a Utf8Path,
    /// How large a volume may become.
    limit: u64,
    finished: Vec<Volume>,
    open: Option<OpenVolume>,
}

struct OpenVolume {
    number: u32,
    path: Utf8PathBuf,
    file: Box<dyn FsFile>,
    buffer: Vec<u8>,
    /// Where the buffer begins.
    written: u64,
    entries: u64,
}

impl<'a> Volumes<'a> {
    /// In a folder without an index; what a process that died left there is removed.
    pub fn new(fs: &'a dyn Fs, folder: &'a Utf8Path, limit: u64) -> Result<Self, CacheError> {
        fs.create_dir_all(folder)?;
        for entry in fs.read_dir(folder)? {
            if is_volume(&entry.name) {
                fs.remove_file(&folder.join(&entry.name))?;
            }
        }
        Ok(Volumes { fs, folder, limit, finished: Vec::new(), open: None })
    }

    pub fn add(&mut self, entry: &Entry) -> Result<(), CacheError> {
        let limit = self.limit;
        if self.open.as_ref().is_some_and(|open| open.end() + entry.size() > limit) {
            self.close()?;
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        entry.encode(open.number, open.end(), &mut open.buffer);
        open.entries += 1;
        let open = self.open.insert(open);
        if open.buffer.len() >= CHUNK { open.flush() } else { Ok(()) }
    }

    fn begin(&self) -> FsResult<OpenVolume> {
        let number = self.finished.len() as u32 + 1;
        let path = volume_path(self.folder, number).with_extension(UNFINISHED);
        let file = self.fs.open(&path, Open::CreateNew)?;
        let buffer = PACK_MARK.to_vec();
        Ok(OpenVolume { number, path, file, buffer, written: 0, entries: 0 })
    }

    fn close(&mut self) -> Result<(), CacheError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let done = open.flush().and_then(|()| {
            open.file.sync_data()?;
            Ok(self.fs.rename(&open.path, &volume_path(self.folder, open.number))?)
        });
        if done.is_err() {
            let _ = self.fs.remove_file(&open.path);
        }
        done?;
        self.finished.push(Volume { bytes: open.written, entries: open.entries });
        Ok(())
    }

    /// Makes the names of all volumes durable.
    pub fn finish(mut self) -> Result<Vec<Volume>, CacheError> {
        self.close()?;
        self.fs.sync_dir(self.folder)?;
        Ok(std::mem::take(&mut self.finished))
    }
}

impl Drop for Volumes<'_> {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            // What cannot be removed now is removed by the next try.
            let _ = self.fs.remove_file(&open.path);
        }
    }
}

impl OpenVolume {
    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn flush(&mut self) -> Result<(), CacheError> {
        let needed = self.buffer.len() as u64;
        self.file
            .write_all_at(&self.buffer, self.written)
            .map_err(|error| CacheError::while_writing(error, &self.path, needed))?;
        self.written += needed;
        self.buffer.clear();
        Ok(())
    }
}

/// Whether a file can only be a volume, finished or not.
fn is_volume(name: &str) -> bool {
    let number = name.strip_prefix("volume-").and_then(|rest| rest.split_once('.'));
    number.is_some_and(|(number, extension)| {
        number.len() >= 4
            && number.bytes().all(|digit| digit.is_ascii_digit())
            && ["pack", UNFINISHED].contains(&extension)
    })
}
