//! Folders, pipes, links and similar things in place of files of the cache, put there by people or by a
//! damaged disk.

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
    let paths = entries.into_iter().map(|entry| (entry.kind, folder.join(entry.name)));
    let wrong = paths.filter(|(kind, path)| is_file(path) && wrong(*kind).is_some());
    Ok(wrong.map(|(_, path)| path).collect())
}

/// The kind of thing at a path, if it is not a regular file.
pub(crate) fn found_at(fs: &dyn Fs, path: &Utf8Path) -> Option<&'static str> {
    wrong(fs.symlink_metadata(path).ok()?.kind)
}

fn wrong(kind: FileKind) -> Option<&'static str> {
    match kind {
        FileKind::Dir => Some("folder"),
        FileKind::Other => Some("pipe, socket or device"),
        FileKind::Symlink => Some("symbolic link"),
        FileKind::File | FileKind::Unnameable => None,
    }
}

/// For a folder with the tag of a cache: a mark that is not a regular file names no other format.
/// Returns the warning.
pub(crate) fn move_mark_to_trash(
    fs: &dyn Fs,
    layout: &Layout,
) -> Result<Option<String>, CacheError> {
    let path = layout.mark();
    let Some(found) = found_at(fs, &path) else {
        return Ok(None);
    };
    fs.create_dir_all(&layout.trash)?;
    move_to_trash(fs, layout, path, found, "file")
}

/// Moves them into the trash before anything is opened. Returns the warnings.
pub(crate) fn move_all_to_trash(fs: &dyn Fs, layout: &Layout) -> Result<Vec<String>, CacheError> {
    let mut told = Vec::new();
    for path in find(fs, layout)? {
        let found = found_at(fs, &path).unwrap_or("folder");
        told.extend(move_to_trash(fs, layout, path, found, "file")?);
    }
    Ok(told)
}

/// Moves what is at a path into the trash. Returns the warning.
pub(crate) fn move_to_trash(
    fs: &dyn Fs,
    layout: &Layout,
    path: Utf8PathBuf,
    found: &'static str,
    wanted: &'static str,
) -> Result<Option<String>, CacheError> {
    let name = path.file_name().unwrap_or_default();
    let place = layout.damaged().join(format!("{name}-{:08x}", random() as u32));
    fs.create_dir_in_place(&layout.damaged())?;
    let regular = if wanted == "file" { "regular " } else { "" };
    match fs.rename(&path, &place) {
        Ok(()) => Ok(Some(format!(
            "moved `{path}`, which was not a {regular}{wanted}, to `{place}`; the {wanted} is made \
             again"
        ))),
        // Another process may have been faster.
        Err(error) if error.is_not_found() => Ok(None),
        Err(_) => Err(CacheError::Misplaced { path, found, wanted }),
    }
}
