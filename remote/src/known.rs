//! The known contents of a remote, recorded in the cache of this machine: no request is needed for
//! them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cache::{Cache, CacheError, Digest, Table};
use serde::{Deserialize, Serialize};

use crate::index::{ObjectLocation, PackIndex};
use crate::layout;

/// The table of these records in the index.
pub const KNOWN: Table = Table(40);

/// Outcomes and records that this machine no longer takes from any remote: after a retry, the remote still
/// has the verdict.
pub const IGNORED: Table = Table(43);

/// True if packs of a remote are known in this cache, and it lacks objects of these packs.
///
/// # Errors
///
/// If the index of the cache cannot be read.
pub fn lacks_objects(cache: &Cache) -> Result<bool, CacheError> {
    let mut objects = Vec::new();
    for (_, bytes) in cache.scan(KNOWN)? {
        if let Ok(Memory::Pack { index, .. }) = postcard::from_bytes::<Memory>(&bytes)
            && let Some(index) = PackIndex::decode(index.into())
        {
            objects.extend(index.small().map(|place| place.digest));
            objects.extend(index.large().map(|(digest, _)| digest));
        }
    }
    Ok(cache.contains_all(&objects)?.contains(&false))
}

fn ignored_key(table: Table, key: &Digest) -> Digest {
    Digest::of(&[&[table.0], &key.as_bytes()[..]].concat())
}

/// From now on, what a remote has under this key is not used. Durable with the next commit.
///
/// # Errors
///
/// If the index of the cache cannot be written.
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
    /// Under this scope, the remote had a label of this pack.
    Label { url: Digest, scope: Digest, pack: Digest },
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
    /// The scope and the pack of each label.
    pub labels: HashSet<Label>,
}

/// The scope and the pack of a label.
pub type Label = (Digest, Digest);

#[derive(Debug, Default)]
pub struct KnownFiles {
    packs: BTreeMap<Digest, PackIndex>,
    /// Made by the first search among many packs.
    places: OnceCell<Places>,
    /// Hashes of records that packs have.
    records: HashSet<u64>,
    outcomes: HashSet<Digest>,
    labels: HashSet<Label>,
}

/// A few packs are searched one after the other.
const FEW: usize = 8;

/// The pack of each object, by the start of its digest.
#[derive(Debug, Default)]
struct Places {
    packs: Vec<Digest>,
    of: HashMap<u64, u32>,
}

impl Places {
    fn add(&mut self, pack: &PackIndex) {
        let number = self.packs.len() as u32;
        self.packs.push(pack.id);
        let small = pack.small().map(|place| place.digest);
        for digest in small.chain(pack.large().map(|(digest, _)| digest)) {
            self.of.entry(digest.start()).or_insert(number);
        }
    }

    fn pack(&self, digest: &Digest) -> Option<&Digest> {
        self.packs.get(*self.of.get(&digest.start())? as usize)
    }
}

/// A hash of a record with its value.
pub fn record_hash(table: Table, key: &Digest, value: &[u8]) -> u64 {
    let value = Digest::of(value);
    Digest::of(&[&[table.0], &key.as_bytes()[..], &value.as_bytes()[..]].concat()).start()
}

fn memory_key(url: &Digest, of: &Digest) -> Digest {
    Digest::of(&[url.as_bytes(), of.as_bytes()].map(|bytes| &bytes[..]).concat())
}

fn label_key(url: &Digest, (scope, pack): &Label) -> Digest {
    memory_key(url, &memory_key(scope, pack))
}

