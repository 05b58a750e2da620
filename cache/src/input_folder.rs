//! Folders with the inputs of programs that take a whole data set. They stay between runs, so that a
//! changed input costs one file.
//!
//! Each file is a copy, and a program may do anything with it. So a file counts only while its state is
//! the recorded one. The record of a folder is newer than the times of all its files before a program
//! gets them, so that every later change of a file also changes its state. The files are never synced: a
//! record of another boot counts for nothing.
//!
//! The folder gets a new name each time, so that a process that an earlier program left behind does not
//! find it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use crate::cache::Cache;
use crate::claim::Claim;
use crate::fs::{FileKind, Fs, FsResult, Metadata, Open, Space, bytes_under, paths_in};
use crate::index::gate::Boot;
use crate::{Access, CacheError, Digest, in_shares};

/// Names the folders for files. Threads that create files in one folder wait for each other.
const SHARES: usize = 8;
/// The states that a thread reads at a time.
const STATES_PER_SHARE: usize = 256;
const RECORD: &str = "record";
const FORMAT: u32 = 1;
/// The attempts to write a record that is newer than all files, and the pause between two: a clock
/// tick of the kernel takes up to 10 ms.
const MAX_RECORD_ATTEMPTS: usize = 40;
const RECORD_PAUSE: Duration = Duration::from_millis(1);
/// A folder is kept if it takes at most this share of the free space.
const MAX_SHARE_OF_FREE_SPACE: u64 = 4;

/// An input that a program wants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedInput {
    /// The digest of the bytes.
    pub digest: Digest,
    /// Letters, digits, `-` and `_` only. Distinguishes inputs with the same bytes.
    pub label: String,
    /// None if the bytes determine it.
    pub extension: Option<String>,
}

impl WantedInput {
    /// The name of its file, without an extension.
    pub fn stem(&self) -> String {
        const DIGITS: usize = 32;
        format!("{}-{}", &self.digest.to_string()[..DIGITS], self.label)
    }
}

/// The recorded state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InputState {
    digest: Digest,
    extension: String,
    size: u64,
    mtime_ns: i64,
    ctime_ns: i64,
    inode: u64,
}

impl InputState {
    fn new(digest: Digest, extension: &str, found: &Metadata) -> InputState {
        InputState {
            digest,
            extension: extension.to_owned(),
            size: found.size,
            mtime_ns: found.mtime_ns,
            ctime_ns: found.ctime_ns,
            inode: found.inode,
        }
    }

    fn is_of(&self, found: &Metadata) -> bool {
        found.is_file() && *self == InputState::new(self.digest, &self.extension, found)
    }

    fn path(&self, folder: &Utf8Path, stem: &str) -> Utf8PathBuf {
        path_of(folder, &self.digest, stem, &self.extension)
    }
}

fn path_of(folder: &Utf8Path, digest: &Digest, stem: &str, extension: &str) -> Utf8PathBuf {
    let share = usize::from(digest.as_bytes()[0]) % SHARES;
    folder.join(format!("{share}/{stem}.{extension}"))
}

/// The files of a folder, by their names without extensions.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FolderRecord {
    format: u32,
    boot: Boot,
    files: BTreeMap<String, InputState>,
}

impl FolderRecord {
    fn read(fs: &dyn Fs, folder: &Utf8Path, boot: Boot) -> Option<FolderRecord> {
        let bytes = fs.read(&folder.join(RECORD)).ok()?;
        let record: FolderRecord = postcard::from_bytes(&bytes).ok()?;
        (record.format == FORMAT && record.boot == boot).then_some(record)
    }
}

/// A folder with the inputs of a program, for one process at a time.
pub struct InputFolder {
    fs: Arc<dyn Fs>,
    path: Utf8PathBuf,
    record: FolderRecord,
    /// The files stay for the next run.
    stays: bool,
    _claim: Claim,
}

impl Cache {
    /// The folder of this name, for the inputs of one program. None if another process uses it, if the
    /// cache is only read, or if the file system may lose writes while the machine runs.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] or [`CacheError::NoSpace`] if the folder cannot be made, or if an earlier
    /// one cannot be removed.
    pub fn input_folder(&self, name: &Digest) -> Result<Option<InputFolder>, CacheError> {
        let shared = &self.0;
        if shared.access != Access::ReadWrite {
            return Ok(None);
        }
        let Some(boot) = Boot::present(&*shared.fs, &shared.layout) else { return Ok(None) };
        // Something else in its place is no reason to stop.
        if self.0.fs.symlink_metadata(&shared.layout.inputs).is_ok_and(|found| !found.is_dir()) {
            return Ok(None);
        }
        let Some(claim) = self.claim(&right_to(&prefix_of(name)))? else { return Ok(None) };
        Ok(Some(InputFolder::open(
            Arc::clone(&shared.fs),
            &shared.layout.inputs,
            name,
            (boot, claim),
        )?))
    }
}

/// The beginning of the names that a folder has in turn.
fn prefix_of(name: &Digest) -> String {
    const DIGITS: usize = 16;
    name.to_string()[..DIGITS].to_owned()
}

