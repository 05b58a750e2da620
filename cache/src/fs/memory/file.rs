//! An open file of the memory file system.

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::disk::{DiskChange, Inode};
use super::state::{DiskState, error};
use super::{MemoryFs, changes};
use crate::fs::{Call, FsError, FsFile, FsResult, LockKind, Metadata};

#[derive(Debug)]
pub struct MemoryFile {
    pub fs: MemoryFs,
    pub path: Utf8PathBuf,
    pub inode: Inode,
    pub handle: u64,
    pub writes: bool,
}

impl MemoryFile {
    fn run<T>(
        &self,
        call: Call,
        operation: impl FnOnce(&mut DiskState) -> io::Result<T>,
    ) -> FsResult<T> {
        if changes(call) && !self.writes {
            let source = error(io::ErrorKind::PermissionDenied);
            return Err(FsError::new(call, &self.path, source));
        }
        self.fs.run(call, &self.path, operation)
    }

    fn bytes<'a>(&self, state: &'a DiskState) -> io::Result<&'a Vec<u8>> {
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
            state.change(DiskChange::Data { inode: self.inode, offset, bytes: bytes.to_vec() });
            Ok(bytes.len())
        })
    }

    fn set_len(&self, length: u64) -> FsResult<()> {
        self.run(Call::SetLen, |state| {
            let length = usize::try_from(length).map_err(io::Error::other)?;
            state.change(DiskChange::Length { inode: self.inode, length });
            Ok(())
        })
    }

    fn free(&self, offset: u64, length: u64) -> FsResult<()> {
        let length = usize::try_from(length).unwrap_or(0);
        self.write_at(&vec![0; length], offset).map(drop)
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

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut state = self.fs.state();
        if let Some(locks) = state.locks.get_mut(&self.inode) {
            locks.release(self.handle);
            locks.bytes.retain(|_, holder| *holder != self.handle);
        }
    }
}
