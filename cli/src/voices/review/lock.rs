//! The lock of a review: two reviews of one table would overwrite each other's corrections.

use cache::fs::{Fs, LockFile};
use camino::{Utf8Path, Utf8PathBuf};

use crate::error::CliError;

/// # Errors
///
/// If another review of this table is running.
pub fn take<'a>(fs: &'a dyn Fs, table: &Utf8Path) -> Result<LockFile<'a>, CliError> {
    LockFile::take(fs, &place(fs, table)?)?.ok_or_else(|| {
        let message = format!("another `throstle review` writes to `{table}`");
        CliError::failed(message, "end that review first")
    })
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
        let first = take(&fs, one).unwrap();
        let _other = take(&fs, other).unwrap();
        let error = take(&fs, one).err().unwrap();
        assert!(error.to_string().contains("another `throstle review` writes"), "{error}");
        drop(first);
        assert!(!fs.exists("/project/.one.csv.lock".into()).unwrap());
        take(&fs, one).unwrap();
    }

    /// A killed review leaves its file.
    #[test]
    fn a_lock_file_that_nobody_holds_does_not_matter() {
        let fs = MemoryFs::new();
        fs.create_dir_all("/project".into()).unwrap();
        fs.write_new("/project/.one.csv.lock".into(), b"").unwrap();
        take(&fs, "/project/one.csv".into()).unwrap();
    }
}
