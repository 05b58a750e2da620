//! Folders, pipes and the like in the place of files of the cache, put there by people or by a damaged disk.

use camino::{Utf8Path, Utf8PathBuf};

use crate::CacheError;
use crate::fs::{FileKind, Fs, FsResult, random};
use crate::layout::Layout;

/// The files of the present format. The mark is not among them: without it nothing is touched.
pub(crate) fn find(fs: &dyn Fs, layout: &Layout) -> FsResult<Vec<Utf8PathBuf>> {
    let files = [&layout.ledger, &layout.stat_index, &layout.losses];
    let mut found = wrong_in(fs, &layout.dir, &|path| files.iter().any(|file| *file == path))?;
    let locks = [layout.ledger_lock(), layout.claims()];
    found.extend(wrong_in(fs, &layout.locks, &|path| locks.iter().any(|lock| lock == path))?);
    found.extend(wrong_in(fs, &layout.packs, &|path| path.extension() == Some("pack"))?);
    Ok(found)
}

fn wrong_in(
    fs: &dyn Fs,
    folder: &Utf8Path,
    is_file: &dyn Fn(&Utf8Path) -> bool,
) -> FsResult<Vec<Utf8PathBuf>> {
    let entries = match fs.read_dir(folder) {
        Err(error) if error.is_not_found() || error.is_denied() => return Ok(Vec::new()),
        other => other?,
    };
    let is_wrong = |kind, path: &Utf8Path| match kind {
        FileKind::Dir | FileKind::Other => true,
        // A link in a ring.
        FileKind::Symlink => fs.metadata(path).is_err_and(|error| !error.is_not_found()),
        FileKind::File | FileKind::Unnameable => false,
    };
    let paths = entries.into_iter().map(|entry| (entry.kind, folder.join(entry.name)));
    let wrong = paths.filter(|(kind, path)| is_file(path) && is_wrong(*kind, path));
    Ok(wrong.map(|(_, path)| path).collect())
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
                "`{path}` was not a regular file: it was moved to `{place}`, and the file is \
                 made again"
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
