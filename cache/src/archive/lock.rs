//! The right to write an archive in a folder: two writers would each take the other's volumes for
//! the remains of a dead process.

use camino::{Utf8Path, Utf8PathBuf};

use crate::CacheError;
use crate::fs::{Fs, FsFile, LockKind, Open};

const NAME: &str = "PACKING";

/// Held until it is dropped; its file is removed then. On a file system without locks everybody
/// gets it.
pub struct Lock<'a> {
    fs: &'a dyn Fs,
    path: Utf8PathBuf,
    _file: Box<dyn FsFile>,
}

impl<'a> Lock<'a> {
    pub fn take(fs: &'a dyn Fs, folder: &Utf8Path) -> Result<Lock<'a>, CacheError> {
        let path = folder.join(NAME);
        let file = fs.open(&path, Open::Create)?;
        let is_free = match file.try_lock(LockKind::Exclusive) {
            Err(error) if error.is_unsupported() => true,
            other => other?,
        };
        // The previous holder may have removed its file, and another may be in its place.
        let is_there = match fs.metadata(&path) {
            Ok(metadata) => metadata.inode == file.metadata()?.inode,
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        if is_free && is_there {
            return Ok(Lock { fs, path, _file: file });
        }
        let reason = "another `pack-cache` is writing to it".to_owned();
        Err(CacheError::Archive { folder: folder.to_owned(), reason })
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // A file that stays behind is not locked.
        let _ = self.fs.remove_file(&self.path);
    }
}
