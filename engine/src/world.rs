//! The user's files as sources see them, with a record of every look.
//!
//! A [`Watch`] records every answer as an entry of the stat index. As long as no entry differs, the
//! same questions get the same answers, so the source need not be scanned again; see [`unchanged`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::event::Event;
use bytes::Bytes;
use cache::fs::{FileKind, Fs, FsError, Metadata, Open};
use cache::stat::{self, Differing, Section, StatEntry, StatIndex, What};
use cache::{CacheError, Digest, in_shares};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::key::{HashSink, Sink};
use stage_core::{
    Blob, Fields, FileFact, FileParts, Listing, NewValue, Reject, StageError, Value, World,
};

use crate::record::{MEMO, decode, encode};
use crate::store::{MOST_PENDING, Store};
use crate::unchanged::ScannedFile;
use crate::units;

/// The stat index saves work and decides nothing.
pub fn unsaved(error: &CacheError) -> Event {
    let message = format!(
        "the stat index cannot be stored, so the next run reads the files again: {}",
        error.whole()
    );
    Event::Note { stage: None, message }
}

/// Scans for the first time, or again because something differs.
pub struct Watch<'a> {
    store: &'a Store,
    index: &'a StatIndex,
    /// Hash every file again, regardless of the stat index.
    verify: bool,
    /// Reports slow operations.
    waiting: &'a mut dyn FnMut(String),
    pub current: Option<Current<'a>>,
    /// The answers, in the order of the questions.
    pub seen: Vec<StatEntry>,
}

/// Entries that are known to be current.
pub struct Current<'a> {
    /// It has just been compared with the files.
    section: &'a Section,
    /// Replacements for the entries that differed.
    again: HashMap<String, StatEntry>,
    /// The expected position of the next path: paths are usually requested in order.
    next: usize,
}

impl<'a> Current<'a> {
    pub fn new(section: &'a Section, again: Vec<StatEntry>) -> Current<'a> {
        let again = again.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
        Current { section, again, next: 0 }
    }

    fn entry(&mut self, path: &Utf8Path) -> Option<StatEntry> {
        if let Some(entry) = self.again.get(path.as_str()) {
            return Some(entry.clone());
        }
        let at = self.section.position_near(path.as_str(), self.next)?;
        self.next = at + 1;
        self.section.get(at)
    }
}

/// The number of files that a thread hashes at a time.
const SHARE: usize = 8;

/// The number of bytes that are hashed without a message.
const QUIET_BYTES: u64 = 64 << 20;
/// A file of this size is named.
const LARGE_BYTES: u64 = 1 << 30;

impl<'a> Watch<'a> {
    pub fn new(
        store: &'a Store,
        index: &'a StatIndex,
        verify: bool,
        waiting: &'a mut dyn FnMut(String),
    ) -> Watch<'a> {
        Watch { store, index, verify, waiting, current: None, seen: Vec::new() }
    }

