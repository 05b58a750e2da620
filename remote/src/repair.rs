//! Repairs a remote: writes what is intact again, and then removes the damaged files.
//!
//! The intact objects and records of a damaged pack are fetched, and its outcomes are read. A push
//! writes them as a new pack, and only then the damaged one is removed: a repair that is killed, or
//! meets a full disk, loses nothing, and the next one continues.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cache::{ArchiveEntry, Digest, FIRST_ENTRY, Table};

use crate::error::RemoteError;
use crate::index::PackIndex;
use crate::known::without_ignored;
use crate::layout::{self, is_in};
use crate::outcome::{Fresh, MOST_BYTES, Outcome};
use crate::remote::{OpenRepair, Remote};
use crate::storage::{ListedFile, Refusal};
use crate::verify::VerifyReport;

/// The intact contents of damaged packs. The next push writes them again.
#[derive(Debug, Clone, Default)]
pub struct Salvage {
    /// The objects of damaged packs, with their sizes. This machine may lack some.
    pub objects: Vec<(Digest, u64)>,
    /// The records of damaged packs.
    pub records: Vec<(Table, Digest)>,
    /// The outcomes that refer to these packs, with all objects of all their packs.
    pub outcomes: Vec<Fresh>,
    /// The tables and values of all other outcomes.
    pub others: Vec<(Table, Bytes)>,
    /// The intact packs that outcomes refer to.
    intact: BTreeSet<Digest>,
    /// The keys of outcomes with objects that their packs do not list: those of a pack without an index,
    /// or of a pack that they do not name.
    pub unlisted: BTreeSet<Digest>,
    /// The files that [`Remote::end_repair`] removes.
    pub damaged: DamagedFiles,
}

/// The files that a repair removes.
#[derive(Debug, Clone, Default)]
pub struct DamagedFiles {
    /// In the order in which they are removed.
    names: Vec<String>,
    /// Files from which nothing can be read, which are removed already.
    removed: Vec<String>,
}

/// The files of a remote, and those that are damaged.
struct RepairScan<'a> {
    all: Vec<ListedFile>,
    indexes: BTreeMap<Digest, PackIndex>,
    wrong: BTreeSet<&'a str>,
    /// The packs to write again.
    packs: BTreeSet<Digest>,
    /// The packs with an unreadable file, which may be intact: they stay as they are.
    unreadable: BTreeSet<Digest>,
}

impl RepairScan<'_> {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|listed| listed.name.as_str())
    }

    fn is_again(&self, pack: Option<Digest>) -> bool {
        pack.is_some_and(|id| self.packs.contains(&id))
    }

    /// The volumes of a pack with their sizes; without an index, those that are there.
    fn volumes(&self, pack: &Digest) -> Vec<(u32, u64)> {
        match self.indexes.get(pack) {
            Some(index) => index.volumes().collect(),
            None => {
                let number = |listed: &ListedFile| {
                    Some((layout::volume_number(pack, &listed.name)?, listed.size))
                };
                self.all.iter().filter_map(number).collect()
            }
        }
    }

    /// The intact large objects of the packs to write again. If a pack lacks its index, those that
    /// no valid index names are included, since they may belong to it.
    fn large(&self) -> Vec<(Digest, u64)> {
        let is_whole = self.packs.iter().all(|pack| self.indexes.contains_key(pack));
        let (mut again, mut others) = (BTreeSet::new(), BTreeSet::new());
        for index in self.indexes.values() {
            let named = if self.is_again(Some(index.id)) { &mut again } else { &mut others };
            named.extend(index.large().map(|(digest, _)| digest));
        }
        let listed = self.all.iter().filter(|listed| is_in(&listed.name, layout::OBJECTS));
        let intact = listed.filter(|listed| !self.wrong.contains(listed.name.as_str()));
        let large =
            intact.filter_map(|listed| Some((layout::digest_of(&listed.name)?, listed.size)));
        let is_needed = |(digest, _): &(Digest, u64)| {
            again.contains(digest) || (!is_whole && !others.contains(digest))
        };
        large.filter(is_needed).collect()
    }

    /// The files to remove after the push, except outcomes. Files that refer to others come first.
    /// Files that this program has not written stay in the folder of a pack.
    fn damaged(&self) -> Vec<String> {
        let is_own = |name: &&str| self.is_again(layout::pack_of(name)) && layout::is_of_pack(name);
        let (indexes, rest): (Vec<&str>, Vec<&str>) =
            self.names().filter(is_own).partition(|name| name.ends_with("/INDEX"));
        let is_other = |name: &&str| {
            self.wrong.contains(name)
                && layout::pack_of(name).is_none()
                && !is_in(name, layout::OBJECTS)
                && !is_in(name, layout::RESULTS)
                && !is_in(name, layout::LOGS)
                && !self.is_label(name)
                && !self.is_label_of_intact(name)
        };
        let labels = self.names().filter(|name| self.is_label(name));
        let others = self.names().filter(is_other);
        labels.chain(indexes).chain(rest).chain(others).map(str::to_owned).collect()
    }

    /// A label of a pack that is written again.
    fn is_label(&self, name: &str) -> bool {
        is_in(name, layout::KNOWN) && self.is_again(layout::digest_of(name))
    }

    /// A damaged label of a pack that stays.
    fn is_label_of_intact(&self, name: &str) -> bool {
        let pack = layout::label_of(name).map(|(_, pack)| pack);
        pack.is_some_and(|id| self.indexes.contains_key(&id)) && !self.is_again(pack)
    }

    /// The packs that lack a label, which the push writes.
    fn without_label(&self) -> Vec<Digest> {
        let labels = self.wrong.iter().filter(|name| is_in(name, layout::KNOWN));
        let packs = labels.filter_map(|name| layout::digest_of(name));
        packs.filter(|id| self.indexes.contains_key(id) && !self.packs.contains(id)).collect()
    }
}

