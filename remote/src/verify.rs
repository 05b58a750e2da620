//! The integrity of a remote: everything in it is read, and compared with its digest.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cache::{
    ArchiveEntry, Digest, FIRST_ENTRY, Hasher, MOST_ARCHIVE_BYTES, VOLUME_MARK, archive_entries,
    archive_volumes,
};

use crate::archive::PIECE;
use crate::error::RemoteError;
use crate::index::{self, PackIndex};
use crate::known::Label;
use crate::layout;
use crate::outcome::{self, Outcome};
use crate::remote::Remote;
use crate::storage::ListedFile;

/// The longest log that is read.
const MOST_LOG: u64 = 1 << 30;

/// The files of a remote, for comparing them with each other.
struct Files<'a> {
    names: HashSet<&'a str>,
    /// Those that are valid.
    indexes: &'a BTreeMap<Digest, PackIndex>,
    /// The sizes of large objects, from the indexes.
    large: &'a BTreeMap<Digest, u64>,
}

/// The result of reading a whole remote.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// The number of files that were read.
    pub read: u64,
    /// The bytes that were read.
    pub bytes: u64,
    /// The names of damaged files, each with a reason.
    pub wrong: Vec<(String, String)>,
    /// The names among them that cannot be read, and may be intact.
    pub(crate) unreadable: BTreeSet<String>,
    /// The names of the files that were read and are right.
    right: HashSet<String>,
    /// The valid indexes of packs.
    pub(crate) indexes: BTreeMap<Digest, PackIndex>,
}

impl VerifyReport {
    pub(crate) fn right(&self) -> impl Iterator<Item = &str> {
        self.right.iter().map(String::as_str)
    }

    /// Adds an outcome that is intact and of no use, with the reason.
    pub fn add_outcome(&mut self, key: &Digest, why: String) {
        let name = layout::result(key);
        self.right.remove(&name);
        self.wrong.push((name, why));
    }
}

impl Remote {
    /// Reads all files and compares them with their digests and with each other. Also finds files that are
    /// missing: the files of packs, and large objects.
    ///
    /// # Errors
    ///
    /// If the remote cannot list its files or does not answer, or if it is a folder of other files.
    pub fn verify(&self, progress: &dyn Fn(u64, u64)) -> Result<VerifyReport, RemoteError> {
        self.verify_rest(&HashSet::new(), progress)
    }

    /// The same after a repair that has removed some files: those that were right before and were kept are
    /// not read again.
    ///
    /// # Errors
    ///
    /// If the remote cannot list its files or does not answer, or if it is a folder of other files.
    pub fn verify_again(
        &self,
        before: &VerifyReport,
        removed: &[String],
    ) -> Result<VerifyReport, RemoteError> {
        let removed: HashSet<&String> = removed.iter().collect();
        let replaced = self.state().repair.replaced.clone();
        let is_kept = |name: &&String| !removed.contains(name) && !replaced.contains(*name);
        let right = before.right.iter().filter(is_kept);
        self.verify_rest(&right.map(String::as_str).collect(), &|_, _| {})
    }

