//! Half-written files that a dead process left beside exports.

use std::collections::BTreeSet;

use cache::Cache;
use cache::fs::is_left_beside;
use camino::{Utf8Path, Utf8PathBuf};

/// Removes them from the folders of these files. Those of a living process stay; this process has
/// none now.
pub fn remove<'a>(cache: &Cache, base: &Utf8Path, files: impl Iterator<Item = &'a Utf8PathBuf>) {
    let fs = cache.fs().as_ref();
    let folders: BTreeSet<Utf8PathBuf> =
        files.filter_map(|file| Some(base.join(file.parent()?))).collect();
    for folder in folders {
        for entry in fs.read_dir(&folder).unwrap_or_default() {
            if is_left_beside(fs, &entry.name) {
                // A file that cannot be removed does no harm.
                let _ = fs.remove_file(&folder.join(&entry.name));
            }
        }
    }
}
