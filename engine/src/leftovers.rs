//! Half-written files that a dead process left beside exports.

use std::collections::BTreeSet;

use cache::Cache;
use cache::fs::Fs;
use camino::{Utf8Path, Utf8PathBuf};

/// The prefix of `cache::fs::beside`; the process number and more follow it.
const PREFIX: &str = ".throstle-";

/// Removes them from the folders of these files. Those of a living process stay; this process has
/// none now.
pub fn remove<'a>(cache: &Cache, base: &Utf8Path, files: impl Iterator<Item = &'a Utf8PathBuf>) {
    let fs = cache.fs().as_ref();
    let folders: BTreeSet<Utf8PathBuf> =
        files.filter_map(|file| Some(base.join(file.parent()?))).collect();
    for folder in folders {
        for entry in fs.read_dir(&folder).unwrap_or_default() {
            if is_left_over(fs, &entry.name) {
                // A file that cannot be removed does no harm.
                let _ = fs.remove_file(&folder.join(&entry.name));
            }
        }
    }
}

fn is_left_over(fs: &dyn Fs, name: &str) -> bool {
    let mut parts = name.strip_prefix(PREFIX).unwrap_or("").split('-');
    let (process, count, random) = (parts.next(), parts.next(), parts.next());
    let Some(process) = process.and_then(|process| process.parse::<u32>().ok()) else {
        return false;
    };
    let is_ours = count.is_some_and(|count| count.parse::<u64>().is_ok())
        && random.is_some_and(|random| random.len() == 8);
    let lives = || fs.exists(&Utf8PathBuf::from(format!("/proc/{process}"))).unwrap_or(true);
    is_ours && (process == std::process::id() || !lives())
}
