//! The contents of folders: paths and sizes.

use camino::{Utf8Path, Utf8PathBuf};

use super::{FileKind, Fs, FsResult};

/// The paths in a folder; none if it does not exist.
pub(crate) fn paths_in(fs: &dyn Fs, dir: &Utf8Path) -> FsResult<Vec<Utf8PathBuf>> {
    match fs.read_dir(dir) {
        Ok(entries) => Ok(entries.iter().map(|entry| dir.join(&entry.name)).collect()),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The size of a file; 0 if it is missing or inaccessible.
pub(crate) fn size_of(fs: &dyn Fs, path: &Utf8Path) -> FsResult<u64> {
    match fs.symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.size),
        Err(error) if error.is_not_found() || error.is_denied() => Ok(0),
        Err(error) => Err(error),
    }
}

/// The total size of the files under a folder, as far as it is accessible.
pub(crate) fn bytes_under(fs: &dyn Fs, dir: &Utf8Path) -> FsResult<u64> {
    let entries = match fs.read_dir(dir) {
        // Another process may be removing files, or may have removed permissions.
        Err(error) if error.is_not_found() || error.is_denied() => return Ok(0),
        other => other?,
    };
    let mut bytes = 0;
    for entry in entries {
        let path = dir.join(&entry.name);
        bytes += match entry.kind {
            FileKind::Dir => bytes_under(fs, &path)?,
            _ => size_of(fs, &path)?,
        };
    }
    Ok(bytes)
}