    fn verify_rest(
        &self,
        right: &HashSet<&str>,
        progress: &dyn Fn(u64, u64),
    ) -> Result<VerifyReport, RemoteError> {
        let all = self.everything()?;
        let total = all.iter().map(|listed| listed.size).sum();
        let mut verified = VerifyReport::default();
        let indexes: BTreeMap<Digest, PackIndex> = self.indexes(&all)?;
        let large: BTreeMap<Digest, u64> = indexes.values().flat_map(PackIndex::large).collect();
        let names = all.iter().map(|listed| listed.name.as_str()).collect();
        let files = Files { names, indexes: &indexes, large: &large };
        let mut done = 0;
        for ListedFile { name, size, .. } in &all {
            done += size;
            if right.contains(name.as_str()) {
                continue;
            }
            verified.read += 1;
            verified.bytes += size;
            match self.look_at(name, *size, &files)? {
                Some(why) => verified.wrong.push((name.clone(), why)),
                None => _ = verified.right.insert(name.clone()),
            }
            progress(done, total);
        }
        let volumes = indexes
            .values()
            .flat_map(|index| index.volumes().map(|(number, _)| layout::volume(&index.id, number)));
        let packed = indexes.values().filter(|index| index.volumes().next().is_some());
        let archives = packed.map(|index| layout::archive(&index.id));
        let has_pack = |(_, pack): &Label| indexes.contains_key(pack);
        let labels: Vec<Label> =
            self.with_known(|known| Ok(known.labels().copied().filter(has_pack).collect()))?;
        let labels = labels.iter().map(|(scope, pack)| layout::known(scope, pack));
        let large = large.keys().map(layout::object);
        let expected = volumes.chain(archives).chain(large).chain(labels);
        let odd = self.odd()?;
        let missing =
            expected.filter(|name| !files.names.contains(name.as_str()) && !odd.contains(name));
        verified.wrong.extend(missing.map(|name| (name, "it is missing".to_owned())));
        let odd = odd.into_iter().map(|name| {
            let why = format!("it is {}", layout::expected(&name));
            (name, why)
        });
        verified.wrong.extend(odd);
        for pack in self.without_labels(&indexes)? {
            let why = "no label leads to the records of this pack".to_owned();
            verified.wrong.push((layout::any_label(&pack), why));
        }
        self.name_unreadable(&mut verified);
        verified.indexes = indexes;
        Ok(verified)
    }

    /// Gives unreadable files and folders their reason, instead of one that follows from it.
    fn name_unreadable(&self, verified: &mut VerifyReport) {
        let unreadable = self.unreadable();
        let is_below = |name: &str| unreadable.keys().any(|folder| layout::is_in(name, folder));
        verified.wrong.retain(|(name, _)| !unreadable.contains_key(name) && !is_below(name));
        verified.right.retain(|name| !unreadable.contains_key(name));
        verified.unreadable = unreadable.keys().cloned().collect();
        verified.wrong.extend(unreadable);
    }

    /// The packs with records that nobody finds. A label that this machine has never seen is missed
    /// only in this way.
    fn without_labels(
        &self,
        indexes: &BTreeMap<Digest, PackIndex>,
    ) -> Result<Vec<Digest>, RemoteError> {
        if !self.place.place().can_list() {
            return Ok(Vec::new());
        }
        // Listed only now: a push may have written labels meanwhile.
        let listed = self.place.list(layout::KNOWN).map_err(|refusal| self.give_up(refusal))?;
        let mut labelled: HashSet<Digest> =
            listed.iter().filter_map(|listed| layout::digest_of(&listed.name)).collect();
        // A missing one is named.
        self.with_known(|known| {
            labelled.extend(known.labels().map(|(_, pack)| *pack));
            Ok(())
        })?;
        let mut without = Vec::new();
        for index in indexes.values().filter(|index| !labelled.contains(&index.id)) {
            if self.has_scoped(index)? {
                without.push(index.id);
            }
        }
        Ok(without)
    }

