//! Lost packs: their entries leave the index, so that nothing refers to them any more. If such a
//! pack comes back, it is taken in like any pack that the index does not know.

use std::collections::BTreeMap;

use crate::CacheError;
use crate::cache::Shared;
use crate::entry::Entry;
use crate::rows::{Known, KnownValue, Location};
use crate::{Digest, Table};

/// The entries of a pack according to the index.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub objects: u64,
    pub records: u64,
}

impl Held {
    pub fn is_nothing(&self) -> bool {
        *self == Held::default()
    }
}

/// The entries of each of these packs.
pub(crate) fn held_by(
    packs: &[u32],
    objects: &[(Digest, Location)],
    records: &[(Table, Digest, Known)],
) -> BTreeMap<u32, Held> {
    let mut held: BTreeMap<u32, Held> = packs.iter().map(|pack| (*pack, Held::default())).collect();
    for (_, location) in objects {
        if let Location::Packed { pack, .. } = location
            && let Some(held) = held.get_mut(pack)
        {
            held.objects += 1;
        }
    }
    for (_, _, known) in records.iter().filter(|(_, _, known)| known.value != KnownValue::Gone) {
        if let Some(held) = held.get_mut(&known.pack) {
            held.records += 1;
        }
    }
    held
}

pub(crate) fn describe(held: &Held) -> String {
    let Held { objects, records } = held;
    format!("the pack is gone, with {objects} objects and {records} records in it")
}

/// Returns the warnings. Records that the index holds as a whole are written to another pack.
pub(crate) fn forget(shared: &Shared, packs: &[u32]) -> Result<Vec<String>, CacheError> {
    if packs.is_empty() {
        return Ok(Vec::new());
    }
    let (objects, records) = shared.rows()?;
    let held = held_by(packs, &objects, &records);
    if held.values().any(|held| !held.is_nothing()) {
        shared.note_losses();
    }
    let is_lost = |pack: u32| held.contains_key(&pack);
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for (table, key, known) in records.into_iter().filter(|(_, _, known)| is_lost(known.pack)) {
        let sequence = known.sequence;
        match &known.value {
            KnownValue::Here(value) => {
                kept.push(Entry::Record { table, key, sequence, value: value.clone() });
            }
            KnownValue::Gone => kept.push(Entry::Gone { table, key, sequence }),
            KnownValue::InPack { .. } => lost.push((table, key, known)),
        }
    }
    shared.writer().append_durably(shared, &kept)?;
    shared.ledger().write(|tables| {
        for (digest, location) in &objects {
            if matches!(location, Location::Packed { pack, .. } if is_lost(*pack)) {
                tables.remove_object(digest, *location)?;
            }
        }
        for (table, key, known) in &lost {
            tables.remove_record(*table, key, known)?;
        }
        packs.iter().try_for_each(|pack| tables.remove_pack(*pack))
    })?;
    let told = held.iter().filter(|(_, held)| !held.is_nothing()).map(|(pack, held)| {
        let (path, what) = (shared.layout.pack(*pack), describe(held));
        format!("`{path}`: {what}; needed content is made again")
    });
    Ok(told.collect())
}
