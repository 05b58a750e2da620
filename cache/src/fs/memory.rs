//! A file system in memory that knows what a power cut would leave: file data
//! only as far as it was synced, names only as far as their folder was synced.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use super::disk::{Change, Disk, Inode, Node, ROOT};
use super::fault::{EIO, EROFS};
use super::{Call, DirEntry, FileKind, Fs, FsError, FsFile, FsResult, LockKind, Metadata, Open};

/// Cheap to clone; the clones are the same file system.
#[derive(Debug, Clone)]
pub struct MemoryFs(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    seen: Disk,
    durable: Disk,
    /// What `seen` has and `durable` lacks, in the order it was done.
    journal: Vec<Change>,
    next_inode: Inode,
    next_handle: u64,
    locks: HashMap<Inode, Locks>,
    clock: i64,
    syncs: u64,
    stop_after: Option<u64>,
    readonly: bool,
}

#[derive(Debug, Default)]
struct Locks {
    exclusive: Option<u64>,
    shared: HashSet<u64>,
    bytes: HashMap<u64, u64>,
}

const START: i64 = 1_700_000_000_000_000_000;
const TICK: i64 = 1_000;

impl Default for MemoryFs {
    fn default() -> MemoryFs {
        MemoryFs::new()
    }
}

impl MemoryFs {
    pub fn new() -> MemoryFs {
        MemoryFs::holding(Disk::new(), 2, START)
    }

