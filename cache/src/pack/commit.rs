//! The commit: objects first, then the log, then the index. Everything is durable when it returns.
//! If it fails, the batch waits for another attempt.

use std::collections::{BTreeSet, HashSet};

use camino::Utf8PathBuf;

use crate::cache::{Cache, Shared};
use crate::fs::FsError;
use crate::pack::entry::Entry;
use crate::pack::uncommitted::{CommitGroup, Step, UncommittedObject};
use crate::pack::writer::Writer;
use crate::{CacheError, Digest, hash_open};

/// The counts of a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// Objects that were new: those that the cache had are not counted.
    pub objects: u64,
    /// Records written, removals included.
    pub records: u64,
    /// Bytes of all values and objects of the commit.
    pub bytes: u64,
}

impl Cache {
    /// Makes everything durable that was put and recorded before.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, [`CacheError::Gone`] if it was
    /// removed, moved or replaced, [`CacheError::NoSpace`] if the disk is full, and
    /// [`CacheError::Index`] or [`CacheError::Fs`] if a file cannot be written or synced.
    /// Everything stays pending, so the call may be repeated.
    pub fn commit(&self) -> Result<Committed, CacheError> {
        let shared = &self.0;
        shared.require_writable()?;
        let mut writer = shared.writer();
        shared.ledger().require_in_place()?;
        let batch = shared.pending_mut().take_off();
        let result = write_batch(shared, &mut writer, &batch);
        // Otherwise the batch could not be taken back without copying it.
        drop(batch);
        match &result {
            Ok(_) => {
                // A separate statement, so that the lock is released when the batch is freed.
                let landed = shared.pending_mut().landed();
                drop(landed);
            }
            Err(_) => shared.pending_mut().turn_back(),
        }
        result
    }
}

fn write_batch(
    shared: &Shared,
    writer: &mut Writer,
    batch: &CommitGroup,
) -> Result<Committed, CacheError> {
    if batch.steps.is_empty() {
        return Ok(Committed::default());
    }
    place_files(shared, batch)?;
    let entries = entries(shared, writer.sequence(shared.ledger())?, batch)?;
    if entries.is_empty() {
        return Ok(Committed::default());
    }
    writer.append_durably(shared.ledger(), &entries)?;
    shared.forgotten().retain(|digest| !batch.objects.contains_key(digest));
    let is_record = |entry: &&Entry| matches!(entry, Entry::Record { .. } | Entry::Gone { .. });
    let records = entries.iter().filter(is_record).count() as u64;
    Ok(Committed { objects: entries.len() as u64 - records, records, bytes: batch.bytes })
}

/// The batch as log entries, in put order; objects that are stored already are left out. Records
/// get the numbers after `sequence`.
fn entries(
    shared: &Shared,
    sequence: &mut u64,
    batch: &CommitGroup,
) -> Result<Vec<Entry>, CacheError> {
    let stored = stored(shared, batch)?;
    let entry = |step: &Step| match step {
        Step::Object(digest, _) if stored.contains(digest) => None,
        Step::Object(digest, UncommittedObject::Bytes(bytes)) => {
            Some(Entry::Object { digest: *digest, bytes: bytes.clone() })
        }
        Step::Object(digest, UncommittedObject::File { size, .. }) => {
            Some(Entry::Loose { digest: *digest, size: *size })
        }
        Step::Record { table, key, value } => {
            *sequence += 1;
            let (table, key, sequence) = (*table, *key, *sequence);
            Some(match value.clone() {
                Some(value) => Entry::Record { table, key, sequence, value },
                None => Entry::Gone { table, key, sequence },
            })
        }
    };
    Ok(batch.steps.iter().filter_map(entry).collect())
}

/// The small objects of a batch that the index has.
fn stored(shared: &Shared, batch: &CommitGroup) -> Result<HashSet<Digest>, CacheError> {
    let small = |step: &Step| match step {
        Step::Object(digest, UncommittedObject::Bytes(_)) => Some(*digest),
        _ => None,
    };
    shared.stored(batch.steps.iter().filter_map(small))
}

/// Moves large objects to their final paths, durably.
fn place_files(shared: &Shared, batch: &CommitGroup) -> Result<(), CacheError> {
    let mut dirs = BTreeSet::new();
    for (digest, waiting) in &batch.objects {
        if let UncommittedObject::File { path, size } = waiting {
            let placed = place_file(shared, digest, path, *size, &mut dirs);
            placed.map_err(|error| CacheError::while_writing(error, path, *size))?;
        }
    }
    for dir in &dirs {
        shared.fs.sync_dir(dir)?;
    }
    Ok(())
}

fn place_file(
    shared: &Shared,
    digest: &Digest,
    path: &Utf8PathBuf,
    size: u64,
    dirs: &mut BTreeSet<Utf8PathBuf>,
) -> Result<(), FsError> {
    let fs = &*shared.fs;
    let target = shared.layout.object(digest);
    if let Some(dir) = target.parent() {
        fs.create_dir_in_place(dir)?;
        dirs.insert(dir.to_owned());
    }
    if is_intact(shared, digest, &target, size)? {
        // Left by an unfinished commit, or by another process.
        return if fs.exists(path)? { fs.remove_file(path) } else { Ok(()) };
    }
    fs.open(path, crate::fs::Open::Read)?.sync_data()?;
    fs.set_readonly(path)?;
    fs.rename(path, &target)
}

fn is_intact(
    shared: &Shared,
    digest: &Digest,
    target: &Utf8PathBuf,
    size: u64,
) -> Result<bool, FsError> {
    let file = match shared.fs.open(target, crate::fs::Open::Read) {
        Err(error) if error.is_not_found() => return Ok(false),
        other => other?,
    };
    Ok(file.len()? == size && hash_open(&*file)? == (*digest, size))
}