/// The key of the claim that the user of a folder holds.
fn right_to(prefix: &str) -> Digest {
    Digest::of(format!("inputs {prefix}").as_bytes())
}

impl InputFolder {
    fn open(
        fs: Arc<dyn Fs>,
        above: &Utf8Path,
        name: &Digest,
        (boot, claim): (Boot, Claim),
    ) -> FsResult<InputFolder> {
        fs.create_dir_all(above)?;
        let prefix = prefix_of(name);
        let path = above.join(format!("{prefix}-{:016x}", fs.random()));
        let mut record = None;
        for entry in fs.read_dir(above)?.iter().filter(|entry| entry.name.starts_with(&prefix)) {
            let old = above.join(&entry.name);
            let own = entry.kind == FileKind::Dir && record.is_none();
            record = match own.then(|| FolderRecord::read(&*fs, &old, boot)).flatten() {
                Some(found) if fs.rename(&old, &path).is_ok() => Some(found),
                _ => {
                    remove(&*fs, &old, entry.kind)?;
                    record
                }
            };
        }
        if record.is_none() {
            fs.create_dir(&path)?;
        }
        let new = FolderRecord { format: FORMAT, boot, files: BTreeMap::new() };
        Ok(InputFolder { fs, path, record: record.unwrap_or(new), stays: false, _claim: claim })
    }

    /// The folder, which is new for each use.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Removes all files but these, if they are as recorded. Returns their paths: None for each one that
    /// is to be written.
    ///
    /// # Errors
    ///
    /// If a file cannot be removed or a folder cannot be listed.
    pub fn keep_only(&mut self, wanted: &[WantedInput]) -> FsResult<Vec<Option<Utf8PathBuf>>> {
        self.remove_foreign()?;
        let stems: Vec<String> = wanted.iter().map(WantedInput::stem).collect();
        let intact = |at: usize| {
            let state = self.record.files.get(&stems[at])?;
            if wanted[at].extension.as_ref().is_some_and(|wanted| *wanted != state.extension) {
                return None;
            }
            let path = state.path(&self.path, &stems[at]);
            self.fs.symlink_metadata(&path).is_ok_and(|found| state.is_of(&found)).then_some(path)
        };
        let states = |range: Range<usize>| range.map(intact).collect();
        let intact = in_shares(wanted.len(), STATES_PER_SHARE, threads(), states);
        let intact = intact.unwrap_or_else(|| vec![None; wanted.len()]);
        let old = std::mem::take(&mut self.record.files);
        let is_kept: HashSet<&str> = stems
            .iter()
            .zip(&intact)
            .filter(|(_, path)| path.is_some())
            .map(|(stem, _)| stem.as_str())
            .collect();
        let kept = old.into_iter().filter(|(stem, _)| is_kept.contains(stem.as_str()));
        self.record.files = kept.collect();
        self.remove_unrecorded()?;
        Ok(intact)
    }

    /// Removes everything but the folders for files and the record, and makes missing folders.
    fn remove_foreign(&self) -> FsResult<()> {
        let mut missing: BTreeSet<String> = (0..SHARES).map(|share| share.to_string()).collect();
        for entry in self.fs.read_dir(&self.path)? {
            let is_share = entry.kind == FileKind::Dir && missing.remove(&entry.name);
            let is_record = entry.kind == FileKind::File && entry.name == RECORD;
            if !is_share && !is_record {
                remove(&*self.fs, &self.path.join(&entry.name), entry.kind)?;
            }
        }
        missing.iter().try_for_each(|share| self.fs.create_dir(&self.path.join(share)))
    }

    fn remove_unrecorded(&self) -> FsResult<()> {
        let files = self.record.files.iter();
        let known: HashSet<Utf8PathBuf> =
            files.map(|(stem, state)| state.path(&self.path, stem)).collect();
        for share in 0..SHARES {
            let share = self.path.join(share.to_string());
            for entry in self.fs.read_dir(&share)? {
                let path = share.join(&entry.name);
                if !known.contains(&path) {
                    remove(&*self.fs, &path, entry.kind)?;
                }
            }
        }
        Ok(())
    }

    /// Writes a file that is not there. Several threads may do that at once.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, such as when the disk is full. It may be written again.
    pub fn write(
        &self,
        wanted: &WantedInput,
        extension: &str,
        bytes: &[u8],
    ) -> FsResult<WrittenInput> {
        let stem = wanted.stem();
        let path = path_of(&self.path, &wanted.digest, &stem, extension);
        // After an error it may be written a second time.
        let file = self.fs.open(&path, Open::Create)?;
        file.set_len(0)?;
        file.write_all_at(bytes, 0)?;
        let state = InputState::new(wanted.digest, extension, &file.metadata()?);
        Ok(WrittenInput { path, stem, state })
    }

