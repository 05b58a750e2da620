//! The lock of a review: two reviews of one table would overwrite each other's corrections.

use cache::fs::{Fs, FsFile, LockKind, Open};
use camino::{Utf8Path, Utf8PathBuf};

use crate::error::CliError;

/// Held until it is dropped; its file is removed then. On a file system without locks every review
/// gets it.
pub struct Lock<'a> {
    fs: &'a dyn Fs,
    path: Utf8PathBuf,
    _file: Box<dyn FsFile>,
}

impl<'a> Lock<'a> {
    /// # Errors
    ///
    /// If another review of this table is running.
    pub fn take(fs: &'a dyn Fs, table: &Utf8Path) -> Result<Lock<'a>, CliError> {
        let path = place(fs, table)?;
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
        let message = format!("another `throstle review` writes to `{table}`");
        Err(CliError::failed(message, "end that review first"))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // A file that stays behind is not locked.
        let _ = self.fs.remove_file(&self.path);
    }
}

/// The path of the lock, beside the file that the path of the table leads to.
fn place(fs: &dyn Fs, table: &Utf8Path) -> Result<Utf8PathBuf, CliError> {
    let table = match fs.resolve(table) {
        Ok(path) => path,
        Err(error) if error.is_not_found() => table.to_owned(),
        Err(error) => return Err(error.into()),
    };
    let name = table.file_name().unwrap_or_default();
    Ok(table.with_file_name(format!(".{name}.lock")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cache::fs::MemoryFs;

    use super::*;

    #[test]
    fn one_review_at_a_time_has_a_table_and_leaves_no_lock_behind() {
        let fs = MemoryFs::new();
        fs.create_dir_all("/project".into()).unwrap();
        let [one, other] = ["/project/one.csv", "/project/other.csv"].map(Utf8Path::new);
        let first = Lock::take(&fs, one).unwrap();
        let _other = Lock::take(&fs, other).unwrap();
        let error = Lock::take(&fs, one).err().unwrap();
        assert!(error.to_string().contains("another `throstle review` writes"), "{error}");
        drop(first);
        assert!(!fs.exists("/project/.one.csv.lock".into()).unwrap());
        Lock::take(&fs, one).unwrap();
    }

    /// A killed review leaves its file.
    #[test]
    fn a_lock_file_that_nobody_holds_does_not_matter() {
        let fs = MemoryFs::new();
        fs.create_dir_all("/project".into()).unwrap();
        fs.write_new("/project/.one.csv.lock".into(), b"").unwrap();
        Lock::take(&fs, "/project/one.csv".into()).unwrap();
    }
}
