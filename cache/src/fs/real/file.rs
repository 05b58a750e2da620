//! An open file of the machine.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::Stat;

use super::{named, state};
use crate::fs::{Call, FsFile, FsResult, LockKind, Metadata};

#[derive(Debug)]
pub struct RealFile {
    file: File,
    path: Utf8PathBuf,
    /// None for a file that was created.
    opened: Option<Metadata>,
}

impl RealFile {
    /// A file that was opened at this path, with its state unless it is new.
    pub fn new(path: &Utf8Path, (file, found): (File, Option<Stat>)) -> RealFile {
        RealFile { file, path: path.to_owned(), opened: found.as_ref().map(state::of) }
    }

    fn named<T>(&self, call: Call, result: io::Result<T>) -> FsResult<T> {
        named(call, &self.path, result)
    }
}

impl FsFile for RealFile {
    fn path(&self) -> &Utf8Path {
        &self.path
    }

    fn metadata(&self) -> FsResult<Metadata> {
        let found = rustix::fs::fstat(&self.file).map_err(io::Error::from);
        self.named(Call::Metadata, found).map(|found| state::of(&found))
    }

    fn opened(&self) -> FsResult<Metadata> {
        self.opened.map_or_else(|| self.metadata(), Ok)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize> {
        self.named(Call::Read, self.file.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> FsResult<usize> {
        self.named(Call::Write, self.file.write_at(bytes, offset))
    }

    fn set_len(&self, length: u64) -> FsResult<()> {
        self.named(Call::SetLen, self.file.set_len(length))
    }

    fn sync_data(&self) -> FsResult<()> {
        self.named(Call::SyncData, self.file.sync_data())
    }

    fn free(&self, offset: u64, length: u64) -> FsResult<()> {
        use rustix::fs::FallocateFlags;
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let freed = rustix::fs::fallocate(&self.file, how, offset, length);
        self.named(Call::Write, freed.map_err(std::io::Error::from))
    }

    fn write_back(&self, offset: u64, length: u64) {
        // For this advice Linux starts to write bytes that are not on the disk yet, without
        // waiting, and keeps them in memory meanwhile. It is only a hint, so errors do not matter.
        let length = std::num::NonZeroU64::new(length);
        let _ = rustix::fs::fadvise(&self.file, offset, length, rustix::fs::Advice::DontNeed);
    }

    fn lock(&self, kind: LockKind) -> FsResult<()> {
        let result = match kind {
            LockKind::Shared => self.file.lock_shared(),
            LockKind::Exclusive => self.file.lock(),
        };
        self.named(Call::Lock, result)
    }

    fn try_lock(&self, kind: LockKind) -> FsResult<bool> {
        let result = match kind {
            LockKind::Shared => self.file.try_lock_shared(),
            LockKind::Exclusive => self.file.try_lock(),
        };
        match result {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => self.named(Call::Lock, Err(source)),
        }
    }

    fn unlock(&self) -> FsResult<()> {
        self.named(Call::Unlock, self.file.unlock())
    }

    fn try_lock_byte(&self, offset: u64) -> FsResult<bool> {
        match byte_lock::set(&self.file, offset, true) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            result => self.named(Call::LockRange, result).map(|()| true),
        }
    }

    fn unlock_byte(&self, offset: u64) -> FsResult<()> {
        self.named(Call::UnlockRange, byte_lock::set(&self.file, offset, false))
    }

    fn byte_is_locked(&self, offset: u64) -> FsResult<bool> {
        self.named(Call::LockRange, byte_lock::held_by_another(&self.file, offset))
    }
}

/// Locks of single bytes that belong to the open file, not to the process: they end with the handle
/// and also exclude other handles of the same process.
mod byte_lock {
    use std::fs::File;
    use std::io;

    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;

    fn describe(offset: u64, kind: libc::c_int) -> io::Result<libc::flock> {
        let start = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        Ok(libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: start,
            l_len: 1,
            l_pid: 0,
        })
    }

    pub fn set(file: &File, offset: u64, locked: bool) -> io::Result<()> {
        let lock = describe(offset, if locked { libc::F_WRLCK } else { libc::F_UNLCK })?;
        match fcntl(file, FcntlArg::F_OFD_SETLK(&lock)) {
            Err(nix::Error::EACCES) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            result => result.map(drop).map_err(io::Error::from),
        }
    }

    pub fn held_by_another(file: &File, offset: u64) -> io::Result<bool> {
        let mut lock = describe(offset, libc::F_WRLCK)?;
        fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
        Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
    }
}