    fn fs(&self) -> &'a dyn Fs {
        self.store.cache().fs().as_ref()
    }

    fn full(&self, path: &Utf8Path) -> Utf8PathBuf {
        self.store.base().join(path)
    }

    /// The known state of a file, without reading it.
    fn known(&mut self, path: &Utf8Path) -> Option<StatEntry> {
        let current = self.current.as_mut().and_then(|current| current.entry(path));
        let current = current.filter(|entry| entry.what == What::File);
        current.or_else(|| self.memo(path))
    }

    /// The entry of the index, if the file's stat confirms it.
    fn memo(&self, path: &Utf8Path) -> Option<StatEntry> {
        // Existence has just been checked.
        let seen = self.seen.last().filter(|entry| entry.what == What::File);
        if let Some(seen) = seen.filter(|entry| entry.path == path.as_str()) {
            return Some(seen.clone());
        }
        if self.verify {
            return None;
        }
        let entry = self.index.lookup(path.as_str())?;
        let now = self.fs().metadata(&self.full(path)).ok()?;
        (entry.what == What::File && entry.trusted() && is_same(&entry, &now)).then_some(entry)
    }

    fn note_absent(&mut self, path: &Utf8Path) {
        self.seen.push(StatEntry::absent(path.to_string(), ABSENT));
    }

    /// Records why a file cannot be read. That is the verdict on it, unless the machine is to
    /// blame.
    fn note_failure(&mut self, path: &Utf8Path, error: CacheError) -> Result<Reject, StageError> {
        let reason = match error {
            CacheError::Fs(error) if error.is_not_found() => {
                self.note_absent(path);
                return Ok(Reject::new("missing-file", format!("there is no file `{path}`")));
            }
            error if error.machine_fault().is_some() => {
                return Err(StageError::of_cache("", &error));
            }
            CacheError::Fs(error) if !is_about_the_file(&error) => {
                return Err(StageError::of_file(error));
            }
            // The path as written: the same wherever the project is.
            CacheError::Fs(error) => format!("cannot {} `{path}`: {}", error.call, error.source),
            CacheError::NotAFile { .. } => {
                CacheError::NotAFile { path: path.to_owned() }.to_string()
            }
            CacheError::Changed { .. } => CacheError::Changed { path: path.to_owned() }.to_string(),
            error => error.to_string(),
        };
        Ok(self.note_unusable(path, reason))
    }

    fn note_unusable(&mut self, path: &Utf8Path, reason: String) -> Reject {
        let noted = StatEntry::unusable(path.to_string(), Digest::of(reason.as_bytes()));
        self.seen.push(noted);
        Reject::new("unreadable-file", reason)
    }

    /// Looks at the paths of these entries again, and records their present state.
    pub fn look_again(
        &mut self,
        section: &Section,
        differing: &[Differing],
    ) -> Result<(), StageError> {
        let size = |one: &Differing| Some((one.index, section.file_size(one.index)?));
        let files: Vec<(usize, u64)> = differing.iter().filter_map(size).collect();
        let path = |index: &usize| section.get(*index).map_or(String::new(), |entry| entry.path);
        self.say_what_is_hashed(&files, path);
        let (fs, base) = (self.fs(), self.store.base());
        let hashed = stat::hash_again(fs, base, section, differing, threads());
        let mut rest = Vec::new();
        for (one, hashed) in differing.iter().zip(hashed) {
            match hashed {
                Some(entry) => self.seen.push(entry),
                None => rest.extend(section.get(one.index)),
            }
        }
        self.look_closely(rest)
    }

    /// The same, one call after the other, with the reason why a path has no file.
    fn look_closely(&mut self, entries: Vec<StatEntry>) -> Result<(), StageError> {
        let mut files = Vec::new();
        for entry in entries {
            let path = Utf8PathBuf::from(entry.path);
            match entry.what {
                What::File => files.push(path),
                What::Dir => drop(self.list_one(&path)?),
                What::Absent | What::Unusable => match self.fs().metadata(&self.full(&path)) {
                    Ok(metadata) if metadata.is_dir() && entry.what == What::Absent => {
                        drop(self.list_one(&path)?);
                    }
                    Ok(_) => files.push(path),
                    Err(error) => drop(self.note_failure(&path, error.into())?),
                },
            }
        }
        // The stat index would return the entry that differs.
        let unknown: Vec<&Utf8PathBuf> = files.iter().collect();
        for (path, entry) in unknown.iter().zip(self.hash_all(&unknown)) {
            // A file that is no longer readable is recorded as such, and differs.
            drop(self.fact(path, entry)?);
        }
        Ok(())
    }

    fn hash_all(&mut self, paths: &[&Utf8PathBuf]) -> Vec<Result<StatEntry, CacheError>> {
        let (fs, base) = (self.fs(), self.store.base());
        let hash = |path: &&Utf8PathBuf| hash_file(fs, base, path);
        match paths.len() {
            0..=8 => paths.iter().map(hash).collect(),
            count => {
                let share = |range: Range<usize>| paths[range].iter().map(hash).collect();
                // If a thread panics, this thread hashes its files.
                in_shares(count, SHARE, threads(), share)
                    .unwrap_or_else(|| paths.iter().map(hash).collect())
            }
        }
    }

    /// One folder's own entries, without hidden ones.
    fn list_one(&mut self, folder: &Utf8Path) -> Result<Result<Entries, Reject>, StageError> {
        let (full, began) = (self.full(folder), self.fs().now());
        let before = self.fs().metadata(&full);
        let listed = self.fs().read_dir(&full);
        let (before, listed) = match (before, listed) {
            (Ok(before), Ok(listed)) => (before, listed),
            (Ok(before), Err(_)) if !before.is_dir() => {
                let reason = if before.is_file() {
                    format!("`{folder}` is not a folder")
                } else {
                    format!("`{folder}` is neither a regular file nor a folder")
                };
                return Ok(Err(self.note_unusable(folder, reason)));
            }
            (Err(error), _) | (_, Err(error)) if error.is_not_found() => {
                self.note_absent(folder);
                let reason = format!("there is no folder `{folder}`");
                return Ok(Err(Reject::new(NO_FOLDER, reason)));
            }
            (Err(error), _) | (_, Err(error)) => {
                return self.note_failure(folder, error.into()).map(Err);
            }
        };
        let mut sink = HashSink::default();
        let mut entries = Vec::new();
        for entry in listed {
            if !entry.name.starts_with('.') {
                sink.integer(&entry.name, entry.kind as i64);
                entries.push((entry.name, entry.kind));
            }
        }
        let entry = StatEntry::new(folder.to_string(), &before, began, sink.finish(), What::Dir);
        self.seen.push(entry);
        Ok(Ok(entries))
    }

    fn list_into(
        &mut self,
        folder: &Utf8Path,
        below: &Utf8Path,
        found: &mut Listing,
    ) -> Result<Result<(), Reject>, StageError> {
        let entries = match self.list_one(folder)? {
            Ok(entries) => entries,
            Err(reject) => return Ok(Err(reject)),
        };
        for (name, kind) in entries {
            let (path, below) = (folder.join(&name), below.join(&name));
            match kind {
                FileKind::Dir => {
                    found.folders.push(below.clone());
                    if let Err(reject) = self.list_into(&path, &below, found)? {
                        found.rejects.push((below.into_string(), reject));
                    }
                }
                FileKind::Unnameable => {
                    let reason = format!("the name of `{path}` is not UTF-8; rename it");
                    found.rejects.push((below.into_string(), Reject::new("not-utf8", reason)));
                }
                FileKind::Symlink if self.leads_to_a_folder(&path)? => {
                    // Recorded, since the list changes when the link leads elsewhere.
                    let entry = hash_file(self.fs(), self.store.base(), &path);
                    drop(self.fact(&path, entry)?);
                    found.folders.push(below);
                }
                FileKind::File | FileKind::Symlink | FileKind::Other => found.files.push(below),
            }
        }
        Ok(Ok(()))
    }

    /// Links to folders are not followed, since they can form a cycle.
    fn leads_to_a_folder(&self, path: &Utf8Path) -> Result<bool, StageError> {
        match self.fs().metadata(&self.full(path)) {
            Ok(metadata) => Ok(metadata.is_dir()),
            // Otherwise the file would be missing for as long as the folder does not change.
            Err(error) if error.machine_fault().is_some() => Err(StageError::of_file(error)),
            Err(_) => Ok(false),
        }
    }

    /// A single large file is named.
    fn say_what_is_hashed<P>(&mut self, files: &[(P, u64)], path: impl Fn(&P) -> String) {
        let bytes = files.iter().fold(0, |sum: u64, (_, size)| sum.saturating_add(*size));
        if bytes <= QUIET_BYTES {
            return;
        }
        let largest = files.iter().max_by_key(|(_, size)| size);
        let large = largest
            .filter(|(_, size)| *size > LARGE_BYTES)
            .map(|(file, size)| format!(" (`{}` with {})", path(file), units::bytes(*size)));
        let (files, large) =
            (units::counted(files.len() as u64, "file"), large.unwrap_or_default());
        (self.waiting)(format!("the hashes of {files}{large}"));
    }
}

