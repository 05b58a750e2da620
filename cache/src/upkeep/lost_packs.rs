//! Lost packs and lost ends of packs: their entries leave the index, so that nothing refers to them
//! any more. If they come back, they are indexed like new ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::cache::Shared;
use crate::fs::{FsFile, FsResult, LockKind, Open};
use crate::index::rows::{Known, KnownValue, Location};
use crate::pack::entry::{Entry, PACK_MARK};
use crate::pack::scan::{Scan, ScannedEntry};
use crate::upkeep::recover::MissingPacks;
use crate::{Access, CacheError, Digest, Table};

/// The lost entries of a pack according to the index.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostCounts {
    pub objects: u64,
    pub records: u64,
}

impl LostCounts {
    pub fn is_nothing(&self) -> bool {
        *self == LostCounts::default()
    }
}

/// The readable length of each pack; None for a missing one.
pub(crate) type Reach = BTreeMap<u32, Option<u64>>;

fn is_beyond(reach: &Reach, pack: u32, end: u64) -> bool {
    reach.get(&pack).is_some_and(|length| length.is_none_or(|length| end > length))
}

pub(crate) fn object_is_lost(reach: &Reach, location: &Location) -> bool {
    location.pack_end().is_some_and(|(pack, end)| is_beyond(reach, pack, end))
}

pub(crate) fn record_is_lost(reach: &Reach, known: &Known) -> bool {
    is_beyond(reach, known.pack, u64::from(known.offset) + known.entry_size())
}

/// The lost entries of each of these packs.
pub(crate) fn held_by(
    reach: &Reach,
    objects: &[(Digest, Location)],
    records: &[(Table, Digest, Known)],
) -> BTreeMap<u32, LostCounts> {
    let mut held: BTreeMap<u32, LostCounts> =
        reach.keys().map(|pack| (*pack, LostCounts::default())).collect();
    for (_, location) in objects.iter().filter(|(_, location)| object_is_lost(reach, location)) {
        if let Some((pack, _)) = location.pack_end() {
            held.entry(pack).or_default().objects += 1;
        }
    }
    let is_value = |known: &Known| known.value != KnownValue::Gone;
    for (_, _, known) in records.iter().filter(|(_, _, known)| record_is_lost(reach, known)) {
        held.entry(known.pack).or_default().records += u64::from(is_value(known));
    }
    held
}

pub(crate) fn describe(is_gone: bool, held: &LostCounts) -> String {
    let LostCounts { objects, records } = held;
    let what = if is_gone { "missing" } else { "truncated" };
    let counted = |count: &u64, noun| match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    let (objects, records) = (counted(objects, "object"), counted(records, "record"));
    format!("the pack is {what}: lost {objects} and {records}")
}

impl Shared {
    /// Removes lost entries of packs from the index, if it is writable.
    pub fn forget_lost_packs(&self, missing: MissingPacks) {
        let mut short = missing.short.clone();
        if self.access == Access::ReadWrite {
            match forget(self, &missing) {
                Ok(forgotten) => {
                    short.retain(|pack, _| !forgotten.packs.contains(pack));
                    self.tell(forgotten.told);
                }
                // Until they can be recorded they count as too short.
                Err(error) => self.tell(vec![format!(
                    "packs of the cache are missing or truncated, but this cannot be recorded: {}",
                    error.whole()
                )]),
            }
        }
        self.short.set(short);
    }
}

/// The removed entries.
#[derive(Debug, Default)]
struct Forgotten {
    packs: BTreeSet<u32>,
    /// The warnings.
    told: Vec<String>,
}

/// Records that the index holds completely are written to another pack.
fn forget(shared: &Shared, missing: &MissingPacks) -> Result<Forgotten, CacheError> {
    let mut reach = Reach::new();
    // The ends are locked until the index is updated, so that nobody appends meanwhile.
    let mut ends = Vec::new();
    for pack in missing.short.keys() {
        if missing.gone.contains(pack) {
            reach.insert(*pack, None);
        } else if let Some(end) = lock_end(shared, *pack)? {
            reach.insert(*pack, Some(end.sound));
            ends.push(end);
        }
    }
    if reach.is_empty() {
        return Ok(Forgotten::default());
    }
    let (objects, records) = shared.ledger().rows()?;
    let held = held_by(&reach, &objects, &records);
    if held.values().any(|held| !held.is_nothing()) {
        shared.note_losses();
    }
    let (mut kept, mut lost) = (loose_entries(&objects), Vec::new());
    for (table, key, known) in records {
        if !record_is_lost(&reach, &known) {
            continue;
        }
        let sequence = known.sequence;
        match &known.value {
            KnownValue::Here(value) => {
                kept.push(Entry::Record { table, key, sequence, value: value.clone() });
            }
            KnownValue::Gone => kept.push(Entry::Gone { table, key, sequence }),
            KnownValue::InPack { .. } => lost.push((table, key, known)),
        }
    }
    shared.writer().append_durably(shared.ledger(), &kept)?;
    shared.ledger().write(|tables| {
        for (digest, location) in &objects {
            if object_is_lost(&reach, location) {
                tables.remove_object(digest, *location)?;
            }
        }
        for (table, key, known) in &lost {
            tables.remove_record(*table, key, known)?;
        }
        ends.iter().try_for_each(|end| tables.set_pack(end.pack, end.sound))?;
        missing.gone.iter().try_for_each(|pack| tables.remove_pack(*pack))
    })?;
    let told = held.iter().filter(|(_, held)| !held.is_nothing()).map(|(pack, held)| {
        let path = shared.layout.pack(*pack);
        let what = describe(missing.gone.contains(pack), held);
        format!("`{path}`: {what}; results that are needed are made again")
    });
    Ok(Forgotten { told: told.collect(), packs: reach.keys().copied().collect() })
}

/// The entries of objects in separate files, which may have been in a lost part.
fn loose_entries(objects: &[(Digest, Location)]) -> Vec<Entry> {
    let entry = |(digest, location): &(Digest, Location)| match location {
        Location::Loose { size } => Some(Entry::Loose { digest: *digest, size: *size }),
        Location::Packed { .. } => None,
    };
    objects.iter().filter_map(entry).collect()
}

/// A truncated pack, and the end of its valid entries.
struct PackEnd {
    pack: u32,
    sound: u64,
    _locked: Box<dyn FsFile>,
}

/// None for a pack that a living process writes.
fn lock_end(shared: &Shared, pack: u32) -> Result<Option<PackEnd>, CacheError> {
    let file = match shared.fs.open(&shared.layout.pack(pack), Open::ReadWrite) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    match file.try_lock(LockKind::Exclusive) {
        Ok(false) => return Ok(None),
        Err(error) if !error.is_unsupported() => return Err(error.into()),
        Ok(true) | Err(_) => {}
    }
    let sound = end_of_whole_entries(&*file, pack)?;
    Ok(Some(PackEnd { pack, sound, _locked: file }))
}

fn end_of_whole_entries(file: &dyn FsFile, pack: u32) -> FsResult<u64> {
    let mut scan = Scan::new(file, pack, 0)?;
    let mut end = 0;
    while let Some(found) = scan.next()? {
        if let ScannedEntry::Entry { .. } | ScannedEntry::Damaged = found {
            end = scan.position();
        }
    }
    // Only the mark, or a part of it, is written again.
    Ok(if end <= PACK_MARK.len() as u64 { 0 } else { end })
}
