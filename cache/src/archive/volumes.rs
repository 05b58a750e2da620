//! The volumes of an unfinished archive: each is written under a temporary name, synced, and
//! renamed when it is full. Volumes without an index are removed with the attempt to write them.

use camino::{Utf8Path, Utf8PathBuf};

use super::index::{Index, Volume, volume_path};
use super::lock;
use crate::CacheError;
use crate::fs::{Fs, FsFile, FsResult, LockFile, Open};
use crate::pack::entry::{Entry, PACK_MARK};

/// The number of bytes that are buffered before a write.
const CHUNK: usize = 4 << 20;
const UNFINISHED: &str = "part";

pub struct Volumes<'a> {
    fs: &'a dyn Fs,
    folder: &'a Utf8Path,
    /// The largest size of a volume.
    limit: u64,
    finished: Vec<Volume>,
    open: Option<OpenVolume>,
    /// The index names them.
    belong: bool,
    /// Dropped last.
    _lock: LockFile<'a>,
}

struct OpenVolume {
    number: u32,
    path: Utf8PathBuf,
    file: Box<dyn FsFile>,
    buffer: Vec<u8>,
    /// The file position of the start of the buffer.
    written: u64,
    entries: u64,
}

impl<'a> Volumes<'a> {
    /// In an existing folder without an index; removes the remains of a dead process.
    pub fn new(fs: &'a dyn Fs, folder: &'a Utf8Path, limit: u64) -> Result<Self, CacheError> {
        let lock = lock::take(fs, folder)?;
        let unusable = |reason| Err(CacheError::Archive { folder: folder.to_owned(), reason });
        if Index::is_there(fs, folder)? {
            return unusable("it already has an archive: choose another folder".to_owned());
        }
        let entries = fs.read_dir(folder)?;
        let left: Vec<Utf8PathBuf> = entries
            .iter()
            .filter(|entry| is_volume(&entry.name))
            .map(|entry| folder.join(&entry.name))
            .collect();
        for path in &left {
            if !is_ours(fs, path)? {
                let name = path.file_name().unwrap_or_default();
                return unusable(format!("`{name}` in it is not a volume: choose another folder"));
            }
        }
        left.iter().try_for_each(|path| fs.remove_file(path))?;
        let (finished, open) = (Vec::new(), None);
        Ok(Volumes { fs, folder, limit, finished, open, belong: false, _lock: lock })
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

    /// Makes all volumes durable, and then an archive.
    pub fn finish(mut self, mut index: Index) -> Result<Vec<Volume>, CacheError> {
        self.close()?;
        self.fs.sync_dir(self.folder)?;
        index.volumes.clone_from(&self.finished);
        let written = index.write(self.fs, self.folder);
        self.belong = written.is_ok() || Index::is_there(self.fs, self.folder).unwrap_or(true);
        written?;
        Ok(index.volumes)
    }

    /// Frees space: the disk may have been too small for them.
    fn remove(&self) {
        let open = self.open.iter().map(|open| open.path.clone());
        let finished =
            (1..).zip(&self.finished).map(|(number, _)| volume_path(self.folder, number));
        for path in open.chain(finished) {
            // A file that cannot be removed is removed by the next attempt.
            let _ = self.fs.remove_file(&path);
        }
    }
}

impl Drop for Volumes<'_> {
    fn drop(&mut self) {
        if !self.belong {
            self.remove();
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

/// Tests if a file can only be a volume, finished or not.
fn is_volume(name: &str) -> bool {
    let number = name.strip_prefix("volume-").and_then(|rest| rest.split_once('.'));
    number.is_some_and(|(number, extension)| {
        number.len() >= 4
            && number.bytes().all(|digit| digit.is_ascii_digit())
            && ["pack", UNFINISHED].contains(&extension)
    })
}

/// Tests if a file begins like a volume, or like one that a power cut truncated.
fn is_ours(fs: &dyn Fs, path: &Utf8Path) -> FsResult<bool> {
    let mut start = [0u8; PACK_MARK.len()];
    let filled = fs.open(path, Open::Read)?.read_full_at(&mut start, 0)?;
    let same = |(found, mark): (&u8, &u8)| found == mark || *found == 0;
    Ok(start[..filled].iter().zip(PACK_MARK).all(same))
}