/// The names in a folder.
type Entries = Vec<(String, FileKind)>;

/// The code of a folder that does not exist.
const NO_FOLDER: &str = "missing-folder";

/// The content of a missing file.
const ABSENT: Digest = Digest::from_bytes([0; 32]);

/// The number of threads that hash.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn is_same(entry: &StatEntry, now: &Metadata) -> bool {
    entry.size == now.size
        && entry.mtime_ns == now.mtime_ns
        && entry.ctime_ns == now.ctime_ns
        && entry.inode == now.inode
}

fn hash_file(fs: &dyn Fs, base: &Utf8Path, path: &Utf8Path) -> Result<StatEntry, CacheError> {
    let hash = || stat::hash_file(fs, &base.join(path));
    // A file that is being written gets a second chance.
    let hashed = match hash() {
        Err(CacheError::Changed { .. }) => hash(),
        other => other,
    };
    hashed.map(|(_, entry)| StatEntry { path: path.to_string(), ..entry })
}

impl World for Watch<'_> {
    fn read_one(&mut self, path: &Utf8Path) -> Result<Result<Bytes, Reject>, StageError> {
        let (full, began) = (self.full(path), self.fs().now());
        let before = self.fs().metadata(&full);
        let bytes = before.and_then(|before| Ok((before, self.fs().read(&full)?)));
        let (before, bytes) = match bytes {
            Ok(found) => found,
            Err(error) => return self.note_failure(path, error.into()).map(Err),
        };
        let digest = Digest::of(&bytes);
        let entry = StatEntry::new(path.to_string(), &before, began, digest, What::File);
        self.seen.push(entry);
        Ok(Ok(bytes.into()))
    }

    fn open_one(
        &mut self,
        path: &Utf8Path,
    ) -> Result<Result<Arc<dyn FileParts>, Reject>, StageError> {
        if let Some(Err(reject)) = self.files(&[path.to_owned()])?.pop() {
            return Ok(Err(reject));
        }
        let Some(seen) = self.seen.last_mut() else {
            return Err(StageError::failed(format!("`{path}` was not examined")));
        };
        seen.by_digest = false;
        let entry = seen.clone();
        let file = self.fs().open(&self.full(path), Open::Read);
        let file = file.map_err(StageError::of_file)?;
        Ok(Ok(Arc::new(ScannedFile::new(file, entry))))
    }

    fn list(&mut self, folder: &Utf8Path) -> Result<Listing, StageError> {
        let missing = || StageError::failed(format!("there is no folder `{folder}`"));
        self.list_if_any(folder)?.ok_or_else(missing)
    }

    fn list_if_any(&mut self, folder: &Utf8Path) -> Result<Option<Listing>, StageError> {
        let mut found = Listing::default();
        match self.list_into(folder, Utf8Path::new(""), &mut found)? {
            Ok(()) => {
                found.files.sort();
                found.folders.sort();
                Ok(Some(found))
            }
            Err(reject) if reject.code == NO_FOLDER => match self.in_the_way(folder) {
                None => Ok(None),
                Some(why) => Err(StageError::failed(why)),
            },
            Err(reject) => Err(StageError::failed(reject.reason)),
        }
    }

    fn list_folder(&mut self, folder: &Utf8Path) -> Result<Option<Listing>, StageError> {
        let Ok(entries) = self.list_one(folder)? else { return Ok(None) };
        let (folders, files): (Entries, Entries) =
            entries.into_iter().partition(|(_, kind)| *kind == FileKind::Dir);
        let names = |entries: Entries| {
            let mut names: Vec<Utf8PathBuf> =
                entries.into_iter().map(|(name, _)| name.into()).collect();
            names.sort();
            names
        };
        Ok(Some(Listing { files: names(files), folders: names(folders), ..Listing::default() }))
    }

    fn exists(&mut self, path: &Utf8Path) -> bool {
        match self.fs().metadata(&self.full(path)) {
            // The observation includes its existence, and its content stands for that.
            Ok(metadata) if metadata.is_file() => {
                matches!(self.files(&[path.to_owned()]).as_deref(), Ok([Ok(_)]))
            }
            Ok(_) => false,
            Err(_) => {
                self.note_absent(path);
                false
            }
        }
    }

    fn files(
        &mut self,
        paths: &[Utf8PathBuf],
    ) -> Result<Vec<Result<FileFact, Reject>>, StageError> {
        let memos: Vec<Option<StatEntry>> = paths.iter().map(|path| self.known(path)).collect();
        let unknown: Vec<&Utf8PathBuf> =
            paths.iter().zip(&memos).filter(|(_, memo)| memo.is_none()).map(|(p, _)| p).collect();
        let (fs, base) = (self.fs(), self.store.base());
        let size = |path: &Utf8PathBuf| fs.metadata(&base.join(path)).map_or(0, |now| now.size);
        let files: Vec<_> = unknown.iter().map(|path| (*path, size(path))).collect();
        self.say_what_is_hashed(&files, |path| path.to_string());
        let mut hashed = self.hash_all(&unknown).into_iter();
        let mut facts = Vec::with_capacity(paths.len());
        for (path, memo) in paths.iter().zip(memos) {
            let entry = match memo {
                Some(entry) => Ok(entry),
                None => {
                    hashed.next().unwrap_or_else(|| hash_file(self.fs(), self.store.base(), path))
                }
            };
            let entry = entry.map(|entry| StatEntry { by_digest: true, ..entry });
            facts.push(self.fact(path, entry)?);
        }
        Ok(facts)
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Result<Blob, StageError> {
        let value = self.store.keep(NewValue::bytes(kind, bytes));
        let failed = |error: CacheError| StageError::of_cache("", &error);
        let value = value.map_err(failed)?;
        // The objects of a source may be more than the memory.
        if self.store.cache().pending_bytes() >= MOST_PENDING {
            self.store.cache().commit().map_err(failed)?;
        }
        match value {
            Value::Blob(blob) => Ok(std::sync::Arc::unwrap_or_clone(blob)),
            _ => Err(StageError::failed("bytes did not become a blob")),
        }
    }

    fn recall(&mut self, key: &Digest) -> Result<Option<Fields>, StageError> {
        let failed = |error: CacheError| StageError::of_cache("", &error);
        let kept = self.store.cache().get(MEMO, key).map_err(failed)?;
        let Some(fields) = kept.and_then(|bytes| decode::<Fields>(&bytes)) else {
            return Ok(None);
        };
        let digests: Vec<Digest> = fields.blobs().map(|blob| blob.digest).collect();
        let there = self.store.have(&digests).map_err(failed)?;
        Ok(there.into_iter().all(|there| there).then_some(fields))
    }

    fn remember(&mut self, key: &Digest, fields: &Fields) -> Result<(), StageError> {
        match self.store.cache().record(MEMO, key, encode(fields)) {
            // A plan on a read-only cache does the work again.
            Err(CacheError::ReadOnly { .. }) => Ok(()),
            kept => kept.map_err(|error| StageError::of_cache("", &error)),
        }
    }

    fn waiting(&mut self, what: String) {
        (self.waiting)(what);
    }
}

