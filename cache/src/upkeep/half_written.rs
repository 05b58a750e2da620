//! Half-written files that dead processes left beside the files of a cache.

use crate::fs::{FileKind, Fs, is_left_beside};
use crate::layout::Layout;

/// A process on another machine may still write a younger file.
const PATIENCE_NS: i64 = 60 * 1_000_000_000;

/// Removes them. They do no harm, so a failure is left to the next open.
pub(crate) fn sweep(fs: &dyn Fs, layout: &Layout) {
    for entry in fs.read_dir(&layout.dir).unwrap_or_default() {
        if entry.kind != FileKind::File || !is_left_beside(fs, &entry.name) {
            continue;
        }
        let path = layout.dir.join(&entry.name);
        let is_old = |mtime_ns| fs.now().saturating_sub(mtime_ns) > PATIENCE_NS;
        if fs.metadata(&path).is_ok_and(|found| is_old(found.mtime_ns)) {
            let _ = fs.remove_file(&path);
        }
    }
}
