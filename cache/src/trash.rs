//! What was swept or set aside, until it is emptied or put back.

use camino::Utf8PathBuf;

use crate::fs::{Fs, FsResult};
use crate::layout::Layout;

/// The packs in the trash, with their numbers.
pub(crate) fn packs(fs: &dyn Fs, layout: &Layout) -> FsResult<Vec<(Utf8PathBuf, u32)>> {
    let mut found = Vec::new();
    for batch in list(fs, &layout.trash)? {
        for path in list(fs, &batch)? {
            let name = path.file_name().unwrap_or_default();
            if let Some(number) = name
                .strip_suffix(".pack")
                .and_then(|name| name.parse().ok())
            {
                found.push((path, number));
            }
        }
    }
    Ok(found)
}

/// The paths in a folder; none where there is no such folder.
fn list(fs: &dyn Fs, dir: &Utf8PathBuf) -> FsResult<Vec<Utf8PathBuf>> {
    match fs.read_dir(dir) {
        Ok(entries) => Ok(entries.iter().map(|entry| dir.join(&entry.name)).collect()),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
