//! Private folders for work in progress. Each has an owner with a lock beside it, so that folders
//! of dead and of living processes can be distinguished.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::CacheError;
use crate::cache::Shared;
use crate::fs::{
    DirEntry, FileKind, Fs, FsError, FsFile, FsResult, LockKind, Open, bytes_under, random,
};
use crate::index::ledger::Ledger;
use crate::layout::Layout;

/// The age at which folders are swept if locks do not work.
const PATIENCE_NS: i64 = 24 * 3_600 * 1_000_000_000;

/// A folder of this process under `staging/`; it is removed when dropped.
#[derive(Debug)]
pub struct StagingDir {
    fs: Arc<dyn Fs>,
    /// Finds the folder by its path, as programs do.
    outside: Arc<dyn Fs>,
    path: Utf8PathBuf,
    lock: Option<Box<dyn FsFile>>,
}

impl StagingDir {
    pub(crate) fn create(shared: &Shared) -> Result<StagingDir, CacheError> {
        let (fs, outside) = (&shared.fs, Arc::clone(&shared.outside));
        let path = shared.layout.staging.join(format!("{}-{:016x}", std::process::id(), random()));
        // Exclusive, so that nobody sweeps the lock file between its creation and its locking.
        shared.ledger().alone(|| {
            let lock = fs.open(&staging_lock(&path), Open::CreateNew)?;
            match lock.try_lock(LockKind::Exclusive) {
                Err(error) if !error.is_unsupported() => return Err(error.into()),
                _ => {}
            }
            fs.create_dir(&path)?;
            Ok(StagingDir { fs: Arc::clone(fs), outside, path: path.clone(), lock: Some(lock) })
        })
    }

    /// The folder, which is removed when this value is dropped.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// False if somebody has removed it.
    pub fn is_there(&self) -> bool {
        let is_there = |path: &Utf8Path| self.outside.exists(path).unwrap_or(true);
        is_there(&self.path) && is_there(&staging_lock(&self.path))
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        // A folder that cannot be removed is swept by the next open.
        let _ = self.fs.remove_dir_all(&self.path);
        let _ = self.fs.remove_file(&staging_lock(&self.path));
        self.lock = None;
    }
}

const LOCK: &str = ".lock";

/// The lock file beside a private folder, which shows that its owner is alive.
pub fn staging_lock(dir: &Utf8Path) -> Utf8PathBuf {
    Utf8PathBuf::from(format!("{dir}{LOCK}"))
}

/// Suffix of names that cannot be removed; if they cannot be renamed either, an empty file with
/// that name is beside them.
const STUCK: &str = ".stuck";

/// Removes remains of dead processes from `staging/`. Opening a cache never depends on it:
/// obstacles are reported.
pub(crate) fn sweep(fs: &dyn Fs, layout: &Layout, ledger: &Ledger) -> Vec<String> {
    match sweep_all(fs, layout, ledger) {
        Ok(told) => told,
        Err(error) => {
            let (staging, cause) = (&layout.staging, error.whole());
            vec![format!("files of ended processes in `{staging}` cannot be removed: {cause}")]
        }
    }
}

