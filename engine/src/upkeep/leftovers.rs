//! Half-written files that a dead process left beside exports.

use cache::fs::{Fs, is_left_beside};
use camino::Utf8PathBuf;

/// Removes them from these folders. Those of a living process stay; this process has none now.
pub fn remove<'a>(fs: &dyn Fs, folders: impl Iterator<Item = &'a Utf8PathBuf>) {
    for folder in folders {
        for entry in fs.read_dir(folder).unwrap_or_default() {
            if is_left_beside(fs, &entry.name) {
                // A file that cannot be removed does no harm.
                let _ = fs.remove_file(&folder.join(&entry.name));
            }
        }
    }
}