/// The packs with a file, or a large object, that cannot be read.
fn unreadable_packs(
    verified: &VerifyReport,
    indexes: &BTreeMap<Digest, PackIndex>,
) -> BTreeSet<Digest> {
    let names = &verified.unreadable;
    let of_files = names.iter().filter_map(|name| layout::pack_of(name));
    let is_unreadable = |(digest, _): (Digest, u64)| {
        let name = layout::object(&digest);
        names.iter().any(|unreadable| name == *unreadable || is_in(&name, unreadable))
    };
    let of_objects = indexes.values().filter(|index| index.large().any(is_unreadable));
    of_files.chain(of_objects.map(|index| index.id)).collect()
}

impl Remote {
    /// Fetches the intact contents of damaged packs, and makes them unknown, so that the next push
    /// writes them again. Removes only files from which nothing can be read.
    ///
    /// # Errors
    ///
    /// If the remote does not answer, or refuses a request, or if the cache cannot be read or written.
    pub fn begin_repair(&self, verified: &VerifyReport) -> Result<Salvage, RemoteError> {
        let mut salvage = Salvage::default();
        if verified.wrong.is_empty() {
            return Ok(salvage);
        }
        if !self.is_writable() {
            return Err(self.refused("it is read-only"));
        }
        for folder in [layout::PACKS, layout::RESULTS, layout::OBJECTS, layout::KNOWN] {
            if let Some(why) = self.unreadable().remove(folder) {
                return Err(self.refused(format!("`{folder}`: {why}")));
            }
        }
        let found = self.look_for_damage(verified)?;
        let mut contents = BTreeMap::new();
        for pack in &found.packs {
            contents.insert(*pack, self.save_pack(pack, &found, &mut salvage)?);
        }
        self.cache.commit()?;
        let outcomes = self.save_outcomes(&found, &contents, &mut salvage)?;
        self.save_long_objects(&found)?;
        let labels = found.names().filter(|name| found.is_label(name));
        let scopes = labels.filter_map(|label| label.split('/').nth(1)?.parse::<Digest>().ok());
        self.state().scopes.extend(scopes);
        self.remove_useless(&found, &mut salvage.damaged)?;
        self.look_again()?;
        self.with_known(|known| known.forget(&self.cache, &self.url, &found.packs))?;
        for key in &outcomes {
            self.forget_outcome(key)?;
        }
        // Their objects count as there.
        let intact: Vec<Digest> = salvage.intact.iter().copied().collect();
        self.learn(&intact)?;
        self.learn(&found.without_label())?;
        let DamagedFiles { names, removed } = &mut salvage.damaged;
        *names = found.damaged();
        // The push may write other files under these names.
        names.retain(|name| !removed.contains(name));
        let large = found.large().into_iter().collect();
        self.state().repair =
            OpenRepair { packs: found.packs, outcomes, replaced: BTreeSet::new(), large };
        Ok(salvage)
    }

    /// Tests if an open repair writes or removes the outcome under this key.
    pub fn repairs_outcome(&self, key: &Digest) -> bool {
        self.state().repair.outcomes.contains(key)
    }

    /// Tests if a large object of a damaged pack is intact.
    pub fn keeps_large(&self, digest: &Digest) -> bool {
        self.state().repair.large.contains_key(digest)
    }