/// Tests if another process has a private folder, such as one with large objects for its next commit.
/// Without locks, any may be alive.
pub(crate) fn others_work(
    fs: &dyn Fs,
    layout: &Layout,
    ledger: &Ledger,
) -> Result<bool, CacheError> {
    // Exclusive, so that no folder is between its creation and its locking.
    ledger.alone(|| {
        for entry in fs.read_dir(&layout.staging)? {
            if !entry.name.ends_with(LOCK) {
                continue;
            }
            let is_free = match fs.open(&layout.staging.join(&entry.name), Open::Read) {
                Err(error) if error.is_not_found() => true,
                opened => opened?.try_lock(LockKind::Exclusive).unwrap_or(false),
            };
            if !is_free {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

fn sweep_all(fs: &dyn Fs, layout: &Layout, ledger: &Ledger) -> Result<Vec<String>, CacheError> {
    if fs.read_dir(&layout.staging)?.is_empty() {
        return Ok(Vec::new());
    }
    ledger.alone(|| {
        let entries = fs.read_dir(&layout.staging)?;
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let left: BTreeSet<&str> = entries.iter().filter_map(left_by).collect();
        let is_known =
            |name: &str| name.ends_with(STUCK) || names.contains(format!("{name}{STUCK}").as_str());
        let left = left.into_iter().filter(|name| !is_known(name));
        Ok(left.filter_map(|name| sweep_one(fs, &layout.staging.join(name))).collect())
    })
}

/// The folder of an entry of `staging/`.
fn left_by(entry: &DirEntry) -> Option<&str> {
    match entry.kind {
        FileKind::Dir => Some(&entry.name),
        FileKind::File => entry.name.strip_suffix(LOCK),
        _ => None,
    }
}

/// Returns the warnings.
fn sweep_one(fs: &dyn Fs, dir: &Utf8Path) -> Option<String> {
    match is_abandoned(fs, dir) {
        Ok(true) => {}
        Ok(false) => return None,
        Err(error) => return Some(format!("cannot clean up `{dir}`: {}", error.whole())),
    }
    let told = match fs.remove_dir_all(dir) {
        Ok(()) => None,
        // A child of the dead process may still work there: the next sweep finds its files.
        Err(error) if is_in_use(&error) => return None,
        // A later sweep may succeed.
        Err(error) if error.machine_fault().is_some() => {
            return Some(format!("`{dir}` cannot be removed now: {}", error.whole()));
        }
        Err(error) => {
            let place = mark_stuck(fs, dir);
            let cause = error.whole();
            Some(format!(
                "`{place}` was left by an earlier run and cannot be removed: {cause}; once that is fixed, `throstle cache gc --yes` removes it"
            ))
        }
    };
    // A lock without a folder is swept later.
    let _ = fs.remove_file(&staging_lock(dir));
    told
}

/// Marks a folder that cannot be removed, so that not every open tries again. Returns its new path.
fn mark_stuck(fs: &dyn Fs, dir: &Utf8Path) -> Utf8PathBuf {
    let aside = Utf8PathBuf::from(format!("{dir}{STUCK}"));
    if fs.rename(dir, &aside).is_ok() {
        return aside;
    }
    // Without the mark, the warning is repeated.
    let _ = fs.open(&aside, Open::CreateNew);
    dir.to_owned()
}

/// Tries again to remove marked folders. Returns the bytes freed and the warnings.
pub(crate) fn remove_stuck(fs: &dyn Fs, layout: &Layout) -> FsResult<(u64, Vec<String>)> {
    let (mut won, mut told) = (0, Vec::new());
    for entry in fs.read_dir(&layout.staging)? {
        let Some(name) = entry.name.strip_suffix(STUCK) else { continue };
        let mark = layout.staging.join(&entry.name);
        let folder = match entry.kind {
            FileKind::Dir => mark.clone(),
            _ => layout.staging.join(name),
        };
        let bytes = bytes_under(fs, &folder)?;
        let removed = fs.remove_dir_all(&folder).and_then(|()| match entry.kind {
            FileKind::Dir => Ok(()),
            _ => fs.remove_file(&mark),
        });
        match removed {
            Ok(()) => won += bytes,
            Err(error) => told.push(format!("`{folder}` was kept: {}", error.whole())),
        }
    }
    Ok((won, told))
}

/// Files appeared or disappeared while the folder was emptied.
fn is_in_use(error: &FsError) -> bool {
    error.is_not_found() || error.kind() == ErrorKind::DirectoryNotEmpty
}

fn is_abandoned(fs: &dyn Fs, dir: &Utf8Path) -> FsResult<bool> {
    let path = staging_lock(dir);
    let opened = match fs.open(&path, Open::ReadWrite) {
        // The file belongs to another user; read access is enough to lock it.
        Err(error) if error.is_denied() => fs.open(&path, Open::Read),
        opened => opened,
    };
    let lock = match opened {
        // The lock is created before the folder and removed after it.
        Err(error) if error.is_not_found() => return Ok(true),
        // A process in an unknown state may be alive.
        Err(error) if error.is_denied() => return Ok(false),
        opened => opened?,
    };
    match lock.try_lock(LockKind::Exclusive) {
        Ok(free) => Ok(free),
        Err(error) if error.is_unsupported() => {
            let made = lock.metadata()?.mtime_ns;
            Ok(fs.now().saturating_sub(made) > PATIENCE_NS)
        }
        Err(error) => Err(error),
    }
}
