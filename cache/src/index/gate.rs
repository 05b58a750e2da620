//! The lock file of the index, and its numbers: changes so far, length of the index at the last
//! compaction, unfinished changes in a row, and the boot in which the index was changed without a
//! sync.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::fs::{Fs, FsError, FsFile, FsResult, LockKind, Open};
use crate::layout::Layout;
use crate::{CacheError, Digest};

const COMPACTED: u64 = 8;
const UNFINISHED: u64 = 16;
const BOOT: u64 = 24;
/// One, once the preceding boot id is durable.
const TOLD: u64 = 40;
/// The highest pack number ever used.
const HIGHEST: u64 = 48;

/// The purpose for which a cache is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading, and changes. The folder is created if necessary.
    ReadWrite,
    /// Reading only: no file of the cache is changed, and the folder must exist.
    ReadOnly,
}

/// A boot of the machine; zeros mean none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boot([u8; 16]);

impl Boot {
    /// The present boot, if writes to this folder are reliable until the next one.
    pub fn present(fs: &dyn Fs, layout: &Layout) -> Option<Boot> {
        let id = fs.boot().filter(|_| fs.is_local(&layout.dir))?;
        let mut start = [0; 16];
        start.copy_from_slice(&Digest::of(id.as_bytes()).as_bytes()[..16]);
        Some(Boot(start))
    }

    pub fn is_none(&self) -> bool {
        *self == Boot::default()
    }
}

pub(crate) struct Gate {
    /// None if the cache is not writable and the file was never created.
    file: Option<Arc<dyn FsFile>>,
    /// The inode of that file.
    inode: Option<u64>,
    can_lock: AtomicBool,
}

/// Releases the lock when dropped.
pub(crate) struct Guard(Option<Arc<dyn FsFile>>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // A lock that cannot be released ends with the handle.
            let _ = file.unlock();
        }
    }
}

/// The contents of the file when a change began.
pub(crate) struct GateState {
    pub before: u64,
    pub after: u64,
    /// Consecutive changes by processes that died in the middle.
    pub unfinished: u64,
}

impl Gate {
    pub fn open(fs: &dyn Fs, layout: &Layout, access: Access) -> FsResult<Gate> {
        let path = layout.ledger_lock();
        let file = match access {
            Access::ReadWrite => Some(fs.open(&path, Open::Create)?),
            Access::ReadOnly => match fs.open(&path, Open::Read) {
                Ok(file) => Some(file),
                Err(error) if error.is_not_found() || error.is_denied() => None,
                Err(error) if error.is_a_folder() => None,
                Err(error) => return Err(error),
            },
        };
        let metadata = file.as_ref().map(|file| file.metadata()).transpose()?;
        let file = file.filter(|_| metadata.is_some_and(|metadata| metadata.is_file()));
        let inode = metadata.map(|metadata| metadata.inode);
        let can_lock = AtomicBool::new(file.is_some());
        Ok(Gate { file: file.map(Arc::from), inode, can_lock })
    }

