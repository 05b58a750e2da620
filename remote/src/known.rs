//! The known contents of a remote, recorded in the cache of this machine: no request is needed for
//! them.

use std::collections::{BTreeMap, HashSet};

use cache::{Cache, CacheError, Digest, Table};
use serde::{Deserialize, Serialize};

use crate::index::{Found, PackIndex};

/// The table of these records in the ledger.
pub const KNOWN: Table = Table(40);

/// Outcomes and records that this machine no longer takes from any remote: after a retry, the remote still
/// has the verdict.
pub const IGNORED: Table = Table(43);

fn ignored_key(table: Table, key: &Digest) -> Digest {
    Digest::of(&[&[table.0], &key.as_bytes()[..]].concat())
}

/// From now on, what a remote has under this key is not used. Durable with the next commit.
pub fn ignore(cache: &Cache, table: Table, key: &Digest) -> Result<(), CacheError> {
    cache.record(IGNORED, &ignored_key(table, key), Vec::new())
}

pub fn is_ignored(cache: &Cache, table: Table, key: &Digest) -> Result<bool, CacheError> {
    Ok(cache.get(IGNORED, &ignored_key(table, key))?.is_some())
}

/// Leaves out the records that are ignored.
pub fn without_ignored<T>(
    cache: &Cache,
    records: Vec<(Table, Digest, T)>,
) -> Result<Vec<(Table, Digest, T)>, CacheError> {
    let ignored: HashSet<Digest> = cache.scan(IGNORED)?.into_iter().map(|(key, _)| key).collect();
    let is_taken = |(table, key, _): &(Table, Digest, T)| {
        ignored.is_empty() || !ignored.contains(&ignored_key(*table, key))
    };
    Ok(records.into_iter().filter(is_taken).collect())
}

#[derive(Serialize, Deserialize)]
enum Memory {
    /// A complete pack, and the hashes of its records.
    Pack { url: Digest, index: Vec<u8>, records: Vec<u64> },
    /// The outcome under this key.
    Outcome { url: Digest, key: Digest },
}

/// The files that a remote was seen to have.
#[derive(Debug, Default)]
pub struct There {
    /// Packs with an index.
    pub packs: HashSet<Digest>,
    /// Volumes with their number and size.
    pub volumes: HashSet<(Digest, (u32, u64))>,
    /// Large objects with their size.
    pub objects: HashSet<(Digest, u64)>,
    /// Outcomes and logs, by their keys.
    pub outcomes: HashSet<Digest>,
}

#[derive(Debug, Default)]
pub struct Known {
    packs: BTreeMap<Digest, PackIndex>,
    /// Hashes of records that packs have.
    records: HashSet<u64>,
    outcomes: HashSet<Digest>,
}

/// A hash of a record with its value.
pub fn record_hash(table: Table, key: &Digest, value: &[u8]) -> u64 {
    let value = Digest::of(value);
    Digest::of(&[&[table.0], &key.as_bytes()[..], &value.as_bytes()[..]].concat()).start()
}

fn memory_key(url: &Digest, of: &Digest) -> Digest {
    Digest::of(&[url.as_bytes(), of.as_bytes()].map(|bytes| &bytes[..]).concat())
}

impl Known {
    pub fn load(cache: &Cache, url: &Digest) -> Result<Known, CacheError> {
        let mut known = Known::default();
        for (_, bytes) in cache.scan(KNOWN)? {
            match postcard::from_bytes::<Memory>(&bytes) {
                Ok(Memory::Pack { url: of, index, records }) if of == *url => {
                    if let Some(index) = PackIndex::decode(index.into()) {
                        known.packs.insert(index.id, index);
                        known.records.extend(records);
                    }
                }
                Ok(Memory::Outcome { url: of, key }) if of == *url => {
                    known.outcomes.insert(key);
                }
                // Of another remote, or of a newer program: it is requested again.
                _ => {}
            }
        }
        Ok(known)
    }

    pub fn has_pack(&self, id: &Digest) -> bool {
        self.packs.contains_key(id)
    }

    pub fn has_record(&self, hash: u64) -> bool {
        self.records.contains(&hash)
    }

    pub fn has_outcome(&self, key: &Digest) -> bool {
        self.outcomes.contains(key)
    }

    pub fn pack(&self, id: &Digest) -> Option<&PackIndex> {
        self.packs.get(id)
    }

    pub fn packs(&self) -> impl Iterator<Item = &PackIndex> {
        self.packs.values()
    }

    /// The pack of an object, and its place.
    pub fn find(&self, digest: &Digest) -> Option<(Digest, Found)> {
        self.packs.values().find_map(|pack| Some((pack.id, pack.find(digest)?)))
    }

    /// Forgets what the remote lacks: packs and outcomes that are not among these, and packs with
    /// a large object that is not.
    pub fn keep_only(
        &mut self,
        cache: &Cache,
        url: &Digest,
        there: &There,
    ) -> Result<(), CacheError> {
        let is_there = |pack: &PackIndex| {
            there.packs.contains(&pack.id)
                && pack.volumes().all(|volume| there.volumes.contains(&(pack.id, volume)))
                && pack.large().all(|large| there.objects.contains(&large))
        };
        let lost_packs: Vec<Digest> =
            self.packs.values().filter(|pack| !is_there(pack)).map(|pack| pack.id).collect();
        let lost: Vec<Digest> =
            self.outcomes.iter().filter(|key| !there.outcomes.contains(key)).copied().collect();
        if lost_packs.is_empty() && lost.is_empty() {
            return Ok(());
        }
        for of in lost_packs.iter().chain(&lost) {
            cache.forget(KNOWN, &memory_key(url, of))?;
        }
        *self = Known::load(cache, url)?;
        Ok(())
    }

    /// For this process only.
    pub fn add_index(&mut self, index: PackIndex) {
        self.packs.insert(index.id, index);
    }

    /// Durable with the next commit of the cache.
    pub fn keep_pack(
        &mut self,
        cache: &Cache,
        url: &Digest,
        index: PackIndex,
        records: Vec<u64>,
    ) -> Result<(), CacheError> {
        self.records.extend(&records);
        let memory = Memory::Pack { url: *url, index: index.bytes().to_vec(), records };
        record(cache, &memory_key(url, &index.id), &memory)?;
        self.packs.insert(index.id, index);
        Ok(())
    }

    /// The next push looks for it again.
    pub fn forget_outcome(
        &mut self,
        cache: &Cache,
        url: &Digest,
        key: &Digest,
    ) -> Result<(), CacheError> {
        self.outcomes.remove(key);
        cache.forget(KNOWN, &memory_key(url, key))
    }

    pub fn keep_outcome(
        &mut self,
        cache: &Cache,
        url: &Digest,
        key: &Digest,
    ) -> Result<(), CacheError> {
        self.outcomes.insert(*key);
        let memory = Memory::Outcome { url: *url, key: *key };
        record(cache, &memory_key(url, key), &memory)
    }
}

fn record(cache: &Cache, key: &Digest, memory: &Memory) -> Result<(), CacheError> {
    // Serialising plain structs to memory cannot fail in postcard.
    cache.record(KNOWN, key, postcard::to_stdvec(memory).unwrap_or_default())
}