impl KnownFiles {
    pub fn load(cache: &Cache, url: &Digest) -> Result<KnownFiles, CacheError> {
        let mut known = KnownFiles::default();
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
                Ok(Memory::Label { url: of, scope, pack }) if of == *url => {
                    known.labels.insert((scope, pack));
                }
                // Of another remote, or of a newer program: it is requested again.
                _ => {}
            }
        }
        Ok(known)
    }

    /// Adds what other processes of this machine have learned since.
    pub fn catch_up(&mut self, cache: &Cache, url: &Digest) -> Result<(), CacheError> {
        let newer = KnownFiles::load(cache, url)?;
        for (id, index) in newer.packs {
            if !self.has_pack(&id) {
                self.insert(index);
            }
        }
        self.records.extend(newer.records);
        self.outcomes.extend(newer.outcomes);
        self.labels.extend(newer.labels);
        Ok(())
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
    pub fn find(&self, digest: &Digest) -> Option<(Digest, ObjectLocation)> {
        if self.packs.len() > FEW {
            let pack = self.packs.get(self.places().pack(digest)?)?;
            if let Some(found) = pack.find(digest) {
                return Some((pack.id, found));
            }
            // Another object has a digest with the same start.
        }
        self.packs.values().find_map(|pack| Some((pack.id, pack.find(digest)?)))
    }

    fn places(&self) -> &Places {
        self.places.get_or_init(|| {
            let mut places = Places::default();
            self.packs.values().for_each(|pack| places.add(pack));
            places
        })
    }

    fn insert(&mut self, index: PackIndex) {
        if let Some(places) = self.places.get_mut() {
            places.add(&index);
        }
        self.packs.insert(index.id, index);
    }

    /// Adds what was known and may still be in folders that could not be listed.
    pub fn add_hidden(&self, there: &mut There, is_hidden: &dyn Fn(&str) -> bool) {
        for pack in self.packs.values() {
            if is_hidden(&layout::index(&pack.id)) {
                there.packs.insert(pack.id);
            }
            let volumes = pack.volumes();
            let volumes =
                volumes.filter(|(number, _)| is_hidden(&layout::volume(&pack.id, *number)));
            there.volumes.extend(volumes.map(|volume| (pack.id, volume)));
            let large = pack.large().filter(|(digest, _)| is_hidden(&layout::object(digest)));
            there.objects.extend(large);
        }
        there.outcomes.extend(self.outcomes.iter().filter(|key| is_hidden(&layout::result(key))));
        let is_label = |(scope, pack): &&Label| is_hidden(&layout::known(scope, pack));
        there.labels.extend(self.labels.iter().filter(is_label));
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
        self.forget(cache, url, lost_packs.iter().chain(&lost))
    }

    /// Forgets these packs and outcomes, so that the next push writes what no other pack has.
    pub fn forget<'a>(
        &mut self,
        cache: &Cache,
        url: &Digest,
        lost: impl IntoIterator<Item = &'a Digest>,
    ) -> Result<(), CacheError> {
        let lost: HashSet<&Digest> = lost.into_iter().collect();
        for of in &lost {
            cache.forget(KNOWN, &memory_key(url, of))?;
        }
        for label in self.labels.iter().filter(|(_, pack)| lost.contains(pack)) {
            cache.forget(KNOWN, &label_key(url, label))?;
        }
        *self = KnownFiles::load(cache, url)?;
        Ok(())
    }

    /// For this process only.
    pub fn add_index(&mut self, index: PackIndex) {
        self.insert(index);
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
        self.insert(index);
        Ok(())
    }

    /// The labels that the remote had, and those that it lacks of packs without any. Somebody must
    /// have removed them, or a push broke off before it wrote them.
    pub fn missing_labels(&self, there: &HashSet<Label>, scopes: &BTreeSet<Digest>) -> Vec<Label> {
        let labelled: HashSet<&Digest> =
            self.labels.iter().chain(there).map(|(_, pack)| pack).collect();
        let is_without =
            |pack: &&PackIndex| !labelled.contains(&pack.id) && !pack.record_parts().is_empty();
        let without = self.packs.values().filter(is_without);
        let of_all = without.flat_map(|pack| scopes.iter().map(|scope| (*scope, pack.id)));
        let known = self.labels.iter().filter(|(_, pack)| self.packs.contains_key(pack));
        known.copied().chain(of_all).filter(|label| !there.contains(label)).collect()
    }

    pub fn labels(&self) -> impl Iterator<Item = &Label> {
        self.labels.iter()
    }

    pub fn keep_label(
        &mut self,
        cache: &Cache,
        url: &Digest,
        label: Label,
    ) -> Result<(), CacheError> {
        if !self.labels.insert(label) {
            return Ok(());
        }
        let memory = Memory::Label { url: *url, scope: label.0, pack: label.1 };
        record(cache, &label_key(url, &label), &memory)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cache::{ArchivePlaces, ObjectPlace};

    use super::*;

    fn object(number: u32) -> Digest {
        Digest::of(&number.to_le_bytes())
    }

    fn pack(number: u32) -> PackIndex {
        let place = |of: u32| {
            let offset = 16 + 100 * (of % 10);
            ObjectPlace { digest: object(of), volume: 1, offset, length: 40 }
        };
        let mut objects: Vec<ObjectPlace> = (10 * number..10 * number + 10).map(place).collect();
        objects.sort_by_key(|place| place.digest);
        let id = Digest::of(format!("pack {number}").as_bytes());
        let places = ArchivePlaces { id, volumes: vec![2_000], objects, first_record: None };
        PackIndex::new(&places, vec![(object(1_000_000 + number), 5 << 20)]).unwrap()
    }

    #[test]
    fn every_object_is_found_among_few_and_among_many_packs() {
        let mut known = KnownFiles::default();
        for number in 0..3 * FEW as u32 {
            known.insert(pack(number));
            for own in 0..=number {
                let id = pack(own).id;
                let small = known.find(&object(10 * own + 7));
                assert!(
                    matches!(small, Some((pack, ObjectLocation::Small(_))) if pack == id),
                    "{own}"
                );
                let large = known.find(&object(1_000_000 + own));
                assert_eq!(large, Some((id, ObjectLocation::Large { size: 5 << 20 })));
            }
            assert_eq!(known.find(&object(10 * number + 10)), None);
        }
    }

    #[test]
    fn a_label_that_the_remote_had_is_missed_and_so_are_all_of_a_pack_without_any() {
        let with_records = |number: u32| {
            let places = ArchivePlaces {
                id: Digest::of(format!("pack {number}").as_bytes()),
                volumes: vec![2_000],
                objects: Vec::new(),
                first_record: Some((1, 16)),
            };
            PackIndex::new(&places, Vec::new()).unwrap()
        };
        let scopes = [object(1), object(2)];
        let packs: Vec<PackIndex> = vec![with_records(0), with_records(1), pack(2)];
        let mut known = KnownFiles::default();
        packs.iter().cloned().for_each(|pack| known.insert(pack));
        let first = (scopes[0], packs[0].id);
        known.labels = [first, (scopes[1], packs[0].id), (scopes[0], object(9))].into();
        let there = [first].into();
        let missing = |scopes: &[Digest]| {
            let scopes = scopes.iter().copied().collect();
            known.missing_labels(&there, &scopes).into_iter().collect::<BTreeSet<_>>()
        };
        let lost = (scopes[1], packs[0].id);
        assert_eq!(missing(&[]), [lost].into());
        let of_second = scopes.map(|scope| (scope, packs[1].id));
        assert_eq!(missing(&scopes), [lost, of_second[0], of_second[1]].into());
    }

    #[test]
    fn an_object_with_the_start_of_another_one_is_found() {
        let mut known = KnownFiles::default();
        (0..2 * FEW as u32).for_each(|number| known.insert(pack(number)));
        assert!(known.find(&object(3)).is_some());
        let wrong = known.places.get_mut().unwrap();
        *wrong.of.get_mut(&object(3).start()).unwrap() += 1;
        assert!(matches!(known.find(&object(3)), Some((_, ObjectLocation::Small(_)))));
    }
}