    fn holding(disk: Disk, next_inode: Inode, clock: i64) -> MemoryFs {
        MemoryFs(Arc::new(Mutex::new(State {
            seen: disk.clone(),
            durable: disk,
            journal: Vec::new(),
            next_inode,
            next_handle: 1,
            locks: HashMap::new(),
            clock,
            syncs: 0,
            stop_after: None,
            readonly: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a power cut now would leave, nothing unsynced having reached the disk.
    pub fn crash(&self) -> MemoryFs {
        let state = self.state();
        MemoryFs::holding(state.durable.clone(), state.next_inode, state.clock)
    }

    /// What a power cut now might leave: some of the unsynced changes reached the
    /// disk, data in any order and maybe in part. The seed chooses which.
    pub fn crash_reordered(&self, seed: u64) -> MemoryFs {
        let state = self.state();
        let mut disk = state.durable.clone();
        let mut random = Random(seed);
        for change in &state.journal {
            match (random.below(3), change) {
                (0, _) => {}
                (1, Change::Data { inode, offset, bytes }) => {
                    let kept = random.below(bytes.len() as u64 + 1) as usize;
                    let bytes = bytes[..kept].to_vec();
                    disk.apply(&Change::Data { inode: *inode, offset: *offset, bytes });
                }
                _ => disk.apply(change),
            }
        }
        MemoryFs::holding(disk, state.next_inode, state.clock)
    }

    /// What other programs would see now, with no lock held: the process was
    /// killed, the machine went on.
    pub fn kill(&self) -> MemoryFs {
        let state = self.state();
        let copy = MemoryFs::holding(state.seen.clone(), state.next_inode, state.clock);
        {
            let mut inner = copy.state();
            inner.durable = state.durable.clone();
            inner.journal = state.journal.clone();
        }
        copy
    }

    /// Every operation after the n-th sync from now fails, as if the machine had stopped.
    pub fn stop_after(&self, syncs: u64) {
        let mut state = self.state();
        state.stop_after = Some(state.syncs + syncs);
    }

    /// How many syncs of files and folders there have been.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    pub fn set_clock(&self, nanoseconds: i64) {
        self.state().clock = nanoseconds;
    }

    /// Refuses every change from now on, as a read-only mount does.
    pub fn set_readonly_mount(&self, readonly: bool) {
        self.state().readonly = readonly;
    }

    /// Every file with its bytes, sorted by path: for tests that damage or compare.
    pub fn files(&self) -> Vec<(Utf8PathBuf, Vec<u8>)> {
        let state = self.state();
        let mut found = Vec::new();
        let mut waiting = vec![(Utf8PathBuf::from("/"), ROOT)];
        while let Some((path, inode)) = waiting.pop() {
            match state.seen.nodes.get(&inode) {
                Some(Node::File(bytes)) => found.push((path, bytes.clone())),
                Some(Node::Dir(names)) => {
                    waiting.extend(names.iter().map(|(name, inode)| (path.join(name), *inode)));
                }
                None => {}
            }
        }
        found.sort();
        found
    }

    /// Replaces the bytes of a file behind everybody's back, durably.
    pub fn overwrite(&self, path: &Utf8Path, bytes: &[u8]) -> FsResult<()> {
        let mut state = self.state();
        let inode = state.find(path).map_err(|source| FsError::new(Call::Write, path, source))?;
        let State { seen, durable, .. } = &mut *state;
        for disk in [seen, durable] {
            disk.apply(&Change::Length { inode, length: 0 });
            disk.apply(&Change::Data { inode, offset: 0, bytes: bytes.to_vec() });
        }
        Ok(())
    }

    /// A separate file system with the same durable and visible state.
    pub fn duplicate(&self) -> MemoryFs {
        self.kill()
    }

    fn run<T>(
        &self,
        call: Call,
        path: &Utf8Path,
        operation: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> FsResult<T> {
        let mut state = self.state();
        let stopped = state.stop_after.is_some_and(|last| state.syncs >= last);
        let result = if stopped {
            Err(io::Error::from_raw_os_error(EIO))
        } else if state.readonly && changes(call) {
            Err(io::Error::from_raw_os_error(EROFS))
        } else {
            operation(&mut state)
        };
        result.map_err(|source| FsError::new(call, path, source))
    }
}

fn changes(call: Call) -> bool {
    use Call::{
        Create, CreateDir, HardLink, Reflink, RemoveDir, RemoveFile, Rename, SetLen, SetReadonly,
        Write,
    };
    matches!(
        call,
        Create
            | CreateDir
            | HardLink
            | Reflink
            | RemoveDir
            | RemoveFile
            | Rename
            | SetLen
            | SetReadonly
            | Write
    )
}

/// A small generator of the xorshift family: which changes survive must depend on the seed only.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

fn error(kind: io::ErrorKind) -> io::Error {
    io::Error::from(kind)
}

impl State {
    fn find(&self, path: &Utf8Path) -> io::Result<Inode> {
        let mut inode = ROOT;
        for component in path.components() {
            if let Utf8Component::Normal(name) = component {
                let names = self.seen.dir(inode);
                let names = names.ok_or_else(|| error(io::ErrorKind::NotADirectory))?;
                inode = *names.get(name).ok_or_else(|| error(io::ErrorKind::NotFound))?;
            }
        }
        Ok(inode)
    }

    /// The folder a path lies in, and its last name.
    fn place(&self, path: &Utf8Path) -> io::Result<(Inode, String)> {
        let name = path.file_name().ok_or_else(|| error(io::ErrorKind::InvalidInput))?;
        let dir = self.find(path.parent().unwrap_or(Utf8Path::new("/")))?;
        self.seen.dir(dir).ok_or_else(|| error(io::ErrorKind::NotADirectory))?;
        Ok((dir, name.to_owned()))
    }

    fn change(&mut self, change: Change) {
        self.clock += TICK;
        match &change {
            Change::Data { inode, .. } | Change::Length { inode, .. } => {
                self.seen.modified.insert(*inode, self.clock);
            }
            Change::Link { dir, .. } | Change::Unlink { dir, .. } => {
                self.seen.modified.insert(*dir, self.clock);
            }
            Change::Rename { from, to, .. } => {
                self.seen.modified.insert(from.0, self.clock);
                self.seen.modified.insert(to.0, self.clock);
            }
        }
        self.seen.apply(&change);
        self.journal.push(change);
    }

    fn persist(&mut self, wanted: impl Fn(&Change) -> bool) {
        self.syncs += 1;
        let journal = std::mem::take(&mut self.journal);
        for change in journal {
            if wanted(&change) {
                self.durable.apply(&change);
            } else {
                self.journal.push(change);
            }
        }
    }

    fn metadata(&self, inode: Inode) -> io::Result<Metadata> {
        let node = self.seen.nodes.get(&inode).ok_or_else(|| error(io::ErrorKind::NotFound))?;
        let (kind, size) = match node {
            Node::File(bytes) => (FileKind::File, bytes.len() as u64),
            Node::Dir(names) => (FileKind::Dir, names.len() as u64),
        };
        let time = self.seen.modified.get(&inode).copied().unwrap_or(START);
        let readonly = self.seen.readonly.contains(&inode);
        Ok(Metadata { kind, size, mtime_ns: time, ctime_ns: time, inode, readonly })
    }

    fn create(&mut self, path: &Utf8Path, is_dir: bool) -> io::Result<Inode> {
        let (dir, name) = self.place(path)?;
        if self.seen.dir(dir).is_some_and(|names| names.contains_key(&name)) {
            return Err(error(io::ErrorKind::AlreadyExists));
        }
        let inode = self.next_inode;
        self.next_inode += 1;
        self.change(Change::Link { dir, name, inode, is_dir });
        self.seen.modified.insert(inode, self.clock);
        Ok(inode)
    }

    fn open(&mut self, path: &Utf8Path, how: Open) -> io::Result<(Inode, bool)> {
        let inode = match (self.find(path), how) {
            (Err(missing), Open::Create | Open::CreateNew)
                if missing.kind() == io::ErrorKind::NotFound =>
            {
                if self.readonly {
                    return Err(io::Error::from_raw_os_error(EROFS));
                }
                self.create(path, false)?
            }
            (Ok(_), Open::CreateNew) => return Err(error(io::ErrorKind::AlreadyExists)),
            (found, _) => found?,
        };
        if self.seen.file(inode).is_none() {
            return Err(error(io::ErrorKind::IsADirectory));
        }
        let writes = how != Open::Read;
        if writes && self.readonly {
            return Err(io::Error::from_raw_os_error(EROFS));
        }
        if writes && self.seen.readonly.contains(&inode) {
            return Err(error(io::ErrorKind::PermissionDenied));
        }
        Ok((inode, writes))
    }

    fn remove(&mut self, path: &Utf8Path, is_dir: bool) -> io::Result<()> {
        let inode = self.find(path)?;
        match (self.seen.dir(inode), is_dir) {
            (Some(_), false) => return Err(error(io::ErrorKind::IsADirectory)),
            (None, true) => return Err(error(io::ErrorKind::NotADirectory)),
            (Some(names), true) if !names.is_empty() => {
                return Err(error(io::ErrorKind::DirectoryNotEmpty));
            }
            _ => {}
        }
        let (dir, name) = self.place(path)?;
        self.change(Change::Unlink { dir, name });
        Ok(())
    }

    fn rename(&mut self, from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
        let inode = self.find(from)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        let replaced = self.seen.dir(to.0).and_then(|names| names.get(&to.1)).copied();
        if let Some(replaced) = replaced.filter(|replaced| *replaced != inode) {
            match (self.seen.dir(inode), self.seen.dir(replaced)) {
                (None, Some(_)) => return Err(error(io::ErrorKind::IsADirectory)),
                (Some(_), None) => return Err(error(io::ErrorKind::NotADirectory)),
                (Some(_), Some(names)) if !names.is_empty() => {
                    return Err(error(io::ErrorKind::DirectoryNotEmpty));
                }
                _ => {}
            }
        }
        self.change(Change::Rename { from, to, inode });
        Ok(())
    }
}

impl Fs for MemoryFs {
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>> {
        let (inode, handle, writes) = self.run(Call::Open, path, |state| {
            let (inode, writes) = state.open(path, how)?;
            state.next_handle += 1;
            Ok((inode, state.next_handle, writes))
        })?;
        Ok(Box::new(MemoryFile { fs: self.clone(), path: path.to_owned(), inode, handle, writes }))
    }

    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        self.run(Call::Metadata, path, |state| state.metadata(state.find(path)?))
    }

    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        self.metadata(path)
    }

    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>> {
        self.run(Call::ReadDir, path, |state| {
            let names = state.seen.dir(state.find(path)?);
            let names = names.ok_or_else(|| error(io::ErrorKind::NotADirectory))?;
            let entry = |(name, inode): (&String, &Inode)| DirEntry {
                name: name.clone(),
                kind: state.seen.dir(*inode).map_or(FileKind::File, |_| FileKind::Dir),
            };
            Ok(names.iter().map(entry).collect())
        })
    }

    fn create_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.run(Call::CreateDir, path, |state| state.create(path, true).map(drop))
    }

    fn remove_file(&self, path: &Utf8Path) -> FsResult<()> {
        self.run(Call::RemoveFile, path, |state| state.remove(path, false))
    }

    fn remove_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.run(Call::RemoveDir, path, |state| state.remove(path, true))
    }

    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        self.run(Call::Rename, from, |state| state.rename(from, to))
    }

    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()> {
        self.run(Call::HardLink, link, |state| {
            let inode = state.find(original)?;
            let (dir, name) = state.place(link)?;
            if state.seen.dir(dir).is_some_and(|names| names.contains_key(&name)) {
                return Err(error(io::ErrorKind::AlreadyExists));
            }
            state.change(Change::Link { dir, name, inode, is_dir: false });
            Ok(())
        })
    }

