//! The files below a folder that a program has written.
// The private folder of a program has no value for anyone else.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use super::run::{CommandError, End, LINK_OR_FOLDER, found};

/// The files below `path`, relative to it and sorted. Hidden ones are left out, as in the folders of
/// sources and assets.
pub fn files(folder: &Utf8Path, path: &Utf8Path) -> Result<Vec<Utf8PathBuf>, CommandError> {
    let above = path.ancestors().map(|above| folder.join(above));
    if above.into_iter().any(|above| above.is_symlink()) {
        return Err(CommandError::NotAFile { path: path.to_owned(), found: LINK_OR_FOLDER });
    }
    // Whatever else keeps it from being read is reported when it is.
    if let Ok(kind) = fs::symlink_metadata(folder.join(path)).map(|own| own.file_type())
        && !kind.is_dir()
    {
        return Err(CommandError::NotAFolder { path: path.to_owned(), found: found(kind) });
    }
    let mut found = Vec::new();
    let mut waiting = vec![Utf8PathBuf::new()];
    while let Some(below) = waiting.pop() {
        for (name, is_folder) in entries(folder, &path.join(&below))? {
            if is_folder { waiting.push(below.join(name)) } else { found.push(below.join(name)) }
        }
    }
    found.sort_unstable();
    if found.is_empty() {
        Err(CommandError::NoOutput { path: path.join(""), end: End::default() })
    } else {
        Ok(found)
    }
}

/// The names in a folder, and which of them are folders. Links and devices are errors: a link may
/// lead to a file of the user.
fn entries(folder: &Utf8Path, path: &Utf8Path) -> Result<Vec<(String, bool)>, CommandError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            CommandError::NoOutput { path: path.join(""), end: End::default() }
        }
        _ => CommandError::Io { action: "read the folder", path: path.to_owned(), error },
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder.join(path)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let unnamed = |_| CommandError::NoName { path: path.to_owned() };
        let name = entry.file_name().into_string().map_err(unnamed)?;
        let kind = entry.file_type().map_err(failed)?;
        match (name.starts_with('.'), kind.is_dir() || kind.is_file()) {
            (true, _) => {}
            (false, true) => entries.push((name, kind.is_dir())),
            (false, false) => {
                return Err(CommandError::NotAFile { path: path.join(name), found: found(kind) });
            }
        }
    }
    Ok(entries)
}