    /// Records the files, before a program gets them.
    ///
    /// # Errors
    ///
    /// If the record cannot be written. Then the next run writes all files again.
    pub fn record(&mut self, written: impl IntoIterator<Item = WrittenInput>) -> FsResult<()> {
        self.record.files.extend(written.into_iter().map(|file| (file.stem, file.state)));
        let newest = self.record.files.values().map(|file| file.ctime_ns.max(file.mtime_ns)).max();
        let path = self.path.join(RECORD);
        let bytes = postcard::to_stdvec(&self.record).unwrap_or_default();
        for _ in 0..MAX_RECORD_ATTEMPTS {
            let file = self.fs.open(&path, Open::Create)?;
            file.set_len(0)?;
            file.write_all_at(&bytes, 0)?;
            if Some(file.metadata()?.ctime_ns) > newest {
                return Ok(());
            }
            std::thread::sleep(RECORD_PAUSE);
        }
        // Without a record, the next run writes all files again.
        self.fs.remove_file(&path)
    }

    /// Keeps the files for the next run, unless they take too much of the disk. Only for a program that
    /// left no process behind. Without this call, the folder is removed when it is dropped.
    pub fn keep(mut self) {
        let bytes: u64 = self.record.files.values().map(|file| file.size).sum();
        let free = Space::of(&self.path).map_or(0, |space| space.free);
        self.stays = bytes <= free / MAX_SHARE_OF_FREE_SPACE;
    }
}

impl Drop for InputFolder {
    fn drop(&mut self) {
        if !self.stays {
            // The next use of the folder removes the rest.
            let _ = self.fs.remove_dir_all(&self.path);
        }
    }
}

/// A file that was written for a program.
pub struct WrittenInput {
    /// The file, to be given to the program.
    pub path: Utf8PathBuf,
    stem: String,
    state: InputState,
}

/// Removes it, whatever it is; it may be gone.
fn remove(fs: &dyn Fs, path: &Utf8Path, kind: FileKind) -> FsResult<()> {
    let removed = match kind {
        FileKind::Dir => fs.remove_dir_all(path),
        _ => fs.remove_file(path),
    };
    removed.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A folder of inputs that no process uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleInputs {
    path: Utf8PathBuf,
    /// Bytes of all its files.
    pub bytes: u64,
    /// Nanoseconds since 1970.
    pub used_ns: i64,
}

impl Cache {
    /// The folders that no process uses, least recently used first.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if a folder cannot be listed, or if the claim on it fails.
    pub fn idle_inputs(&self) -> Result<Vec<IdleInputs>, CacheError> {
        let (fs, above) = (&*self.0.fs, &self.0.layout.inputs);
        let mut idle = Vec::new();
        for path in paths_in(fs, above)? {
            let Some(_claim) = self.claim_of(&path)? else { continue };
            let used_ns = match fs.symlink_metadata(&path) {
                // Each use renames the folder, which changes this time.
                Ok(found) => found.ctime_ns,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            let bytes = bytes_under(fs, &path)?;
            idle.push(IdleInputs { path, bytes, used_ns });
        }
        idle.sort_by_key(|folder| folder.used_ns);
        Ok(idle)
    }

    /// Removes these folders, except those that a process uses by now. Returns the bytes freed.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if a folder cannot be removed. Those before it are gone.
    pub fn remove_idle_inputs(&self, folders: &[IdleInputs]) -> Result<u64, CacheError> {
        let mut freed = 0;
        for folder in folders {
            let Some(_claim) = self.claim_of(&folder.path)? else { continue };
            match self.0.fs.symlink_metadata(&folder.path) {
                Ok(found) => remove(&*self.0.fs, &folder.path, found.kind)?,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            }
            freed += folder.bytes;
        }
        Ok(freed)
    }

    fn claim_of(&self, folder: &Utf8Path) -> Result<Option<Claim>, CacheError> {
        let name = folder.file_name().unwrap_or_default();
        self.claim(&right_to(name.split('-').next().unwrap_or(name)))
    }

    /// The files that differ from their names although their states are as recorded, and the number of
    /// bytes read. Folders in use are left out.
    pub(crate) fn damaged_inputs(&self) -> Result<(Vec<Utf8PathBuf>, u64), CacheError> {
        let (fs, above) = (&*self.0.fs, &self.0.layout.inputs);
        let (mut damaged, mut read) = (Vec::new(), 0);
        let Some(boot) = Boot::present(fs, &self.0.layout) else { return Ok((damaged, read)) };
        for folder in paths_in(fs, above)? {
            let Some(_claim) = self.claim_of(&folder)? else { continue };
            let Some(record) = FolderRecord::read(fs, &folder, boot) else { continue };
            for (stem, state) in &record.files {
                let path = state.path(&folder, stem);
                let is_as_recorded = || fs.symlink_metadata(&path).is_ok_and(|it| state.is_of(&it));
                if !is_as_recorded() {
                    continue;
                }
                let digest = fs.read(&path).map(|bytes| Digest::of(&bytes));
                read += state.size;
                if digest.map_or(true, |digest| digest != state.digest) && is_as_recorded() {
                    damaged.push(path);
                }
            }
        }
        Ok((damaged, read))
    }
}

#[cfg(test)]
mod tests;