    fn reflink(&self, _from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        self.run(Call::Reflink, to, |_| Err(error(io::ErrorKind::Unsupported)))
    }

    fn set_readonly(&self, path: &Utf8Path) -> FsResult<()> {
        self.run(Call::SetReadonly, path, |state| {
            let inode = state.find(path)?;
            state.seen.readonly.insert(inode);
            state.durable.readonly.insert(inode);
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.run(Call::SyncDir, path, |state| {
            let dir = state.find(path)?;
            state.persist(|change| change.is_name_in(dir));
            Ok(())
        })
    }

    fn now(&self) -> i64 {
        let mut state = self.state();
        state.clock += TICK;
        state.clock
    }
}

#[derive(Debug)]
struct MemoryFile {
    fs: MemoryFs,
    path: Utf8PathBuf,
    inode: Inode,
    handle: u64,
    writes: bool,
}

impl MemoryFile {
    fn run<T>(
        &self,
        call: Call,
        operation: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> FsResult<T> {
        if changes(call) && !self.writes {
            let source = error(io::ErrorKind::PermissionDenied);
            return Err(FsError::new(call, &self.path, source));
        }
        self.fs.run(call, &self.path, operation)
    }

    fn bytes<'a>(&self, state: &'a State) -> io::Result<&'a Vec<u8>> {
        state.seen.file(self.inode).ok_or_else(|| error(io::ErrorKind::NotFound))
    }
}

impl FsFile for MemoryFile {
    fn path(&self) -> &Utf8Path {
        &self.path
    }

