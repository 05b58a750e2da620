//! Repairs a remote: damaged files are removed, so that the next push can write them again.
//!
//! The intact objects and records of a damaged pack are fetched first, and its outcomes are kept in
//! memory: they are pushed again, in a new pack.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cache::{ArchiveEntry, Digest, FIRST_ENTRY, Table};

use crate::error::Trouble;
use crate::index::PackIndex;
use crate::known::without_ignored;
use crate::layout;
use crate::outcome::{Fresh, MOST_BYTES, Outcome};
use crate::place::{Listed, Refusal};
use crate::remote::Remote;
use crate::verify::Verified;

/// The removed files, which a push has to write again.
#[derive(Debug, Clone, Default)]
pub struct Repaired {
    /// The names of removed files.
    pub removed: Vec<String>,
    /// The objects of removed packs, with their sizes. This machine may lack some.
    pub objects: Vec<(Digest, u64)>,
    /// The records of removed packs.
    pub records: Vec<(Table, Digest)>,
    pub outcomes: Vec<Fresh>,
}

impl Remote {
    /// Removes the files that were found to be damaged, with the packs and outcomes that need them.
    pub fn repair(&self, verified: &Verified) -> Result<Repaired, Trouble> {
        let mut repaired = Repaired::default();
        if verified.wrong.is_empty() {
            return Ok(repaired);
        }
        if !self.is_writable() {
            return Err(self.refused("it is read-only"));
        }
        let all = self.everything()?;
        let indexes = self.indexes(&all)?;
        let wrong: BTreeSet<&str> = verified.wrong.iter().map(|(name, _)| name.as_str()).collect();
        let large: BTreeSet<Digest> = wrong
            .iter()
            .filter(|name| name.starts_with(layout::OBJECTS))
            .filter_map(|name| layout::digest_of(name))
            .collect();
        // A pack that lacks a large object is written again as well.
        let lacks = |index: &PackIndex| index.large().any(|(digest, _)| large.contains(&digest));
        let lacking = indexes.values().filter(|index| lacks(index)).map(|index| index.id);
        let packs: BTreeSet<Digest> =
            wrong.iter().filter_map(|name| layout::pack_of(name)).chain(lacking).collect();
        for index in packs.iter().filter_map(|id| indexes.get(id)) {
            self.save_pack(index, &mut repaired)?;
        }
        self.cache.commit()?;
        self.save_outcomes(&all, &indexes, &packs, &mut repaired)?;
        self.remove_damaged(&all, &wrong, &packs, &mut repaired)?;
        self.write_labels(&wrong, &indexes, &packs)?;
        self.remove_odd(&wrong, &mut repaired)?;
        self.look_again()?;
        Ok(repaired)
    }

    fn remove_odd(&self, wrong: &BTreeSet<&str>, repaired: &mut Repaired) -> Result<(), Trouble> {
        let odd: Vec<String> =
            self.odd()?.into_iter().filter(|name| wrong.contains(name.as_str())).collect();
        let removed = odd.iter().map(|name| self.place.remove(name)).collect::<Vec<_>>();
        let left: BTreeSet<String> = self.odd()?.into_iter().collect();
        for (name, removed) in odd.into_iter().zip(removed) {
            let why = match removed {
                // Such as a folder with contents, which are not ours.
                Err(Refusal(why)) => why,
                // A place may not reach every name.
                Ok(()) if left.contains(&name) => "remove it manually".to_owned(),
                Ok(()) => {
                    repaired.removed.push(name);
                    continue;
                }
            };
            self.tell_wrong(&name, &format!("it cannot be removed: {why}"));
        }
        Ok(())
    }

    /// Writes damaged labels of intact packs again: no push would.
    fn write_labels(
        &self,
        wrong: &BTreeSet<&str>,
        indexes: &BTreeMap<Digest, PackIndex>,
        packs: &BTreeSet<Digest>,
    ) -> Result<(), Trouble> {
        for name in wrong.iter().filter(|name| name.starts_with(&format!("{}/", layout::KNOWN))) {
            let pack = layout::digest_of(name);
            if pack.is_some_and(|id| indexes.contains_key(&id) && !packs.contains(&id)) {
                self.write(name, Bytes::new())?;
            }
        }
        Ok(())
    }