    /// Removes what no result can be read from, to make room for the push, and writes damaged labels of
    /// intact packs again.
    fn remove_useless(
        &self,
        found: &RepairScan,
        damaged: &mut DamagedFiles,
    ) -> Result<(), RemoteError> {
        let is_useless = |name: &&str| {
            let is_single = is_in(name, layout::OBJECTS) || is_in(name, layout::LOGS);
            found.wrong.contains(name) && is_single
        };
        for name in found.names().filter(is_useless).map(str::to_owned) {
            self.place.remove(&name).map_err(|refusal| self.give_up(refusal))?;
            damaged.removed.push(name);
        }
        let odd = self.remove_odd(&found.wrong, damaged)?;
        let labels = found.names().filter(|name| {
            found.wrong.contains(name) && found.is_label_of_intact(name) && !odd.contains(*name)
        });
        for label in labels {
            let written = self.place.replace(label, Bytes::new());
            written.map_err(|refusal| self.give_up(refusal))?;
        }
        Ok(())
    }

    /// Removes the damaged files, after a push has written everything that is left of them. Returns
    /// the names of all removed files.
    ///
    /// # Errors
    ///
    /// If the remote does not answer, or refuses to remove a file. Others may be gone by then.
    pub fn end_repair(&self, damaged: DamagedFiles) -> Result<Vec<String>, RemoteError> {
        let DamagedFiles { names, mut removed } = damaged;
        // Parts of these results are gone.
        let lost: Vec<String> = self.state().repair.outcomes.iter().map(layout::result).collect();
        for name in lost.into_iter().chain(names) {
            self.place.remove(&name).map_err(|refusal| self.give_up(refusal))?;
            removed.push(name);
        }
        if !removed.is_empty() {
            self.look_again()?;
        }
        Ok(removed)
    }

    /// Fetches large objects with more bytes behind their own.
    fn save_long_objects(&self, found: &RepairScan) -> Result<(), RemoteError> {
        let named: BTreeMap<Digest, u64> =
            found.indexes.values().flat_map(PackIndex::large).collect();
        let objects = found.all.iter().filter(|listed| is_in(&listed.name, layout::OBJECTS));
        for listed in objects {
            let digest = layout::digest_of(&listed.name);
            let size = digest.and_then(|digest| Some((digest, *named.get(&digest)?)));
            if let Some((digest, size)) = size.filter(|(_, size)| listed.size > *size) {
                self.bring_large(&digest, size)?;
            }
        }
        Ok(())
    }

