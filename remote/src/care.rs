//! Maintenance of a remote: its size, its integrity, and its unused files.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cache::{Digest, FIRST_ENTRY, Hasher, archive_entries};

use crate::archive::PIECE;
use crate::index::{self, PackIndex};
use crate::layout;
use crate::outcome::{self, Outcome};
use crate::place::Listed;
use crate::remote::Remote;
use crate::trouble::Trouble;

/// The numbers and sizes of files in a remote, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub packs: u64,
    pub pack_bytes: u64,
    pub objects: u64,
    pub object_bytes: u64,
    pub outcomes: u64,
    pub logs: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of files that were read.
    pub read: u64,
    pub bytes: u64,
    /// The names of damaged files, each with a reason.
    pub wrong: Vec<(String, String)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// The names of unused files.
    pub unused: Vec<String>,
    pub bytes: u64,
}

/// Younger files may belong to a push that is still running.
const GRACE: i64 = 24 * 3_600;

impl Remote {
    /// All files of the remote; none if it has not begun. Another folder is refused: its files are
    /// not ours.
    pub(crate) fn everything(&self) -> Result<Vec<Listed>, Trouble> {
        if !self.place.place().can_list() {
            return Err(self.refused("it cannot list what it has"));
        }
        let all = self.place.list("").map_err(|refusal| self.give_up(refusal))?;
        let is_file_of_others = |listed: &Listed| !layout::is_unfinished(&listed.name);
        if !self.is_begun()?
            && !all.iter().any(|listed| listed.name == layout::MARK)
            && all.iter().any(is_file_of_others)
        {
            let why = format!("it has files but no `{}`, so it is not a remote", layout::MARK);
            return Err(self.refused(&why));
        }
        Ok(all)
    }

    pub fn figures(&self) -> Result<Figures, Trouble> {
        let mut figures = Figures::default();
        let mut packs = HashSet::new();
        for Listed { name, size, .. } in self.everything()? {
            figures.bytes += size;
            let (folder, _) = name.split_once('/').unwrap_or_default();
            match folder {
                layout::PACKS => {
                    packs.extend(layout::pack_of(&name));
                    figures.pack_bytes += size;
                }
                layout::OBJECTS => {
                    figures.objects += 1;
                    figures.object_bytes += size;
                }
                layout::RESULTS => figures.outcomes += 1,
                layout::LOGS => figures.logs += 1,
                _ => {}
            }
        }
        figures.packs = packs.len() as u64;
        Ok(figures)
    }

    /// The names and contents of logs of runs.
    pub fn logs(&self) -> Result<Vec<Listed>, Trouble> {
        let mut logs = self.everything()?;
        logs.retain(|log| log.name.split('/').next() == Some(layout::LOGS));
        logs.iter_mut().for_each(|log| {
            log.name = log.name.rsplit('/').next().unwrap_or_default().to_owned();
        });
        logs.retain(|log| layout::is_log(&log.name));
        Ok(logs)
    }

    pub fn log(&self, name: &str) -> Result<Option<bytes::Bytes>, Trouble> {
        const MOST: u64 = 1 << 30;
        match layout::is_log(name) {
            true => {
                let found = self.place.get(&layout::log(name), MOST);
                found.map_err(|refusal| self.give_up(refusal))
            }
            false => Ok(None),
        }
    }

    /// Reads all files and compares them with their digests.
    pub fn verify(&self, progress: &dyn Fn(u64, u64)) -> Result<Verified, Trouble> {
        let all = self.everything()?;
        let total = all.iter().map(|listed| listed.size).sum();
        let mut verified = Verified::default();
        let indexes: BTreeMap<Digest, PackIndex> = self.indexes(&all)?;
        for Listed { name, size, .. } in &all {
            let wrong = self.look_at(name, *size, &indexes)?;
            verified.read += 1;
            verified.bytes += size;
            verified.wrong.extend(wrong.map(|why| (name.clone(), why)));
            progress(verified.bytes, total);
        }
        Ok(verified)
    }

    /// The valid indexes.
    fn indexes(&self, all: &[Listed]) -> Result<BTreeMap<Digest, PackIndex>, Trouble> {
        let mut indexes = BTreeMap::new();
        for id in all.iter().filter_map(|listed| layout::pack_of(&listed.name)) {
            if indexes.contains_key(&id) {
                continue;
            }
            let found = self.place.get(&layout::index(&id), index::MOST_BYTES);
            let found = found.map_err(|refusal| self.give_up(refusal))?;
            let index = found.and_then(PackIndex::decode).filter(|index| index.id == id);
            indexes.extend(index.map(|index| (id, index)));
        }
        Ok(indexes)
    }

    /// The reason why something is wrong.
    fn look_at(
        &self,
        name: &str,
        size: u64,
        indexes: &BTreeMap<Digest, PackIndex>,
    ) -> Result<Option<String>, Trouble> {
        let refused = |refusal| self.give_up(refusal);
        let is = |folder: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        if is(layout::OBJECTS) {
            let Some(digest) = layout::digest_of(name) else { return Ok(None) };
            let mut hasher = Hasher::new();
            let mut offset = 0;
            while offset < size {
                let part = self.place.part(name, offset, PIECE).map_err(refused)?;
                let part = part.unwrap_or_default();
                if part.is_empty() {
                    break;
                }
                hasher.update(&part);
                offset += part.len() as u64;
            }
            let is_right = hasher.finish() == digest;
            return Ok((!is_right).then(|| "its bytes differ from its digest".to_owned()));
        }
        if is(layout::RESULTS) {
            let Some(key) = layout::digest_of(name) else { return Ok(None) };
            let found = self.place.get(name, outcome::MOST_BYTES).map_err(refused)?;
            let Some(outcome) = found.and_then(|bytes| Outcome::decode(&bytes, &key)) else {
                return Ok(Some("it is damaged, or of another key".to_owned()));
            };
            let lacks = outcome.packs.iter().find(|id| !indexes.contains_key(id));
            return Ok(lacks.map(|id| format!("pack {} is missing or damaged", id.short())));
        }
        if is(layout::PACKS) && name.ends_with("/INDEX") {
            let known = layout::pack_of(name).is_some_and(|id| indexes.contains_key(&id));
            return Ok((!known).then(|| "it is damaged".to_owned()));
        }
        match layout::pack_of(name).and_then(|id| indexes.get(&id)) {
            Some(index) => self.look_at_volume(name, size, index),
            None => Ok(None),
        }
    }

