//! A file system in memory that simulates power cuts: file data survives only if it was synced,
//! names only if their folder was synced.

mod disk;
mod file;
mod state;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use camino::{Utf8Path, Utf8PathBuf};

use self::disk::{Disk, DiskChange, Inode, Node, ROOT};
use self::file::MemoryFile;
use self::state::{DiskState, START, TICK, error};
use super::fault::{EIO, EROFS};
use super::{Call, DirEntry, FileKind, Fs, FsError, FsFile, FsResult, Metadata, Open};

/// Cheap to clone; the clones are the same file system.
#[derive(Debug, Clone)]
pub struct MemoryFs(Arc<Mutex<DiskState>>);

impl Default for MemoryFs {
    fn default() -> MemoryFs {
        MemoryFs::new()
    }
}

impl MemoryFs {
    /// An empty disk with a root folder.
    pub fn new() -> MemoryFs {
        MemoryFs::holding(Disk::new(), 2, START)
    }

    fn holding(disk: Disk, next_inode: Inode, clock: i64) -> MemoryFs {
        MemoryFs(Arc::new(Mutex::new(DiskState {
            seen: disk.clone(),
            durable: disk,
            journal: Vec::new(),
            next_inode,
            next_handle: 1,
            locks: Default::default(),
            clock,
            syncs: 0,
            stop_after: None,
            readonly: false,
            random: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state after a power cut now, if no unsynced change reached the disk.
    pub fn crash(&self) -> MemoryFs {
        let state = self.state();
        MemoryFs::holding(state.durable.clone(), state.next_inode, state.clock)
    }

    /// A possible state after a power cut now: some of the unsynced changes reached the disk, data
    /// in any order and maybe partially. The seed selects them.
    pub fn crash_reordered(&self, seed: u64) -> MemoryFs {
        let state = self.state();
        let mut disk = state.durable.clone();
        let mut random = Random(seed);
        for change in &state.journal {
            match (random.below(3), change) {
                (0, _) => {}
                (1, DiskChange::Data { inode, offset, bytes }) => {
                    let kept = random.below(bytes.len() as u64 + 1) as usize;
                    let bytes = bytes[..kept].to_vec();
                    disk.apply(&DiskChange::Data { inode: *inode, offset: *offset, bytes });
                }
                _ => disk.apply(change),
            }
        }
        MemoryFs::holding(disk, state.next_inode, state.clock)
    }

    /// The state that other programs see after the process is killed, with no lock held.
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

    /// The number of syncs of files and folders so far.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Sets the time that [`Fs::now`] returns, in nanoseconds since 1970.
    pub fn set_clock(&self, nanoseconds: i64) {
        self.state().clock = nanoseconds;
    }

    /// From now on, random numbers depend on this seed.
    pub fn set_seed(&self, seed: u64) {
        self.state().random = Some(Random(seed));
    }

    /// Refuses every change from now on, like a read-only mount.
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

    /// Replaces the bytes of a file directly and durably.
    ///
    /// # Errors
    ///
    /// If there is no such file.
    pub fn overwrite(&self, path: &Utf8Path, bytes: &[u8]) -> FsResult<()> {
        let mut state = self.state();
        let inode = state.find(path).map_err(|source| FsError::new(Call::Write, path, source))?;
        let DiskState { seen, durable, .. } = &mut *state;
        for disk in [seen, durable] {
            disk.apply(&DiskChange::Length { inode, length: 0 });
            disk.apply(&DiskChange::Data { inode, offset: 0, bytes: bytes.to_vec() });
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
        operation: impl FnOnce(&mut DiskState) -> io::Result<T>,
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

/// A small generator of the xorshift family: the surviving changes must depend on the seed only.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
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

    /// There are no links.
    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf> {
        self.metadata(path).map(|_| path.to_owned())
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
            state.change(DiskChange::Link { dir, name, inode, is_dir: false });
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

    fn is_local(&self, _path: &Utf8Path) -> bool {
        true
    }

    fn now(&self) -> i64 {
        let mut state = self.state();
        state.clock += TICK;
        state.clock
    }

    fn random(&self) -> u64 {
        match &mut self.state().random {
            Some(seeded) => seeded.below(u64::MAX),
            None => super::random(),
        }
    }
}
