//! Names for new files that are renamed later.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use camino::{Utf8Path, Utf8PathBuf};

use super::Fs;

/// The start of such a name; the number of its process, a count and a random number follow.
const BESIDE: &str = ".throstle-";

/// A new name in the same folder, for a file that is renamed to `path` later.
pub fn beside(path: &Utf8Path) -> Utf8PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{BESIDE}{}-{count}-{:08x}", std::process::id(), random() as u32);
    path.with_file_name(name)
}

/// Tests if a name is one of [`beside`], of this process or of one that does not run on this
/// machine.
pub fn is_left_beside(fs: &dyn Fs, name: &str) -> bool {
    let mut parts = name.strip_prefix(BESIDE).unwrap_or("").split('-');
    let (process, count, random) = (parts.next(), parts.next(), parts.next());
    let Some(process) = process.and_then(|process| process.parse::<u32>().ok()) else {
        return false;
    };
    let is_ours = count.is_some_and(|count| count.parse::<u64>().is_ok())
        && random.is_some_and(|random| random.len() == 8)
        && parts.next().is_none();
    let lives = || fs.exists(Utf8Path::new(&format!("/proc/{process}"))).unwrap_or(true);
    is_ours && (process == std::process::id() || !lives())
}

/// A number that differs between processes and calls; not a secret.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
