//! The commit: objects first, then the log, then the index. Everything is durable when it returns.
//! If it fails, the batch waits for another attempt.

use std::collections::{BTreeSet, HashSet};

use camino::Utf8PathBuf;

use crate::cache::{Cache, Shared};
use crate::entry::Entry;
use crate::fs::FsError;
use crate::ledger::Ledger;
use crate::objects::hash_open;
use crate::packs::{Avoided, OpenPack, Placed, ROLL};
use crate::pending::{Batch, Step, Waiting};
use crate::recover::adopt;
use crate::{CacheError, Digest};

/// The counts of a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    pub objects: u64,
    pub records: u64,
    pub bytes: u64,
}

/// The writing side: one commit at a time.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pack: Option<OpenPack>,
    avoided: Avoided,
    sequence: u64,
    /// Packs up to this number get no more entries.
    closed: u32,
}

impl Cache {
    /// Makes everything durable that was put and recorded before.
    pub fn commit(&self) -> Result<Committed, CacheError> {
        let shared = &self.0;
        shared.require_writable()?;
        let mut writer = shared.writer();
        shared.ledger().require_in_place()?;
        let batch = shared.pending_mut().take_off();
        let result = writer.write_batch(shared, &batch);
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

impl Writer {
    fn write_batch(&mut self, shared: &Shared, batch: &Batch) -> Result<Committed, CacheError> {
        if batch.steps.is_empty() {
            return Ok(Committed::default());
        }
        place_files(shared, batch)?;
        let entries = self.entries(shared, batch)?;
        if entries.is_empty() {
            return Ok(Committed::default());
        }
        self.append_durably(shared, &entries)?;
        let mut forgotten = shared.forgotten();
        for digest in batch.objects.keys() {
            forgotten.remove(digest);
        }
        let is_record = |entry: &&Entry| matches!(entry, Entry::Record { .. } | Entry::Gone { .. });
        let records = entries.iter().filter(is_record).count() as u64;
        Ok(Committed { objects: entries.len() as u64 - records, records, bytes: batch.bytes })
    }

    /// Closes the existing packs: later entries go to newer ones.
    pub fn start_new_packs(&mut self, shared: &Shared) -> Result<(), CacheError> {
        self.pack = None;
        let numbers = shared.layout.pack_numbers(&*shared.fs)?;
        self.closed = numbers.last().copied().unwrap_or(0).max(self.closed);
        Ok(())
    }

    /// A number above that of every record this process has seen.
    pub fn next_sequence(&mut self, shared: &Shared) -> Result<u64, CacheError> {
        let known = shared.ledger().read(|view| view.sequence())?;
        self.sequence = self.sequence.max(known) + 1;
        Ok(self.sequence)
    }

    /// Writes entries to the log, syncs it, and tells the index.
    pub fn append_durably(
        &mut self,
        shared: &Shared,
        entries: &[Entry],
    ) -> Result<Vec<Placed>, CacheError> {
        let needed: u64 = entries.iter().map(Entry::size).sum();
        let mut placed = Vec::with_capacity(entries.len());
        let mut ends = Vec::new();
        let mut left = entries;
        while !left.is_empty() {
            let mut pack = self.open_pack(shared)?;
            let start = pack.end();
            let number = pack.number;
            match pack.append(left, &mut placed) {
                Ok(count) => left = &left[count..],
                Err(error) => {
                    self.give_up(pack, start);
                    let path = shared.layout.pack(number);
                    return Err(CacheError::while_writing(error, &path, needed));
                }
            }
            if let Err(error) = pack.sync(&*shared.fs, &shared.layout) {
                // The result of a failed sync is unknown: everything is written again elsewhere.
                self.avoided.insert(number);
                self.give_up(pack, start);
                return Err(CacheError::while_writing(error, &shared.layout.pack(number), needed));
            }
            ends.push((number, pack.end()));
            if !pack.is_full() {
                self.pack = Some(pack);
            }
        }
        shared.ledger().write_soon(|tables| {
            for (pack, offset, entry) in &placed {
                tables.take_in(*pack, *offset, entry)?;
            }
            ends.iter().try_for_each(|(number, end)| tables.set_pack(*number, *end))
        })?;
        Ok(placed)
    }

    fn give_up(&mut self, pack: OpenPack, end: u64) {
        pack.cut(end);
    }

    /// The pack to append to: the current one, one with space that nobody uses, or a new one.
    fn open_pack(&mut self, shared: &Shared) -> Result<OpenPack, CacheError> {
        if let Some(pack) = self.pack.take()
            && pack.is_in_place(&*shared.fs, &shared.layout)?
        {
            return Ok(pack);
        }
        let ledger = shared.ledger();
        let (indexed, last) = ledger.read(|view| Ok((view.packs()?, view.last_pack()?)))?;
        let numbers = shared.layout.pack_numbers(&*shared.fs)?;
        let full = |number: &u32| indexed.iter().any(|(of, end)| of == number && *end >= ROLL);
        for number in numbers.iter().rev().filter(|number| !full(number)) {
            if *number > self.closed
                && !self.avoided.contains(number)
                && let Some(pack) = resume(shared, ledger, *number)?
            {
                return Ok(pack);
            }
        }
        let next = ledger.next_pack(numbers.last().copied().unwrap_or(0).max(last))?;
        let pack = OpenPack::create(&*shared.fs, &shared.layout, next)
            .map_err(|error| CacheError::while_writing(error, &shared.layout.packs, 0))?;
        ledger.saw_pack(pack.number)?;
        Ok(pack)
    }

    /// The batch as log entries, in put order; objects that are stored already are left out.
    fn entries(&mut self, shared: &Shared, batch: &Batch) -> Result<Vec<Entry>, CacheError> {
        let known = shared.ledger().read(|view| view.sequence())?;
        self.sequence = self.sequence.max(known);
        let stored = stored(shared, batch)?;
        let entry = |step: &Step| match step {
            Step::Object(digest) if stored.contains(digest) => None,
            Step::Object(digest) => match batch.objects.get(digest)? {
                Waiting::Bytes(bytes) => {
                    Some(Entry::Object { digest: *digest, bytes: bytes.clone() })
                }
                Waiting::File { size, .. } => Some(Entry::Loose { digest: *digest, size: *size }),
            },
            Step::Record { table, key, value } => {
                self.sequence += 1;
                let (table, key, sequence) = (*table, *key, self.sequence);
                Some(match value.clone() {
                    Some(value) => Entry::Record { table, key, sequence, value },
                    None => Entry::Gone { table, key, sequence },
                })
            }
        };
        Ok(batch.steps.iter().filter_map(entry).collect())
    }
}

/// The small objects of a batch that the index has. They are sorted, so that neighbours in the
/// index are looked up one after the other.
fn stored(shared: &Shared, batch: &Batch) -> Result<HashSet<Digest>, CacheError> {
    let is_small = |(_, waiting): &(&Digest, &Waiting)| matches!(waiting, Waiting::Bytes(_));
    let small = batch.objects.iter().filter(is_small);
    let mut digests: Vec<Digest> = small.map(|(digest, _)| *digest).collect();
    digests.sort_unstable();
    let there = shared.stored(&digests)?;
    Ok(digests.into_iter().zip(there).filter(|(_, there)| *there).map(|(d, _)| d).collect())
}

fn resume(shared: &Shared, ledger: &Ledger, number: u32) -> Result<Option<OpenPack>, CacheError> {
    let adopted = adopt(&*shared.fs, &shared.layout, ledger, number)?;
    let usable = adopted.filter(|adopted| !adopted.truncated && adopted.end < ROLL);
    Ok(usable.map(|adopted| OpenPack::resume(number, adopted.file, adopted.end)))
}

/// Moves large objects to their final paths, durably.
fn place_files(shared: &Shared, batch: &Batch) -> Result<(), CacheError> {
    let mut dirs = BTreeSet::new();
    for (digest, waiting) in &batch.objects {
        if let Waiting::File { path, size } = waiting {
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
