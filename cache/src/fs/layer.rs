//! A file system over another, where an interceptor sees each operation first.

use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};

use super::system::remove_tree;
use super::{Call, DirEntry, Fs, FsError, FsFile, FsResult, LockKind, Metadata, Open};

/// Called around each operation.
pub trait Interceptor: std::fmt::Debug + Send + Sync + 'static {
    /// An error stops the operation before it reaches the file system below.
    ///
    /// # Errors
    ///
    /// The error that the caller of the operation is to see.
    fn before(&self, call: Call, path: &Utf8Path) -> io::Result<()>;

    /// The number of bytes that one write takes, at most this length.
    fn write_limit(&self, length: usize) -> usize {
        length
    }

    /// Tests if operations may bypass it.
    fn may_be_passed(&self) -> bool {
        false
    }

    /// Tests if a failed operation is tried again.
    fn again(&self, _error: &FsError) -> bool {
        false
    }

    /// True if a lock that failed like this is tried again on a reopened file.
    fn opens_again(&self, _error: &FsError) -> bool {
        false
    }
}

/// A file system that passes each operation to an interceptor and then to the one below.
#[derive(Debug)]
pub struct Layer<I> {
    below: Arc<dyn Fs>,
    interceptor: Arc<I>,
}

impl<I: Interceptor> Layer<I> {
    /// Puts an interceptor over a file system.
    pub fn over(below: Arc<dyn Fs>, interceptor: I) -> Layer<I> {
        Layer { below, interceptor: Arc::new(interceptor) }
    }

    /// The interceptor, to set and read its state.
    pub fn interceptor(&self) -> &I {
        &self.interceptor
    }
}

fn around<I: Interceptor, T>(
    interceptor: &I,
    call: Call,
    path: &Utf8Path,
    mut operation: impl FnMut() -> FsResult<T>,
) -> FsResult<T> {
    loop {
        let result = match interceptor.before(call, path) {
            Ok(()) => operation(),
            Err(source) => Err(FsError::new(call, path, source)),
        };
        match result {
            Err(error) if interceptor.again(&error) => {}
            result => return result,
        }
    }
}

impl<I: Interceptor> Fs for Layer<I> {
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>> {
        let file = around(&*self.interceptor, how.call(), path, || self.below.open(path, how))?;
        Ok(Box::new(LayerFile {
            opened: [file.into(), OnceLock::new(), OnceLock::new()],
            interceptor: Arc::clone(&self.interceptor),
            path: path.to_owned(),
            fs: Arc::clone(&self.below),
            how: if how == Open::Read { Open::Read } else { Open::ReadWrite },
        }))
    }

    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        around(&*self.interceptor, Call::Metadata, path, || self.below.metadata(path))
    }

    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        around(&*self.interceptor, Call::Metadata, path, || self.below.symlink_metadata(path))
    }

    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf> {
        around(&*self.interceptor, Call::Metadata, path, || self.below.resolve(path))
    }

    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>> {
        around(&*self.interceptor, Call::ReadDir, path, || self.below.read_dir(path))
    }

    fn create_dir(&self, path: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::CreateDir, path, || self.below.create_dir(path))
    }

    fn remove_file(&self, path: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::RemoveFile, path, || self.below.remove_file(path))
    }

    fn remove_dir(&self, path: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::RemoveDir, path, || self.below.remove_dir(path))
    }

    /// One operation if the interceptor may be bypassed, else many.
    fn remove_dir_all(&self, path: &Utf8Path) -> FsResult<()> {
        if self.interceptor.may_be_passed() {
            around(&*self.interceptor, Call::RemoveDir, path, || self.below.remove_dir_all(path))
        } else {
            remove_tree(self, path)
        }
    }

    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::Rename, from, || self.below.rename(from, to))
    }

    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::HardLink, link, || self.below.hard_link(original, link))
    }

    fn reflink(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::Reflink, to, || self.below.reflink(from, to))
    }

    fn copy_unsynced(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<u64> {
        if self.interceptor.may_be_passed() {
            return around(&*self.interceptor, Call::Write, to, || {
                self.below.copy_unsynced(from, to)
            });
        }
        let source = self.open(from, Open::Read)?;
        super::file::pour(&*source, &*self.open(to, Open::CreateNew)?)
    }

    fn set_readonly(&self, path: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::SetReadonly, path, || self.below.set_readonly(path))
    }

    fn sync_dir(&self, path: &Utf8Path) -> FsResult<()> {
        around(&*self.interceptor, Call::SyncDir, path, || self.below.sync_dir(path))
    }

    fn read_system_file(&self, path: &Utf8Path) -> FsResult<Vec<u8>> {
        around(&*self.interceptor, Call::Read, path, || self.below.read_system_file(path))
    }

    fn map(&self, path: &Utf8Path) -> FsResult<Bytes> {
        around(&*self.interceptor, Call::Read, path, || self.below.map(path))
    }

    fn confined_to(&self, folder: &Utf8Path) -> FsResult<Option<Arc<dyn Fs>>> {
        let confine = || self.below.confined_to(folder);
        let below = around(&*self.interceptor, Call::Open, folder, confine)?;
        let interceptor = Arc::clone(&self.interceptor);
        Ok(below.map(|below| Arc::new(Layer { below, interceptor }) as Arc<dyn Fs>))
    }

    fn now(&self) -> i64 {
        self.below.now()
    }

    fn random(&self) -> u64 {
        self.below.random()
    }

    fn is_local(&self, path: &Utf8Path) -> bool {
        self.below.is_local(path)
    }

    fn is_direct(&self) -> bool {
        self.interceptor.may_be_passed() && self.below.is_direct()
    }
}

