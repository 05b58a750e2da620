//! The operations on an open file.

use std::fmt::Debug;
use std::io;

use camino::Utf8Path;

use super::{Call, FsError, FsResult, LockKind, Metadata};

/// An open file. Dropping it closes it and releases its locks.
pub trait FsFile: Debug + Send + Sync {
    /// The path with which it was opened; it may lead elsewhere by now.
    fn path(&self) -> &Utf8Path;
    /// The metadata of the open file, wherever it is by now.
    ///
    /// # Errors
    ///
    /// If the disk or its server reports an error.
    fn metadata(&self) -> FsResult<Metadata>;
    /// The metadata at the time when it was opened, which costs no call where opening reads them.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::metadata`].
    fn opened(&self) -> FsResult<Metadata> {
        self.metadata()
    }
    /// May read less than asked; 0 only at the end.
    ///
    /// # Errors
    ///
    /// If the disk reports an error, or its server no longer knows the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize>;
    /// May write less than asked.
    ///
    /// # Errors
    ///
    /// If the disk is full or reports an error, or if the file is open for reading only.
    fn write_at(&self, bytes: &[u8], offset: u64) -> FsResult<usize>;
    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::write_at`].
    fn set_len(&self, length: u64) -> FsResult<()>;
    /// Makes the bytes and the length durable. The name is durable after [`sync_dir`](super::Fs::sync_dir).
    ///
    /// # Errors
    ///
    /// If the disk reports an error. Then it is unknown which of the bytes are durable.
    fn sync_data(&self) -> FsResult<()>;
    /// Gives the space of these bytes back to the disk; they read as zeros. This needs no space
    /// itself. Not every file system can do it.
    ///
    /// # Errors
    ///
    /// If the file system cannot do it: see [`FsError::is_unsupported`].
    fn free(&self, _offset: u64, _length: u64) -> FsResult<()> {
        Err(FsError::new(Call::Write, self.path(), io::ErrorKind::Unsupported.into()))
    }
    /// Asks the system to start writing these bytes to the disk, so that a later
    /// [`sync_data`](Self::sync_data) waits less. Only a hint: it may do nothing.
    fn write_back(&self, _offset: u64, _length: u64) {}
    /// Locks the whole file against other handles; blocks.
    ///
    /// # Errors
    ///
    /// If the file system has no locks ([`FsError::is_unsupported`]), or its server reports an
    /// error.
    fn lock(&self, kind: LockKind) -> FsResult<()>;
    /// The same without blocking; false if another handle has a lock.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::lock`]. A lock of another handle is no error.
    fn try_lock(&self, kind: LockKind) -> FsResult<bool>;
    /// Releases the lock of the whole file.
    ///
    /// # Errors
    ///
    /// If the server of the file reports an error. Closing the file releases the lock as well.
    fn unlock(&self) -> FsResult<()>;
    /// Locks one byte against other handles, without blocking.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::lock`]. A byte that another handle has is no error, but false.
    fn try_lock_byte(&self, offset: u64) -> FsResult<bool>;
    /// Releases the lock of one byte.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::unlock`].
    fn unlock_byte(&self, offset: u64) -> FsResult<()>;
    /// Tests if another handle holds the byte.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::lock`].
    fn byte_is_locked(&self, offset: u64) -> FsResult<bool>;

    /// The number of bytes now.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::metadata`].
    fn len(&self) -> FsResult<u64> {
        Ok(self.metadata()?.size)
    }

    /// True if the file has no bytes now.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::metadata`].
    fn is_empty(&self) -> FsResult<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills the buffer as far as the file reaches; returns the number of bytes.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::read_at`]. An early end is no error.
    fn read_full_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let count = self.read_at(&mut buffer[filled..], offset + filled as u64)?;
            if count == 0 {
                break;
            }
            filled += count;
        }
        Ok(filled)
    }

    /// Writes all bytes, in as many calls as it takes.
    ///
    /// # Errors
    ///
    /// Those of [`FsFile::write_at`]. Some of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> FsResult<()> {
        let mut written = 0;
        while written < bytes.len() {
            let count = self.write_at(&bytes[written..], offset + written as u64)?;
            if count == 0 {
                let source = io::Error::from(io::ErrorKind::WriteZero);
                return Err(FsError::new(Call::Write, self.path(), source));
            }
            written += count;
        }
        Ok(())
    }
}

/// Copies all bytes of an open file into an empty one.
pub(super) fn pour(source: &dyn FsFile, target: &dyn FsFile) -> FsResult<u64> {
    let mut buffer = vec![0u8; 1 << 20];
    let mut offset = 0;
    loop {
        let count = source.read_at(&mut buffer, offset)?;
        if count == 0 {
            return Ok(offset);
        }
        target.write_all_at(&buffer[..count], offset)?;
        offset += count as u64;
    }
}
