//! A file that one program at a time holds.

use camino::{Utf8Path, Utf8PathBuf};

use super::{Fs, FsFile, FsResult, LockKind, Open};

/// Held until it is dropped; the file is removed then. On a file system without locks everybody
/// gets it.
pub struct LockFile<'a> {
    fs: &'a dyn Fs,
    path: Utf8PathBuf,
    _file: Box<dyn FsFile>,
}

impl<'a> LockFile<'a> {
    /// None if another program holds it.
    ///
    /// # Errors
    ///
    /// If the file cannot be created or locked. A file system without locks is no error.
    pub fn take(fs: &'a dyn Fs, path: &Utf8Path) -> FsResult<Option<LockFile<'a>>> {
        let file = fs.open(path, Open::Create)?;
        let is_free = match file.try_lock(LockKind::Exclusive) {
            Err(error) if error.is_unsupported() => true,
            other => other?,
        };
        // The previous holder may have removed its file, and another may be in its place.
        let is_there = match fs.metadata(path) {
            Ok(metadata) => metadata.inode == file.metadata()?.inode,
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error),
        };
        let held = is_free && is_there;
        Ok(held.then(|| LockFile { fs, path: path.to_owned(), _file: file }))
    }
}

impl Drop for LockFile<'_> {
    fn drop(&mut self) {
        // A file that stays behind is not locked.
        let _ = self.fs.remove_file(&self.path);
    }
}