    /// True if the cache is still at its path, and is the same one.
    pub fn is_in_place(&self, fs: &dyn Fs, layout: &Layout) -> FsResult<bool> {
        if self.file.is_none() {
            return Ok(true);
        }
        match fs.metadata(&layout.ledger_lock()) {
            Ok(metadata) => Ok(Some(metadata.inode) == self.inode),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tests if other processes are excluded while this one writes.
    pub fn can_lock(&self) -> bool {
        self.can_lock.load(Ordering::Relaxed)
    }

    pub fn lock(&self, kind: LockKind) -> Result<Guard, CacheError> {
        let Some(file) = self.file.as_ref().filter(|_| self.can_lock()) else {
            return Ok(Guard(None));
        };
        match file.lock(kind) {
            Ok(()) => Ok(Guard(Some(Arc::clone(file)))),
            Err(error) if error.is_unsupported() => {
                self.can_lock.store(false, Ordering::Relaxed);
                Ok(Guard(None))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn number(&self, offset: u64) -> FsResult<u64> {
        let mut bytes = [0; 8];
        if let Some(file) = &self.file {
            file.read_full_at(&mut bytes, offset)?;
        }
        Ok(u64::from_le_bytes(bytes))
    }

    fn set_number(&self, offset: u64, number: u64) -> FsResult<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_all_at(&number.to_le_bytes(), offset)
    }

    /// The number of changes so far.
    pub fn generation(&self) -> FsResult<u64> {
        self.number(0)
    }

    /// The length of the index after its last compaction.
    pub fn compacted(&self) -> FsResult<u64> {
        self.number(COMPACTED)
    }

    pub fn set_compacted(&self, length: u64) -> FsResult<()> {
        self.set_number(COMPACTED, length)
    }

    /// The highest pack number ever used, according to this file.
    pub fn highest_pack(&self) -> FsResult<u32> {
        Ok(u32::try_from(self.number(HIGHEST)?).unwrap_or(u32::MAX))
    }

    /// Written before the pack is used, so that its number outlives the pack and the index.
    pub fn saw_pack(&self, number: u32) -> FsResult<()> {
        if number <= self.highest_pack()? {
            Ok(())
        } else {
            self.set_number(HIGHEST, number.into())
        }
    }

    /// The boot in which the index was changed without a sync.
    pub fn boot(&self) -> FsResult<Boot> {
        let mut boot = Boot::default();
        if let Some(file) = &self.file {
            file.read_full_at(&mut boot.0, BOOT)?;
        }
        Ok(boot)
    }

    /// Tests if that is this boot, and the writer finished recording it.
    pub fn tells(&self, boot: Boot) -> FsResult<bool> {
        Ok(self.boot()? == boot && self.number(TOLD)? == 1)
    }

    /// Durable on return if it replaces nothing: if it were lost together with the changes that it
    /// announces, nobody would doubt the index. If it replaces another boot, it may be lost.
    pub fn set_boot(&self, fs: &dyn Fs, layout: &Layout, boot: Boot) -> FsResult<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if boot.is_none() {
            self.set_number(TOLD, 0)?;
        }
        file.write_all_at(&boot.0, BOOT)?;
        if !boot.is_none() && self.number(TOLD)? != 1 {
            file.sync_data()?;
            fs.sync_dir(&layout.locks)?;
            self.set_number(TOLD, 1)?;
        }
        Ok(())
    }

    /// Counts a change before it is made, so that nobody keeps a view of pages that a process which
    /// died in the middle has reused. Only under the exclusive lock.
    pub fn begin_change(&self) -> FsResult<GateState> {
        let (before, unfinished) = (self.generation()?, self.number(UNFINISHED)?);
        let after = before.wrapping_add(1);
        self.set_number(UNFINISHED, unfinished.saturating_add(1))?;
        self.set_number(0, after)?;
        // Without locks, the unfinished change may be one in progress.
        let unfinished = if self.can_lock() { unfinished } else { 0 };
        Ok(GateState { before, after, unfinished })
    }

    /// The process is alive. If that cannot be written, the next change checks twice.
    pub fn end_change(&self) {
        let _: Result<(), FsError> = self.set_number(UNFINISHED, 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use camino::Utf8Path;

    use super::*;
    use crate::fs::fault::EIO;
    use crate::fs::{Call, Fault, FaultFs, MemoryFs};

    /// Another process finds the bytes, which may be lost in the next power cut.
    #[test]
    fn a_start_is_not_told_before_it_is_durable() {
        for failing in [Call::SyncData, Call::SyncDir] {
            let memory = MemoryFs::new();
            let fs = FaultFs::new(Arc::new(memory.clone()));
            let layout = Layout::new(Utf8Path::new("/cache"));
            layout.create(&fs, None).unwrap();
            let boot = Boot([7; 16]);
            let gate = Gate::open(&fs, &layout, Access::ReadWrite).unwrap();
            fs.set(vec![Fault::Every { call: failing, error: EIO }]);
            assert!(gate.set_boot(&fs, &layout, boot).is_err());
            fs.set(Vec::new());
            assert_eq!((gate.boot().unwrap(), gate.tells(boot).unwrap()), (boot, false));
            gate.set_boot(&fs, &layout, boot).unwrap();
            assert!(gate.tells(boot).unwrap());
            let after = memory.crash();
            let gate = Gate::open(&after, &layout, Access::ReadWrite).unwrap();
            assert_eq!(gate.boot().unwrap(), boot, "{failing:?}");
        }
    }
}
