//! Private folders for work in progress. Each is owned through a lock beside it,
//! so that what a dead process left can be told from what a living one uses.

use std::io::ErrorKind;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::CacheError;
use crate::fs::{FileKind, Fs, FsError, FsFile, LockKind, Open, random};
use crate::layout::Layout;
use crate::ledger::Ledger;

/// Folders without a living lock are left alone for so long where locks do not work.
const PATIENCE_NS: i64 = 24 * 3_600 * 1_000_000_000;

/// A folder of this process under `staging/`; it is removed when dropped.
#[derive(Debug)]
pub struct StagingDir {
    fs: Arc<dyn Fs>,
    path: Utf8PathBuf,
    lock: Option<Box<dyn FsFile>>,
}

impl StagingDir {
    pub(crate) fn create(
        fs: &Arc<dyn Fs>,
        layout: &Layout,
        ledger: &Ledger,
    ) -> Result<StagingDir, CacheError> {
        let path = layout.staging.join(format!("{}-{:016x}", std::process::id(), random()));
        // Alone, so that nobody sweeps the lock file between its making and its locking.
        ledger.alone(|| {
            let lock = fs.open(&lock_path(&path), Open::CreateNew)?;
            match lock.try_lock(LockKind::Exclusive) {
                Err(error) if !error.is_unsupported() => return Err(error.into()),
                _ => {}
            }
            fs.create_dir(&path)?;
            Ok(StagingDir { fs: Arc::clone(fs), path: path.clone(), lock: Some(lock) })
        })
    }

    pub fn path(&self) -> &Utf8Path {
        &self.path
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next open.
        let _ = self.fs.remove_dir_all(&self.path);
        let _ = self.fs.remove_file(&lock_path(&self.path));
        self.lock = None;
    }
}

fn lock_path(dir: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{dir}.lock"))
}

/// Removes what dead processes left in `staging/`.
pub(crate) fn sweep(fs: &dyn Fs, layout: &Layout, ledger: &Ledger) -> Result<(), CacheError> {
    if fs.read_dir(&layout.staging)?.is_empty() {
        return Ok(());
    }
    ledger.alone(|| {
        for entry in fs.read_dir(&layout.staging)? {
            let path = layout.staging.join(&entry.name);
            let dir = match entry.name.strip_suffix(".lock") {
                Some(name) => layout.staging.join(name),
                None if entry.kind == FileKind::Dir => path.clone(),
                None => continue,
            };
            if is_abandoned(fs, &dir)? {
                match fs.remove_dir_all(&dir) {
                    // A program that the dead process started works there to its end: the next
                    // sweep finds what it leaves.
                    Err(error) if is_in_use(&error) => continue,
                    other => other?,
                }
                match fs.remove_file(&lock_path(&dir)) {
                    Err(error) if !error.is_not_found() => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    })
}

/// Files came or went while the folder was emptied.
fn is_in_use(error: &FsError) -> bool {
    error.is_not_found() || error.kind() == ErrorKind::DirectoryNotEmpty
}

fn is_abandoned(fs: &dyn Fs, dir: &Utf8Path) -> Result<bool, CacheError> {
    let lock = match fs.open(&lock_path(dir), Open::ReadWrite) {
        // The lock is made before the folder and goes after it.
        Err(error) if error.is_not_found() => return Ok(true),
        other => other?,
    };
    match lock.try_lock(LockKind::Exclusive) {
        Ok(free) => Ok(free),
        Err(error) if error.is_unsupported() => {
            let made = lock.metadata()?.mtime_ns;
            Ok(fs.now().saturating_sub(made) > PATIENCE_NS)
        }
        Err(error) => Err(error.into()),
    }
}
