//! Writing to a remote: large objects, packs of small ones with their records, and last the
//! outcomes that refer to them. Only large objects of the wrong length and outcomes of a repair are
//! replaced, so two machines may write at once.

use std::collections::{BTreeSet, HashSet};
use std::sync::PoisonError;

use bytes::Bytes;
use cache::fs::Open;
use cache::{
    ArchivePlaces, Archiving, CacheError, Digest, Hasher, Kept, LOOSE_SIZE, Table, archive_places,
};
use camino::Utf8Path;

use crate::error::RemoteError;
use crate::index::{ObjectLocation, PackIndex};
use crate::known::{self, KnownFiles, Label, record_hash};
use crate::layout;
use crate::outcome::{Fresh, MOST_BYTES, Outcome};
use crate::remote::Remote;

/// The largest volume of a pack: it is read into memory as a whole.
const VOLUME: u64 = 64 << 20;

/// The results of this machine. A push leaves out those that the remote is known to have.
pub struct Push<'a> {
    /// In the order in which they are packed.
    pub objects: Vec<(Digest, u64)>,
    /// Records with their tables, keys and values.
    pub records: Vec<(Table, Digest, Bytes)>,
    /// The outcomes of stages.
    pub outcomes: Vec<Fresh>,
    /// Logs by name.
    pub logs: Vec<(String, Bytes)>,
    /// Called with the bytes that were written, and the bytes to write.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl Push<'_> {
    /// A push without results.
    pub fn nothing() -> Push<'static> {
        let (objects, records, outcomes, logs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Push { objects, records, outcomes, logs, progress: &|_, _| {} }
    }
}

/// The results that a push has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// The number of objects.
    pub objects: u64,
    /// The size of these objects.
    pub bytes: u64,
    /// The number of records.
    pub records: u64,
    /// The number of outcomes.
    pub outcomes: u64,
    /// The number of logs.
    pub logs: u64,
    /// Labels that the remote had lost.
    pub labels: u64,
    /// The names of outcomes that differ from those in the remote.
    pub conflicts: Vec<String>,
    /// The names of outcomes of which the remote has one from before a retry.
    pub retried: Vec<String>,
    /// Damaged objects, which were left out.
    pub damaged: Vec<Digest>,
}

impl PushCounts {
    /// True if nothing was written, and nothing is to be reported.
    pub fn is_nothing(&self) -> bool {
        *self == PushCounts::default()
    }
}

impl Remote {
    /// True if the remote is known to have this record with a value of this meaning.
    ///
    /// # Errors
    ///
    /// If the index of the cache cannot be read.
    pub fn has_record(&self, table: Table, key: &Digest, value: &[u8]) -> Result<bool, CacheError> {
        self.with_known(|known| Ok(self.is_known(known, table, key, value)))
    }

    fn is_known(&self, known: &KnownFiles, table: Table, key: &Digest, value: &[u8]) -> bool {
        let by_meaning = self.hash_of(table, key, value);
        // Programs before this one have remembered the hash of the whole value.
        known.has_record(by_meaning) || known.has_record(record_hash(table, key, value))
    }

    /// A hash of a record with the meaning of its value.
    pub(crate) fn hash_of(&self, table: Table, key: &Digest, value: &[u8]) -> u64 {
        match (self.rules.meaning)(table, value) {
            Some(meaning) => record_hash(table, key, &meaning),
            None => record_hash(table, key, value),
        }
    }

    /// True if the remote is known to have an outcome under this key.
    ///
    /// # Errors
    ///
    /// If the index of the cache cannot be read.
    pub fn has_outcome(&self, key: &Digest) -> Result<bool, CacheError> {
        self.with_known(|known| Ok(known.has_outcome(key)))
    }