#[derive(Debug)]
struct LayerFile<I> {
    /// The newest one is used; the others were opened before it.
    opened: [OnceLock<Box<dyn FsFile>>; OPENINGS],
    interceptor: Arc<I>,
    path: Utf8PathBuf,
    fs: Arc<dyn Fs>,
    how: Open,
}

/// A file is opened at most this often for one handle.
const OPENINGS: usize = 3;

impl<I: Interceptor> LayerFile<I> {
    fn around<T>(
        &self,
        call: Call,
        mut operation: impl FnMut(&dyn FsFile) -> FsResult<T>,
    ) -> FsResult<T> {
        around(&*self.interceptor, call, &self.path, || operation(self.below()?))
    }

    fn below(&self) -> FsResult<&dyn FsFile> {
        let newest = self.opened.iter().rev().find_map(OnceLock::get);
        newest.map(|file| &**file).ok_or_else(|| {
            FsError::new(Call::Open, &self.path, io::Error::from(io::ErrorKind::NotFound))
        })
    }

    /// Locking is the only call that may move from a stale handle to a new one unnoticed: the locks
    /// of the stale handle are gone, and reads could return bytes of another file.
    fn locking<T>(
        &self,
        call: Call,
        mut operation: impl FnMut(&dyn FsFile) -> FsResult<T>,
    ) -> FsResult<T> {
        for next in &self.opened[1..] {
            match self.around(call, &mut operation) {
                Err(error) if self.interceptor.opens_again(&error) => {
                    if next.get().is_none() {
                        // The first thread sets it.
                        let _ = next.set(self.fs.open(&self.path, self.how)?);
                    }
                }
                result => return result,
            }
        }
        self.around(call, operation)
    }
}

impl<I: Interceptor> FsFile for LayerFile<I> {
    fn path(&self) -> &Utf8Path {
        &self.path
    }

    fn metadata(&self) -> FsResult<Metadata> {
        self.around(Call::Metadata, |below| below.metadata())
    }

    fn opened(&self) -> FsResult<Metadata> {
        self.around(Call::Metadata, |below| below.opened())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> FsResult<usize> {
        self.around(Call::Read, |below| below.read_at(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> FsResult<usize> {
        self.around(Call::Write, |below| {
            let limit = self.interceptor.write_limit(bytes.len());
            below.write_at(&bytes[..limit], offset)
        })
    }

    fn set_len(&self, length: u64) -> FsResult<()> {
        self.around(Call::SetLen, |below| below.set_len(length))
    }

    fn sync_data(&self) -> FsResult<()> {
        self.around(Call::SyncData, |below| below.sync_data())
    }

    fn free(&self, offset: u64, length: u64) -> FsResult<()> {
        self.around(Call::Write, |below| below.free(offset, length))
    }

    fn write_back(&self, offset: u64, length: u64) {
        if let Ok(below) = self.below() {
            below.write_back(offset, length);
        }
    }

    fn lock(&self, kind: LockKind) -> FsResult<()> {
        self.locking(Call::Lock, |below| below.lock(kind))
    }

    fn try_lock(&self, kind: LockKind) -> FsResult<bool> {
        self.locking(Call::Lock, |below| below.try_lock(kind))
    }

    fn unlock(&self) -> FsResult<()> {
        self.around(Call::Unlock, |below| below.unlock())
    }

    fn try_lock_byte(&self, offset: u64) -> FsResult<bool> {
        self.locking(Call::LockRange, |below| below.try_lock_byte(offset))
    }

    fn unlock_byte(&self, offset: u64) -> FsResult<()> {
        self.around(Call::UnlockRange, |below| below.unlock_byte(offset))
    }

    fn byte_is_locked(&self, offset: u64) -> FsResult<bool> {
        self.locking(Call::LockRange, |below| below.byte_is_locked(offset))
    }
}