    /// Fetches the intact contents of a pack. The labels of its records are those of the next push.
    fn save_pack(&self, index: &PackIndex, repaired: &mut Repaired) -> Result<(), Trouble> {
        for (number, size) in index.volumes() {
            let name = layout::volume(&index.id, number);
            let found = self.place.size(&name).map_err(|refusal| self.give_up(refusal))?;
            let length = size.min(found.unwrap_or(0)).saturating_sub(FIRST_ENTRY);
            let Some(bytes) = self.whole_part(&index.id, number, FIRST_ENTRY, length)? else {
                continue;
            };
            let (entries, _) = cache::archive_entries(number, FIRST_ENTRY, &bytes);
            let mut records = Vec::new();
            for entry in entries {
                match entry {
                    ArchiveEntry::Object { digest, bytes } => {
                        self.cache.put_with_digest(digest, bytes)?;
                    }
                    ArchiveEntry::Record { table, key, written } if (self.rules.takes)(table) => {
                        repaired.records.push((table, key));
                        records.push((table, key, written));
                    }
                    ArchiveEntry::Record { .. } => {}
                }
            }
            let records = without_ignored(&self.cache, records)?;
            self.cache.take_records(records, &self.rules.prefers)?;
        }
        // Objects behind a damaged entry are read one by one.
        for place in index.small() {
            if !self.cache.contains(&place.digest)? {
                self.fetch_alone(index, place)?;
            }
            repaired.objects.push((place.digest, u64::from(place.length)));
        }
        repaired.objects.extend(index.large());
        self.commit_if_much()
    }

    fn fetch_alone(&self, index: &PackIndex, place: cache::ObjectPlace) -> Result<(), Trouble> {
        let offset = u64::from(place.offset);
        let length = cache::ENTRY_HEADER + u64::from(place.length);
        let name = layout::volume(&index.id, place.volume);
        let part =
            self.place.part(&name, offset, length).map_err(|refusal| self.give_up(refusal))?;
        let (entries, _) = cache::archive_entries(place.volume, offset, &part.unwrap_or_default());
        for entry in entries {
            if let ArchiveEntry::Object { digest, bytes } = entry {
                self.cache.put_with_digest(digest, bytes)?;
            }
        }
        Ok(())
    }

    /// Keeps the valid outcomes that refer to removed packs, to write them again.
    fn save_outcomes(
        &self,
        all: &[Listed],
        indexes: &BTreeMap<Digest, PackIndex>,
        packs: &BTreeSet<Digest>,
        repaired: &mut Repaired,
    ) -> Result<(), Trouble> {
        let is_result = |name: &str| name.starts_with(&format!("{}/", layout::RESULTS));
        for name in all.iter().map(|listed| &listed.name).filter(|name| is_result(name)) {
            let Some(key) = layout::digest_of(name) else { continue };
            let found =
                self.place.get(name, MOST_BYTES).map_err(|refusal| self.give_up(refusal))?;
            let Some(outcome) = found.and_then(|bytes| Outcome::decode(&bytes, &key)) else {
                continue;
            };
            if !outcome.packs.iter().any(|id| packs.contains(id) || !indexes.contains_key(id)) {
                continue;
            }
            repaired.removed.push(name.clone());
            // Without an index, its objects are not known.
            let needed: Option<Vec<&PackIndex>> =
                outcome.packs.iter().map(|id| indexes.get(id)).collect();
            let Some(needed) = needed else { continue };
            let objects = needed.into_iter().flat_map(|index| {
                let small = index.small().map(|place| place.digest);
                small.chain(index.large().map(|(digest, _)| digest)).collect::<Vec<Digest>>()
            });
            repaired.outcomes.push(Fresh {
                key,
                name: key.short(),
                table: Table(outcome.table),
                value: outcome.value.into(),
                summary: outcome.summary,
                objects: objects.collect(),
            });
        }
        Ok(())
    }

    /// Removes outcomes first, then labels and indexes, so that nothing refers to a removed file.
    fn remove_damaged(
        &self,
        all: &[Listed],
        wrong: &BTreeSet<&str>,
        packs: &BTreeSet<Digest>,
        repaired: &mut Repaired,
    ) -> Result<(), Trouble> {
        let is_label = |name: &str| {
            name.starts_with(&format!("{}/", layout::KNOWN))
                && layout::digest_of(name).is_some_and(|id| packs.contains(&id))
        };
        let is_of_pack = |name: &str| layout::pack_of(name).is_some_and(|id| packs.contains(&id));
        let names = || all.iter().map(|listed| listed.name.as_str());
        for label in names().filter(|name| is_label(name)) {
            let scope: Option<Digest> =
                label.split('/').nth(1).and_then(|scope| scope.parse().ok());
            self.state().scopes.extend(scope);
        }
        let is_index = |name: &&str| is_of_pack(name) && name.ends_with("/INDEX");
        let labels = names().filter(|name| is_label(name)).chain(names().filter(is_index));
        let rest = names().filter(|name| is_of_pack(name) && !is_index(name));
        let others = names().filter(|name| wrong.contains(name) && !is_of_pack(name));
        let more: Vec<String> = labels.chain(rest).chain(others).map(str::to_owned).collect();
        for name in more {
            if !repaired.removed.contains(&name) {
                repaired.removed.push(name);
            }
        }
        for name in &repaired.removed {
            self.place.remove(name).map_err(|refusal| self.give_up(refusal))?;
        }
        Ok(())
    }
}