    /// Writes everything that the remote is not known to have. If nothing is new, there is no
    /// request.
    ///
    /// # Errors
    ///
    /// If the remote is read-only, does not answer, or refuses a request, or if the cache cannot be read or written. What
    /// was written by then stays, and the next push does the rest.
    pub fn push(&self, push: Push) -> Result<PushCounts, RemoteError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pushed = PushCounts::default();
        self.catches_up()?;
        if !self.has_new(&push)? {
            return Ok(pushed);
        }
        if !self.is_writable() {
            return Err(self.refused("it is read-only"));
        }
        self.begin()?;
        // An outcome must not refer to what somebody has removed meanwhile.
        self.look_for_packs(push.outcomes.iter().flat_map(|outcome| &outcome.objects))?;
        self.learn_of(&push.outcomes)?;
        let Push { objects, records, outcomes, logs, progress } = push;
        let objects = self.new_objects(&objects)?;
        let mut fresh = Vec::new();
        for (table, key, value) in records {
            if !self.has_record(table, &key, &value)? {
                fresh.push((table, key, self.hash_of(table, &key, &value)));
            }
        }
        let mut logs_left = Vec::new();
        for (name, bytes) in logs {
            if layout::is_log(&name) && !self.has_outcome(&log_key(&name))? {
                logs_left.push((name, bytes));
            }
        }
        let (large, small): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|(_, size)| *size >= LOOSE_SIZE);
        let mut large = self.push_large(large, &mut pushed)?;
        let kept: Vec<(Digest, u64)> = self.state().repair.large.clone().into_iter().collect();
        let is_new = self.new_objects(&kept)?.into_iter().filter(|new| !large.contains(new));
        let kept: Vec<(Digest, u64)> = is_new.collect();
        large.extend(kept);
        if !small.is_empty() || !large.is_empty() || !fresh.is_empty() {
            let small: HashSet<Digest> = small.into_iter().map(|(digest, _)| digest).collect();
            self.push_pack(&small, large, fresh, progress, &mut pushed)?;
        }
        let labels = self.missing_labels()?;
        pushed.labels = labels.len() as u64;
        self.push_labels(labels)?;
        for read in self.each(&outcomes, |outcome| self.push_outcome(outcome)) {
            match read? {
                OutcomeWrite::New => pushed.outcomes += 1,
                OutcomeWrite::Same => {}
                OutcomeWrite::Conflict(name) => pushed.conflicts.push(name),
                OutcomeWrite::Retried(name) => pushed.retried.push(name),
            }
        }
        for (name, bytes) in logs_left {
            pushed.logs += u64::from(self.write(&layout::log(&name), bytes)?);
            let key = log_key(&name);
            self.with_known(|known| known.keep_outcome(&self.cache, &self.url, &key))?;
        }
        self.cache.commit()?;
        Ok(pushed)
    }

    /// Makes known what the remote has of results that this process has not asked for: those of another
    /// machine, or of another remote that was copied. Nothing of them is written again.
    fn learn_of(&self, outcomes: &[Fresh]) -> Result<(), RemoteError> {
        let unasked: Vec<&Fresh> =
            outcomes.iter().filter(|fresh| self.is_first_question(&fresh.key)).collect();
        let mut packs = BTreeSet::new();
        for found in self.each(&unasked, |fresh| self.read_outcome(&fresh.key)) {
            packs.extend(found?.into_iter().flat_map(|outcome| outcome.packs));
        }
        self.learn(&packs.into_iter().collect::<Vec<_>>())?;
        // The outcomes of their items.
        let scopes = self.state().scopes.clone();
        scopes.iter().try_for_each(|scope| self.scope(scope).map(drop))
    }

    pub(crate) fn read_outcome(&self, key: &Digest) -> Result<Option<Outcome>, RemoteError> {
        let found = self.place.get(&layout::result(key), MOST_BYTES);
        let found = found.map_err(|refusal| self.give_up(refusal))?;
        Ok(found.and_then(|bytes| Outcome::decode(&bytes, key)))
    }

    /// Writes one outcome with objects that the remote has. False if its key has one already.
    ///
    /// # Errors
    ///
    /// If the remote cannot be reached, refuses a request, or does not answer in time. If the remote is read-only.
    pub fn publish(&self, fresh: &Fresh) -> Result<bool, RemoteError> {
        self.begin()?;
        Ok(matches!(self.push_outcome(fresh)?, OutcomeWrite::New))
    }

    /// Tests if there is anything that the remote is not known to have: asks nothing.
    ///
    /// # Errors
    ///
    /// If the index of the cache cannot be read.
    pub fn has_new(&self, push: &Push) -> Result<bool, CacheError> {
        if !push.outcomes.is_empty()
            || !self.new_objects(&push.objects)?.is_empty()
            || !self.missing_labels()?.is_empty()
        {
            return Ok(true);
        }
        self.with_known(|known| {
            let has = |(table, key, value): &(Table, Digest, Bytes)| {
                self.is_known(known, *table, key, value)
            };
            let is_there = |name: &str| !layout::is_log(name) || known.has_outcome(&log_key(name));
            Ok(!push.records.iter().all(has) || !push.logs.iter().all(|(name, _)| is_there(name)))
        })
    }

    /// Selects the objects that the remote is not known to have, and large ones that it was found
    /// to lack although a pack names them.
    fn new_objects(&self, objects: &[(Digest, u64)]) -> Result<Vec<(Digest, u64)>, CacheError> {
        let is_known: Vec<Option<ObjectLocation>> = self.with_known(|known| {
            Ok(objects.iter().map(|(digest, _)| Some(known.find(digest)?.1)).collect())
        })?;
        let state = self.state();
        let is_listed = |object: &(Digest, u64)| {
            state.large.as_ref().is_none_or(|large| large.contains(object))
        };
        let is_new = |(object, found): &(&(Digest, u64), Option<ObjectLocation>)| match found {
            None => true,
            Some(ObjectLocation::Large { .. }) => {
                state.wrong.contains(&object.0) || !is_listed(object)
            }
            Some(ObjectLocation::Small(_)) => false,
        };
        let new = objects.iter().zip(is_known).filter(is_new);
        Ok(new.map(|(object, _)| *object).collect())
    }

    pub(crate) fn write(&self, name: &str, bytes: Bytes) -> Result<bool, RemoteError> {
        self.place.put(name, bytes).map_err(|refusal| self.give_up(refusal))
    }

    /// Turns an empty place into a remote.
    pub(crate) fn begin(&self) -> Result<(), RemoteError> {
        if self.is_begun()? {
            return Ok(());
        }
        let is_listed = self.state().is_listed;
        if !is_listed && self.place.place().can_list() {
            self.everything()?;
        }
        if !self.is_usable() {
            return Err(self.refused("it does not answer or is not a remote"));
        }
        self.write(layout::MARK, layout::FORMAT.into())?;
        self.set_begun();
        Ok(())
    }

    /// Large objects are files of their own; returns those that are there now.
    fn push_large(
        &self,
        large: Vec<(Digest, u64)>,
        pushed: &mut PushCounts,
    ) -> Result<Vec<(Digest, u64)>, RemoteError> {
        let mut there = Vec::new();
        for (digest, size) in large {
            let Some(file) = self.cache.file_of(&digest)? else { continue };
            if !self.is_intact(&file, &digest)? {
                pushed.damaged.push(digest);
                continue;
            }
            let name = layout::object(&digest);
            let refused = |refusal| self.give_up(refusal);
            let found = self.place.size(&name).map_err(refused)?;
            if found.is_some_and(|found| found != size) {
                self.tell_wrong(&name, "it has the wrong size; it is written again");
                self.place.remove(&name).map_err(refused)?;
            }
            if found != Some(size) {
                self.place.put_file(&name, &file, size).map_err(refused)?;
                pushed.objects += 1;
                pushed.bytes += size;
                let mut state = self.state();
                state.wrong.remove(&digest);
                if let Some(large) = &mut state.large {
                    large.insert((digest, size));
                }
            }
            there.push((digest, size));
        }
        Ok(there)
    }

    fn is_intact(&self, path: &Utf8Path, digest: &Digest) -> Result<bool, CacheError> {
        let file = match self.cache.fs().open(path, Open::Read) {
            Err(error) if error.is_not_found() => return Ok(false),
            other => other?,
        };
        let (mut hasher, mut buffer, mut offset) = (Hasher::new(), vec![0; 1 << 20], 0);
        loop {
            let count = file.read_at(&mut buffer, offset)?;
            if count == 0 {
                return Ok(hasher.finish() == *digest);
            }
            hasher.update(&buffer[..count]);
            offset += count as u64;
        }
    }

    fn push_pack(
        &self,
        small: &HashSet<Digest>,
        large: Vec<(Digest, u64)>,
        records: Vec<(Table, Digest, u64)>,
        progress: &(dyn Fn(u64, u64) + Sync),
        pushed: &mut PushCounts,
    ) -> Result<(), RemoteError> {
        let kept: HashSet<(Table, Digest)> =
            records.iter().map(|(table, key, _)| (*table, *key)).collect();
        let staging = self.cache.staging()?;
        let folder = staging.path().join("pack");
        let mut places = ArchivePlaces {
            id: pack_id(&large, self.cache.fs().now()),
            volumes: Vec::new(),
            objects: Vec::new(),
            first_record: None,
        };
        if !small.is_empty() || !kept.is_empty() {
            let what = Kept {
                object: &|digest| small.contains(digest),
                record: &|table, key| kept.contains(&(table, *key)),
            };
            let (bases, volume_bytes) = (&[], VOLUME);
            let how = Archiving { folder: &folder, bases, volume_bytes, progress: &|_, _| {} };
            let archived = self.cache.archive(&what, &how)?;
            pushed.objects += archived.objects;
            pushed.records += archived.records;
            pushed.damaged.extend(archived.damaged);
            places = archive_places(&**self.cache.home(), &folder)?;
        }
        let index = PackIndex::new(&places, large)
            .ok_or_else(|| self.refused("too many objects for one pack"))?;
        pushed.bytes += self.push_volumes(&index, &folder, progress)?;
        if !places.volumes.is_empty() {
            let archive =
                self.cache.home().read(&folder.join("ARCHIVE")).map_err(CacheError::from)?;
            self.write(&layout::archive(&index.id), archive.into())?;
        }
        // Last, since it makes the volumes a pack.
        self.write(&layout::index(&index.id), index.bytes().clone())?;
        // Labels lead to records: a pack without any needs none.
        let scopes: Vec<Digest> = if records.is_empty() {
            Vec::new()
        } else {
            self.state().scopes.iter().copied().collect()
        };
        let id = index.id;
        self.push_labels(scopes.into_iter().map(|scope| (scope, id)).collect())?;
        self.state().checked.insert(id);
        let hashes = records.into_iter().map(|(_, _, hash)| hash).collect();
        self.with_known(|known| known.keep_pack(&self.cache, &self.url, index, hashes))?;
        Ok(())
    }

    fn push_labels(&self, labels: Vec<Label>) -> Result<(), RemoteError> {
        let write = |(scope, pack): &Label| self.write(&layout::known(scope, pack), Bytes::new());
        let written = self.each(&labels, write);
        written.into_iter().collect::<Result<Vec<bool>, RemoteError>>()?;
        if let Some(there) = &mut self.state().labels {
            there.extend(&labels);
        }
        self.with_known(|known| {
            let keep = |label| known.keep_label(&self.cache, &self.url, label);
            labels.into_iter().try_for_each(keep)
        })?;
        Ok(())
    }

    /// Returns the bytes of all volumes.
    fn push_volumes(
        &self,
        index: &PackIndex,
        folder: &Utf8Path,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<u64, RemoteError> {
        let total: u64 = index.volumes().map(|(_, size)| size).sum();
        let mut done = 0;
        for (number, size) in index.volumes() {
            let path = folder.join(cache::volume_name(number));
            let bytes = self.cache.home().read(&path).map_err(CacheError::from)?;
            self.write(&layout::volume(&index.id, number), bytes.into())?;
            done += size;
            progress(done, total);
        }
        Ok(total)
    }

    fn push_outcome(&self, fresh: &Fresh) -> Result<OutcomeWrite, RemoteError> {
        let packs: BTreeSet<Digest> = self.with_known(|known| {
            let found = fresh.objects.iter().filter_map(|digest| known.find(digest));
            Ok(found.map(|(pack, _)| pack).collect())
        })?;
        let outcome = Outcome {
            key: fresh.key,
            table: fresh.table.0,
            summary: fresh.summary,
            packs: packs.into_iter().collect(),
            value: fresh.value.to_vec(),
        };
        let name = layout::result(&fresh.key);
        let is_replaced = self.state().repair.outcomes.contains(&fresh.key);
        let written = if is_replaced {
            let replaced = self.place.replace(&name, outcome.encode());
            replaced.map_err(|refusal| self.give_up(refusal))?;
            let mut state = self.state();
            state.repair.outcomes.remove(&fresh.key);
            state.repair.replaced.insert(name);
            OutcomeWrite::New
        } else if self.write(&name, outcome.encode())? {
            OutcomeWrite::New
        } else {
            self.compare(fresh, &name)?
        };
        if !matches!(written, OutcomeWrite::Conflict(_)) {
            self.with_known(|known| known.keep_outcome(&self.cache, &self.url, &fresh.key))?;
        }
        Ok(written)
    }

    /// The first outcome under a key stays.
    fn compare(&self, fresh: &Fresh, name: &str) -> Result<OutcomeWrite, RemoteError> {
        match self.read_outcome(&fresh.key)? {
            Some(first) if first.summary == fresh.summary => Ok(OutcomeWrite::Same),
            Some(_) if known::is_ignored(&self.cache, fresh.table, &fresh.key)? => {
                Ok(OutcomeWrite::Retried(fresh.name.clone()))
            }
            Some(_) => Ok(OutcomeWrite::Conflict(fresh.name.clone())),
            None => {
                self.tell_wrong(name, "it is damaged or belongs to another key");
                Ok(OutcomeWrite::Same)
            }
        }
    }
}

enum OutcomeWrite {
    New,
    Same,
    Conflict(String),
    /// The remote has the outcome from before a retry.
    Retried(String),
}

/// The key of a log among the known contents of the remote.
pub(crate) fn log_key(name: &str) -> Digest {
    Digest::of(&[b"log ", name.as_bytes()].concat())
}

fn pack_id(large: &[(Digest, u64)], now: i64) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(&now.to_le_bytes());
    large.iter().for_each(|(digest, _)| {
        hasher.update(digest.as_bytes());
    });
    hasher.finish()
}