    fn has_scoped(&self, index: &PackIndex) -> Result<bool, RemoteError> {
        for (volume, offset, length) in index.record_parts() {
            let Some(part) = self.whole_part(&index.id, volume, offset, length)? else { continue };
            let (entries, _) = archive_entries(volume, offset, &part);
            let is_scoped = |entry: &ArchiveEntry| match entry {
                ArchiveEntry::Record { table, .. } => (self.rules.is_scoped)(*table),
                ArchiveEntry::Object { .. } => false,
            };
            if entries.iter().any(is_scoped) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The valid indexes.
    pub(crate) fn indexes(
        &self,
        all: &[ListedFile],
    ) -> Result<BTreeMap<Digest, PackIndex>, RemoteError> {
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
    fn look_at(&self, name: &str, size: u64, files: &Files) -> Result<Option<String>, RemoteError> {
        let Files { indexes, large, .. } = files;
        let refused = |refusal| self.give_up(refusal);
        let is = |folder: &str| layout::is_in(name, folder);
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
        if is(layout::KNOWN) {
            return Ok(label(name, size, files));
        }
        if is(layout::LOGS) {
            return self.look_at_log(name);
        }
        match layout::pack_of(name).and_then(|id| indexes.get(&id)) {
            Some(index) if layout::archive(&index.id) == name => self.look_at_archive(name, index),
            Some(index) => self.look_at_volume(name, size, index),
            None => Ok(None),
        }
    }

    fn look_at_volume(
        &self,
        name: &str,
        size: u64,
        index: &PackIndex,
    ) -> Result<Option<String>, RemoteError> {
        let volume = index.volumes().find(|(number, _)| layout::volume(&index.id, *number) == name);
        let Some((number, expected)) = volume else { return Ok(None) };
        if size != expected {
            return Ok(Some(format!("it has {size} bytes instead of the {expected} in its index")));
        }
        let Some(bytes) = self.whole_part(&index.id, number, 0, expected)? else {
            return Ok(Some("it cannot be read".to_owned()));
        };
        if !bytes.starts_with(VOLUME_MARK) {
            return Ok(Some("its first bytes are damaged".to_owned()));
        }
        let entries = bytes.slice(VOLUME_MARK.len()..);
        let (entries, is_whole) = archive_entries(number, FIRST_ENTRY, &entries);
        let objects: HashSet<Digest> = entries
            .iter()
            .filter_map(|entry| match entry {
                ArchiveEntry::Object { digest, .. } => Some(*digest),
                ArchiveEntry::Record { .. } => None,
            })
            .collect();
        let lacks =
            index.small().any(|place| place.volume == number && !objects.contains(&place.digest));
        Ok((!is_whole || lacks).then(|| "an entry in it is damaged".to_owned()))
    }

    /// The file that `unpack-cache` reads.
    fn look_at_archive(
        &self,
        name: &str,
        index: &PackIndex,
    ) -> Result<Option<String>, RemoteError> {
        let found = self.place.get(name, MOST_ARCHIVE_BYTES);
        let found = found.map_err(|refusal| self.give_up(refusal))?;
        let archive = found.and_then(|bytes| archive_volumes(&bytes));
        let volumes = index.volumes().map(|(_, size)| size).collect();
        let is_right = archive == Some((index.id, volumes));
        Ok((!is_right).then(|| "it is damaged, or of another pack".to_owned()))
    }

    /// The names of most logs end with the digest of their contents.
    fn look_at_log(&self, name: &str) -> Result<Option<String>, RemoteError> {
        let last = name.rsplit('/').next().unwrap_or_default();
        let Some(stem) = last.strip_suffix(".jsonl").filter(|_| layout::is_log(last)) else {
            return Ok(None);
        };
        let found = self.place.get(name, MOST_LOG).map_err(|refusal| self.give_up(refusal))?;
        let bytes = found.unwrap_or_default();
        let is_event = |line: &[u8]| line.starts_with(b"{") && line.ends_with(b"}");
        let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        if std::str::from_utf8(&bytes).is_err() || !lines.all(is_event) {
            return Ok(Some("a line in it is no event".to_owned()));
        }
        let said = stem.rsplit('-').next().unwrap_or_default();
        let digest = Digest::of(&bytes).short();
        let is_digest = said.len() == digest.len() && said.bytes().all(|b| b.is_ascii_hexdigit());
        let is_right = !is_digest || said == digest;
        Ok((!is_right).then(|| "its bytes differ from its digest".to_owned()))
    }

    fn look_at_object(
        &self,
        name: &str,
        size: u64,
        (digest, expected): (Digest, u64),
    ) -> Result<Option<String>, RemoteError> {
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

/// The reason why a label is wrong: it is an empty file that names a pack.
fn label(name: &str, size: u64, files: &Files) -> Option<String> {
    let (_, pack) = layout::label_of(name)?;
    let has_pack = files.names.contains(layout::index(&pack).as_str());
    match (size, has_pack) {
        (0, true) => None,
        (0, false) => Some(format!("pack {} is missing", pack.short())),
        _ => Some("it is not empty".to_owned()),
    }
}