    fn metadata(&self) -> FsResult<Metadata> {
        self.run(Call::Metadata, |state| state.metadata(self.inode))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize> {
        self.run(Call::Read, |state| {
            let bytes = self.bytes(state)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            let count = buffer.len().min(bytes.len() - start);
            buffer[..count].copy_from_slice(&bytes[start..start + count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> FsResult<usize> {
        self.run(Call::Write, |state| {
            let offset = usize::try_from(offset).map_err(io::Error::other)?;
            state.change(Change::Data { inode: self.inode, offset, bytes: bytes.to_vec() });
            Ok(bytes.len())
        })
    }

    fn set_len(&self, length: u64) -> FsResult<()> {
        self.run(Call::SetLen, |state| {
            let length = usize::try_from(length).map_err(io::Error::other)?;
            state.change(Change::Length { inode: self.inode, length });
            Ok(())
        })
    }

    fn sync_data(&self) -> FsResult<()> {
        self.run(Call::SyncData, |state| {
            state.persist(|change| change.is_data_of(self.inode));
            Ok(())
        })
    }

    fn lock(&self, kind: LockKind) -> FsResult<()> {
        while !self.try_lock(kind)? {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        Ok(())
    }

    fn try_lock(&self, kind: LockKind) -> FsResult<bool> {
        self.run(Call::Lock, |state| {
            let locks = state.locks.entry(self.inode).or_default();
            let held = locks.exclusive.is_some_and(|other| other != self.handle);
            let shared = locks.shared.iter().any(|other| *other != self.handle);
            if held || (kind == LockKind::Exclusive && shared) {
                return Ok(false);
            }
            locks.release(self.handle);
            match kind {
                LockKind::Exclusive => locks.exclusive = Some(self.handle),
                LockKind::Shared => _ = locks.shared.insert(self.handle),
            }
            Ok(true)
        })
    }

    fn unlock(&self) -> FsResult<()> {
        self.run(Call::Unlock, |state| {
            state.locks.entry(self.inode).or_default().release(self.handle);
            Ok(())
        })
    }

    fn try_lock_byte(&self, offset: u64) -> FsResult<bool> {
        self.run(Call::LockRange, |state| {
            let bytes = &mut state.locks.entry(self.inode).or_default().bytes;
            Ok(*bytes.entry(offset).or_insert(self.handle) == self.handle)
        })
    }

    fn unlock_byte(&self, offset: u64) -> FsResult<()> {
        self.run(Call::UnlockRange, |state| {
            let bytes = &mut state.locks.entry(self.inode).or_default().bytes;
            if bytes.get(&offset) == Some(&self.handle) {
                bytes.remove(&offset);
            }
            Ok(())
        })
    }

    fn byte_is_locked(&self, offset: u64) -> FsResult<bool> {
        self.run(Call::LockRange, |state| {
            let bytes = &state.locks.entry(self.inode).or_default().bytes;
            Ok(bytes.get(&offset).is_some_and(|holder| *holder != self.handle))
        })
    }
}

impl Locks {
    fn release(&mut self, handle: u64) {
        self.exclusive = self.exclusive.filter(|holder| *holder != handle);
        self.shared.remove(&handle);
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut state = self.fs.state();
        if let Some(locks) = state.locks.get_mut(&self.inode) {
            locks.release(self.handle);
            locks.bytes.retain(|_, holder| *holder != self.handle);
        }
    }
}