impl Watch<'_> {
    /// The reason why a folder is missing, if a broken link or a file is in its place or above it.
    fn in_the_way(&self, folder: &Utf8Path) -> Option<String> {
        let is_there = |path: &&Utf8Path| self.fs().symlink_metadata(&self.full(path)).is_ok();
        let path = folder.ancestors().find(is_there)?;
        match self.fs().metadata(&self.full(path)) {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(_) => Some(format!("`{path}` is not a folder")),
            Err(_) => Some(format!("`{path}` is a broken link")),
        }
    }

    fn fact(
        &mut self,
        path: &Utf8Path,
        entry: Result<StatEntry, CacheError>,
    ) -> Result<Result<FileFact, Reject>, StageError> {
        match entry {
            Ok(entry) => {
                let fact = FileFact { digest: entry.digest, size: entry.size };
                self.seen.push(entry);
                Ok(Ok(fact))
            }
            Err(error) => self.note_failure(path, error).map(Err),
        }
    }
}

/// True if an error concerns this file, so that it may become a verdict on an item.
fn is_about_the_file(error: &FsError) -> bool {
    use std::io::ErrorKind;
    const NO_DEVICE: i32 = 6;
    const NO_SUCH_DEVICE: i32 = 19;
    const LINKS_IN_A_RING: i32 = 40;
    let odd = [NO_DEVICE, NO_SUCH_DEVICE, LINKS_IN_A_RING];
    error.source.raw_os_error().is_some_and(|number| odd.contains(&number))
        || matches!(
            error.kind(),
            ErrorKind::PermissionDenied
                | ErrorKind::IsADirectory
                | ErrorKind::InvalidFilename
                | ErrorKind::InvalidInput
        )
}
