//! Folders in the place of files of the cache, put there by people or by a damaged disk.

use camino::{Utf8Path, Utf8PathBuf};

use crate::CacheError;
use crate::fs::{FileKind, Fs, FsResult, random};
use crate::layout::Layout;

/// The files of the present format. The mark is not among them: without it nothing is touched.
pub(crate) fn find(fs: &dyn Fs, layout: &Layout) -> FsResult<Vec<Utf8PathBuf>> {
    let files = [&layout.ledger, &layout.stat_index, &layout.losses];
    let mut found = folders_in(fs, &layout.dir, &|path| files.iter().any(|file| *file == path))?;
    let locks = [layout.ledger_lock(), layout.claims()];
    found.extend(folders_in(fs, &layout.locks, &|path| locks.iter().any(|lock| lock == path))?);
    found.extend(folders_in(fs, &layout.packs, &|path| path.extension() == Some("pack"))?);
    Ok(found)
}

fn folders_in(
    fs: &dyn Fs,
    folder: &Utf8Path,
    is_file: &dyn Fn(&Utf8Path) -> bool,
) -> FsResult<Vec<Utf8PathBuf>> {
    let entries = match fs.read_dir(folder) {
        Err(error) if error.is_not_found() || error.is_denied() => return Ok(Vec::new()),
        other => other?,
    };
    let folders = entries.into_iter().filter(|entry| entry.kind == FileKind::Dir);
    Ok(folders.map(|entry| folder.join(entry.name)).filter(|path| is_file(path)).collect())
}

/// Moves them into the trash before anything is opened. Returns the warnings.
pub(crate) fn put_aside(fs: &dyn Fs, layout: &Layout) -> Result<Vec<String>, CacheError> {
    let mut told = Vec::new();
    for path in find(fs, layout)? {
        let name = path.file_name().unwrap_or_default();
        let place = layout.damaged().join(format!("{name}-{:08x}", random() as u32));
        fs.create_dir_in_place(&layout.damaged())?;
        match fs.rename(&path, &place) {
            Ok(()) => told.push(format!(
                "`{path}` was a folder, where a file of the cache should be: it lies in `{place}` \
                 now, and the file is made anew"
            )),
            // Another process may have been faster.
            Err(error) if error.is_not_found() => {}
            Err(_) => {
                let (found, wanted) = ("folder", "file");
                return Err(CacheError::Misplaced { path, found, wanted });
            }
        }
    }
    Ok(told)
}