    fn look_at_volume(
        &self,
        name: &str,
        size: u64,
        index: &PackIndex,
    ) -> Result<Option<String>, Trouble> {
        let volume = index.volumes().find(|(number, _)| layout::volume(&index.id, *number) == name);
        let Some((number, expected)) = volume else { return Ok(None) };
        if size != expected {
            return Ok(Some(format!("it has {size} bytes, its index says {expected}")));
        }
        let Some(bytes) =
            self.whole_part(&index.id, number, FIRST_ENTRY, expected.saturating_sub(FIRST_ENTRY))?
        else {
            return Ok(Some("it cannot be read".to_owned()));
        };
        let (entries, is_whole) = archive_entries(number, FIRST_ENTRY, &bytes);
        let objects: HashSet<Digest> = entries
            .iter()
            .filter_map(|entry| match entry {
                cache::ArchiveEntry::Object { digest, .. } => Some(*digest),
                cache::ArchiveEntry::Record { .. } => None,
            })
            .collect();
        let lacks =
            index.small().any(|place| place.volume == number && !objects.contains(&place.digest));
        Ok((!is_whole || lacks).then(|| "an entry in it is damaged".to_owned()))
    }

    /// Finds unused files: leftovers of interrupted pushes, and, with an age in seconds, older
    /// outcomes and logs with the packs and objects that only those outcomes need.
    pub fn garbage(&self, older_than: Option<i64>) -> Result<Collected, Trouble> {
        let now = self.cache.fs().now() / 1_000_000_000;
        let all = self.everything()?;
        let indexes = self.indexes(&all)?;
        let is_old = |listed: &Listed| older_than.is_some_and(|age| listed.modified < now - age);
        let mut unused: BTreeSet<&str> = BTreeSet::new();
        let mut used_packs = HashSet::new();
        for listed in &all {
            let is = |folder: &str| {
                listed.name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
            };
            let key = is(layout::RESULTS).then(|| layout::digest_of(&listed.name)).flatten();
            let last = listed.name.rsplit('/').next().unwrap_or_default();
            let is_log = is(layout::LOGS) && layout::is_log(last);
            if (key.is_some() || is_log) && is_old(listed) {
                unused.insert(&listed.name);
            } else if let Some(key) = key {
                let found = self.place.get(&listed.name, outcome::MOST_BYTES);
                let found = found.map_err(|refusal| self.give_up(refusal))?;
                let outcome = found.and_then(|bytes| Outcome::decode(&bytes, &key));
                used_packs.extend(outcome.into_iter().flat_map(|outcome| outcome.packs));
            }
        }
        // A pack without outcomes may still have outcomes of single items.
        let newest: BTreeMap<Digest, i64> =
            all.iter().fold(BTreeMap::new(), |mut newest, listed| {
                if let Some(id) = layout::pack_of(&listed.name) {
                    let age: &mut i64 = newest.entry(id).or_default();
                    *age = (*age).max(listed.modified);
                }
                newest
            });
        let is_kept = |id: &Digest| {
            let written = newest.get(id).copied().unwrap_or(0);
            match indexes.contains_key(id) {
                false => written > now - GRACE,
                true => {
                    used_packs.contains(id) || older_than.is_none_or(|age| written >= now - age)
                }
            }
        };
        let live: HashSet<Digest> = indexes
            .iter()
            .filter(|(id, _)| is_kept(id))
            .flat_map(|(_, index)| index.large().map(|(digest, _)| digest))
            .collect();
        for listed in &all {
            let name = listed.name.as_str();
            let folder = name.split('/').next().unwrap_or_default();
            let is_young = listed.modified > now - GRACE;
            let is_used = match folder {
                layout::PACKS => layout::pack_of(name).is_none_or(|id| is_kept(&id)),
                layout::KNOWN => layout::digest_of(name).is_none_or(|id| is_kept(&id)),
                layout::OBJECTS => {
                    is_young || layout::digest_of(name).is_none_or(|id| live.contains(&id))
                }
                _ => true,
            };
            if !is_used || (layout::is_unfinished(name) && !is_young) {
                unused.insert(name);
            }
        }
        let bytes = all.iter().filter(|listed| unused.contains(listed.name.as_str()));
        let bytes = bytes.map(|listed| listed.size).sum();
        // Outcomes are removed first, and an index before its volumes: so nothing refers to a
        // removed file.
        let rank = |name: &str| match name.split('/').next().unwrap_or_default() {
            layout::RESULTS => 0,
            layout::KNOWN => 1,
            layout::PACKS if name.ends_with("/INDEX") => 2,
            _ => 3,
        };
        let mut unused: Vec<String> = unused.into_iter().map(str::to_owned).collect();
        unused.sort_by_key(|name| rank(name));
        Ok(Collected { unused, bytes })
    }

    pub fn remove(&self, collected: &Collected) -> Result<(), Trouble> {
        for name in &collected.unused {
            self.place.remove(name).map_err(|refusal| self.give_up(refusal))?;
        }
        Ok(())
    }
}