    fn look_for_damage<'a>(
        &self,
        verified: &'a VerifyReport,
    ) -> Result<RepairScan<'a>, RemoteError> {
        let all = self.everything()?;
        let indexes = self.indexes(&all)?;
        let unreadable = unreadable_packs(verified, &indexes);
        let is_left = |name: &str| {
            let label = || layout::digest_of(name).filter(|_| is_in(name, layout::KNOWN));
            let pack = layout::pack_of(name).or_else(label);
            verified.unreadable.contains(name) || pack.is_some_and(|id| unreadable.contains(&id))
        };
        let wrong: BTreeSet<&str> = verified
            .wrong
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| !is_left(name))
            .collect();
        let objects = wrong.iter().filter(|name| is_in(name, layout::OBJECTS));
        let large: BTreeSet<Digest> = objects.filter_map(|name| layout::digest_of(name)).collect();
        // A pack that lacks a large object is written again as well.
        let lacks = |index: &PackIndex| index.large().any(|(digest, _)| large.contains(&digest));
        let lacking = indexes.values().filter(|index| lacks(index)).map(|index| index.id);
        let packs = wrong.iter().filter_map(|name| layout::pack_of(name)).chain(lacking).collect();
        let mut found = RepairScan { all, indexes, wrong, packs, unreadable };
        // A pack whose index is missing is no unfinished one if something refers to it.
        let labels = found.wrong.iter().filter(|name| is_in(name, layout::KNOWN));
        let mut named: BTreeSet<Digest> =
            labels.filter_map(|name| layout::digest_of(name)).collect();
        for name in found.wrong.iter().filter(|name| is_in(name, layout::RESULTS)) {
            if let Some(key) = layout::digest_of(name)
                && let Some(outcome) = self.read_outcome(&key)?
            {
                named.extend(outcome.packs);
            }
        }
        named.retain(|id| !found.indexes.contains_key(id) && !found.volumes(id).is_empty());
        found.packs.extend(named);
        found.packs.retain(|id| !found.unreadable.contains(id));
        Ok(found)
    }

    /// Removes odd entries, and reports those that cannot be removed. Returns the names of all that
    /// are left.
    fn remove_odd(
        &self,
        wrong: &BTreeSet<&str>,
        damaged: &mut DamagedFiles,
    ) -> Result<BTreeSet<String>, RemoteError> {
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
                    damaged.removed.push(name);
                    continue;
                }
            };
            self.tell_wrong(&name, &format!("it cannot be removed: {why}"));
        }
        Ok(left)
    }

    /// Fetches the intact contents of a pack. Returns all objects in its index, or the intact ones
    /// if it has none. The next push writes the labels of its records.
    fn save_pack(
        &self,
        pack: &Digest,
        found: &RepairScan,
        salvage: &mut Salvage,
    ) -> Result<Vec<Digest>, RemoteError> {
        let mut objects = Vec::new();
        for (number, size) in found.volumes(pack) {
            let name = layout::volume(pack, number);
            let there = self.place.size(&name).map_err(|refusal| self.give_up(refusal))?;
            let length = size.min(there.unwrap_or(0)).saturating_sub(FIRST_ENTRY);
            let Some(bytes) = self.whole_part(pack, number, FIRST_ENTRY, length)? else {
                continue;
            };
            let (entries, _) = cache::archive_entries(number, FIRST_ENTRY, &bytes);
            let mut records = Vec::new();
            for entry in entries {
                match entry {
                    ArchiveEntry::Object { digest, bytes } => {
                        objects.push((digest, bytes.len() as u64));
                        self.cache.put_with_digest(digest, bytes)?;
                    }
                    ArchiveEntry::Record { table, key, written } if (self.rules.takes)(table) => {
                        salvage.records.push((table, key));
                        records.push((table, key, written));
                    }
                    ArchiveEntry::Record { .. } => {}
                }
            }
            let records = without_ignored(&self.cache, records)?;
            self.cache.take_records(records, &self.rules.prefers)?;
        }
        match found.indexes.get(pack) {
            Some(index) => {
                let small = index.small().map(|place| (place.digest, u64::from(place.length)));
                objects = small.chain(index.large()).collect();
            }
            None => objects.extend(found.large()),
        }
        salvage.objects.extend(&objects);
        self.commit_if_much()?;
        Ok(objects.into_iter().map(|(digest, _)| digest).collect())
    }

    /// Reads the outcomes that refer to damaged or missing packs, to write them again. Returns
    /// their keys, and the names of unreadable outcomes.
    fn save_outcomes(
        &self,
        found: &RepairScan,
        contents: &BTreeMap<Digest, Vec<Digest>>,
        salvage: &mut Salvage,
    ) -> Result<BTreeSet<Digest>, RemoteError> {
        let mut keys = BTreeSet::new();
        for name in found.names().filter(|name| is_in(name, layout::RESULTS)) {
            let Some(key) = layout::digest_of(name) else { continue };
            let bytes = self.place.get(name, MOST_BYTES);
            let bytes = bytes.map_err(|refusal| self.give_up(refusal))?;
            if self.unreadable().contains_key(name) {
                continue;
            }
            let Some(outcome) = bytes.and_then(|bytes| Outcome::decode(&bytes, &key)) else {
                keys.insert(key);
                continue;
            };
            let is_damaged = |id: &Digest| {
                if found.indexes.contains_key(id) { found.packs.contains(id) } else { true }
            };
            let is_left = outcome.packs.iter().any(|id| found.unreadable.contains(id));
            // It may lack objects although its packs are intact.
            let is_wrong = found.wrong.contains(name) || outcome.packs.iter().any(is_damaged);
            if is_left || !is_wrong {
                salvage.intact.extend(&outcome.packs);
                salvage.others.push((Table(outcome.table), outcome.value.into()));
                continue;
            }
            keys.insert(key);
            let is_listed = outcome.packs.iter().all(|id| found.indexes.contains_key(id));
            if !is_listed || !outcome.packs.iter().any(is_damaged) {
                salvage.unlisted.insert(key);
            }
            let is_intact = |id: &&Digest| !is_damaged(id);
            salvage.intact.extend(outcome.packs.iter().filter(is_intact));
            let objects = |id: &Digest| match (contents.get(id), found.indexes.get(id)) {
                (Some(objects), _) => Some(objects.clone()),
                (None, Some(index)) => {
                    let small = index.small().map(|place| place.digest);
                    Some(small.chain(index.large().map(|(digest, _)| digest)).collect())
                }
                // Nothing is left of a pack that is missing.
                (None, None) => None,
            };
            let Some(objects) = outcome.packs.iter().map(objects).collect::<Option<Vec<_>>>()
            else {
                continue;
            };
            salvage.outcomes.push(Fresh {
                key,
                name: key.short(),
                table: Table(outcome.table),
                value: outcome.value.into(),
                summary: outcome.summary,
                objects: objects.concat(),
            });
        }
        Ok(keys)
    }
}
