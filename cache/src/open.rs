//! Opening a cache: checks its mark, removes files that dead processes left, and compares the packs
//! with the index.

use std::sync::Arc;

use camino::Utf8Path;

use crate::cache::{Cache, Shared};
use crate::claim::Claims;
use crate::fs::{Fs, Open, RetryFs, confined};
use crate::index::ledger::Ledger;
use crate::layout::Layout;
use crate::upkeep::recover::recover;
use crate::{Access, CacheError, staging, upkeep::half_written, upkeep::misplaced};

impl Cache {
    /// Opens the cache in a folder; for writing, creates it if necessary.
    ///
    /// # Errors
    ///
    /// [`CacheError::NoCache`] if there is none to read, [`CacheError::NotACache`],
    /// [`CacheError::DamagedMark`] or [`CacheError::NewerFormat`] if its mark does not fit,
    /// [`CacheError::Misplaced`] if something else is in the place of one of its files, and
    /// [`CacheError::Index`], [`CacheError::NoSpace`] or [`CacheError::Fs`] if a file cannot be
    /// read or made.
    pub fn open(dir: &Utf8Path, fs: Arc<dyn Fs>, access: Access) -> Result<Cache, CacheError> {
        let outside: Arc<dyn Fs> = Arc::new(RetryFs::new(fs));
        let layout = Layout::new(dir);
        let writable = access == Access::ReadWrite;
        let fs = enter(&outside, &layout, writable)?;
        let mut told = Vec::new();
        let format = match layout.check(&*fs) {
            Err(CacheError::Misplaced { .. }) if writable && layout.is_tagged(&*fs) => {
                told.extend(misplaced::move_mark_to_trash(&*fs, &layout)?);
                layout.check(&*fs)?
            }
            other => other?,
        };
        match access {
            Access::ReadWrite => layout.create(&*fs, format)?,
            Access::ReadOnly if format.is_none() => {
                return Err(CacheError::NoCache { dir: dir.to_owned() });
            }
            Access::ReadOnly => {}
        }
        if writable {
            told.extend(misplaced::move_all_to_trash(&*fs, &layout)?);
        }
        let ledger = Ledger::open((Arc::clone(&fs), Arc::clone(&outside)), &layout, access)?;
        if writable {
            told.extend(staging::sweep(&*fs, &layout, &ledger));
            half_written::sweep(&*fs, &layout);
        }
        let mut missing = recover(&ledger, writable)?;
        told.extend(missing.full.take().map(|why| {
            format!(
                "the last writes of the previous run are indexed when space is available: {why}"
            )
        }));
        let claims = open_claims(&*fs, &layout, writable)?;
        let notes = notes(&ledger, writable, told);
        let shared = Shared::new((fs, outside), layout, access, (ledger, claims), notes);
        shared.forget_lost_packs(missing);
        Ok(Cache(Arc::new(shared)))
    }
}

/// The file system for what is in the folder of the cache. The folder may be a link; in it, links
/// are not followed.
fn enter(
    outside: &Arc<dyn Fs>,
    layout: &Layout,
    writable: bool,
) -> Result<Arc<dyn Fs>, CacheError> {
    if writable {
        layout.create_folder(&**outside, &layout.dir)?;
    }
    match confined(outside, &layout.dir) {
        Err(error) if error.is_not_found() => Err(CacheError::NoCache { dir: layout.dir.clone() }),
        entered => Ok(entered?),
    }
}

fn open_claims(fs: &dyn Fs, layout: &Layout, writable: bool) -> Result<Claims, CacheError> {
    if !writable {
        // Without this file no other process can be detected.
        return Ok(Claims::seen(fs.open(&layout.claims(), Open::Read).ok()));
    }
    Ok(Claims::new(Some(fs.open(&layout.claims(), Open::Create)?)))
}

fn notes(ledger: &Ledger, writable: bool, mut notes: Vec<String>) -> Vec<String> {
    if writable && !ledger.can_lock() {
        notes.push(
            "the file system of the cache has no locks: run one process at a time, \
             since two may do the same work twice"
                .to_owned(),
        );
    }
    notes
}
