//! The integrity of a remote: everything in it is read, and compared with its digest.

use std::collections::{BTreeMap, HashSet};

use cache::{Digest, FIRST_ENTRY, Hasher, archive_entries};

use crate::archive::PIECE;
use crate::error::Trouble;
use crate::index::{self, PackIndex};
use crate::layout;
use crate::outcome::{self, Outcome};
use crate::place::Listed;
use crate::remote::Remote;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of files that were read.
    pub read: u64,
    pub bytes: u64,
    /// The names of damaged files, each with a reason.
    pub wrong: Vec<(String, String)>,
}

impl Remote {
    /// Reads all files and compares them with their digests. Also finds files that are missing: volumes of
    /// packs, and large objects.
    pub fn verify(&self, progress: &dyn Fn(u64, u64)) -> Result<Verified, Trouble> {
        let all = self.everything()?;
        let total = all.iter().map(|listed| listed.size).sum();
        let mut verified = Verified::default();
        let indexes: BTreeMap<Digest, PackIndex> = self.indexes(&all)?;
        let large: BTreeMap<Digest, u64> = indexes.values().flat_map(PackIndex::large).collect();
        let mut done = 0;
        for Listed { name, size, .. } in &all {
            let wrong = self.look_at(name, *size, &indexes, &large)?;
            verified.read += 1;
            verified.bytes += size;
            verified.wrong.extend(wrong.map(|why| (name.clone(), why)));
            done += size;
            progress(done, total);
        }
        let names: HashSet<&str> = all.iter().map(|listed| listed.name.as_str()).collect();
        let volumes = indexes
            .values()
            .flat_map(|index| index.volumes().map(|(number, _)| layout::volume(&index.id, number)));
        let expected = volumes.chain(large.keys().map(layout::object));
        let odd = self.odd()?;
        let missing = expected.filter(|name| !names.contains(name.as_str()) && !odd.contains(name));
        verified.wrong.extend(missing.map(|name| (name, "it is missing".to_owned())));
        let odd = odd.into_iter().map(|name| {
            let why = format!("it is {}", layout::expected(&name));
            (name, why)
        });
        verified.wrong.extend(odd);
        Ok(verified)
    }

    /// The valid indexes.
    pub(crate) fn indexes(&self, all: &[Listed]) -> Result<BTreeMap<Digest, PackIndex>, Trouble> {
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
        large: &BTreeMap<Digest, u64>,
    ) -> Result<Option<String>, Trouble> {
        let refused = |refusal| self.give_up(refusal);
        let is = |folder: &str| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        if is(layout::CHECKPOINTS) {
            return self.look_at_checkpoint(name);
        }
        if is(layout::OBJECTS) {
            let Some(digest) = layout::digest_of(name) else { return Ok(None) };
            // An object that no pack has may come from a push that is still running.
            let expected = large.get(&digest).copied().unwrap_or(size);
            return self.look_at_object(name, size, (digest, expected));
        }
        if is(layout::RESULTS) {
            let Some(key) = layout::digest_of(name) else { return Ok(None) };
            let found = self.place.get(name, outcome::MOST_BYTES).map_err(refused)?;
            let Some(outcome) = found.and_then(|bytes| Outcome::decode(&bytes, &key)) else {
                return Ok(Some("it is damaged or belongs to another key".to_owned()));
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
            return Ok(Some(format!("it has {size} bytes instead of the {expected} in its index")));
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

    fn look_at_object(
        &self,
        name: &str,
        size: u64,
        (digest, expected): (Digest, u64),
    ) -> Result<Option<String>, Trouble> {
        if size != expected {
            return Ok(Some(format!("it has {size} bytes instead of {expected}")));
        }
        let mut hasher = Hasher::new();
        let mut offset = 0;
        while offset < size {
            let part = self.place.part(name, offset, PIECE.min(size - offset));
            let part = part.map_err(|refusal| self.give_up(refusal))?.unwrap_or_default();
            if part.is_empty() {
                break;
            }
            hasher.update(&part);
            offset += part.len() as u64;
        }
        let is_right = hasher.finish() == digest;
        Ok((!is_right).then(|| "its bytes differ from its digest".to_owned()))
    }
}
