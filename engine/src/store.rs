//! Reads and stores objects for the engine: the cache first, then the user's own files.

mod sources;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::event::Event;
use crate::record::{ITEM, ItemRecord, PortValue, STAGE, StageRecord, decode};
use crate::unchanged::ScannedFile;
use bytes::Bytes;
use cache::fs::Open;
use cache::stat::{Section, StatEntry, StatIndex, What};
use cache::{Cache, CacheError, Digest};
use camino::{Utf8Path, Utf8PathBuf};
use remote::{Remote, RemoteError};
use stage_core::{
    Blob, Chunk, Dataset, Item, NewValue, StageError, Value, bucket_of, with_parents,
};

use sources::Sources;

/// A task whose small objects have this size together makes them durable itself. The run does so
/// from 16 MB on, but only between tasks.
pub const MOST_PENDING: u64 = 64 << 20;

/// A cheap handle; clones share everything.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    cache: Cache,
    base: Utf8PathBuf,
    /// Objects of a plan on a read-only cache.
    memory: Mutex<HashMap<Digest, Bytes>>,
    /// The stages with a message about missing objects.
    told: Mutex<BTreeSet<String>>,
    index: Arc<StatIndex>,
    /// The files in the stat index.
    sources: Sources,
    /// Files that were seen since.
    seen: RwLock<Vec<Sources>>,
    remote: Option<Arc<Remote>>,
}

/// The outcome of an item, and one of its missing objects.
pub type ItemState = (Option<ItemRecord>, Option<Digest>);

/// The reason why bytes are unavailable.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Missing or damaged: the stage that made it makes it again.
    #[error("object {} is missing or damaged", .0.short())]
    Lost(Digest),
    /// A source file differs from the plan.
    #[error("file `{path}` changed while it was being used")]
    Changed { path: Utf8PathBuf, digest: Digest },
    #[error(transparent)]
    Cache(CacheError),
    #[error("{0}")]
    Unreadable(String),
}

impl ReadError {
    /// The content that was planned with and is no longer there.
    pub fn lost(&self) -> Option<Digest> {
        match self {
            ReadError::Lost(digest) | ReadError::Changed { digest, .. } => Some(*digest),
            ReadError::Cache(_) | ReadError::Unreadable(_) => None,
        }
    }
}

/// Errors come only from a remote with `require`.
impl From<RemoteError> for ReadError {
    fn from(trouble: RemoteError) -> ReadError {
        match trouble {
            RemoteError::Cache(error) => ReadError::Cache(error),
            trouble => ReadError::Unreadable(trouble.to_string()),
        }
    }
}

impl From<ReadError> for StageError {
    fn from(error: ReadError) -> StageError {
        match error {
            ReadError::Cache(error) => StageError::of_cache("", &error),
            error => StageError::failed(error.to_string()),
        }
    }
}

impl Store {
    pub fn new(cache: Cache, base: &Utf8Path, index: Arc<StatIndex>) -> Store {
        Store::with_remote(cache, base, index, None)
    }

    /// A store that also reads from a remote.
    pub fn with_remote(
        cache: Cache,
        base: &Utf8Path,
        index: Arc<StatIndex>,
        remote: Option<Arc<Remote>>,
    ) -> Store {
        Store(Arc::new(Inner {
            remote,
            cache,
            base: base.to_owned(),
            memory: Mutex::default(),
            told: Mutex::default(),
            sources: Sources::new(index.sections().map(|(_, section)| section.clone()).collect()),
            seen: RwLock::default(),
            index,
        }))
    }

    pub fn cache(&self) -> &Cache {
        &self.0.cache
    }

    pub fn base(&self) -> &Utf8Path {
        &self.0.base
    }

    pub fn remote(&self) -> Option<&Arc<Remote>> {
        self.0.remote.as_ref()
    }

    /// The stat index as it was when planning began.
    pub fn index(&self) -> &StatIndex {
        &self.0.index
    }

    pub fn put(&self, bytes: Bytes) -> Result<Digest, CacheError> {
        let digest = Digest::of(&bytes);
        self.put_with_digest(digest, bytes)?;
        Ok(digest)
    }

    /// Stores bytes with a digest that the caller has computed.
    pub fn put_with_digest(&self, digest: Digest, bytes: Bytes) -> Result<(), CacheError> {
        match self.0.cache.put_with_digest(digest, bytes.clone()) {
            Err(CacheError::ReadOnly { .. }) => {
                let mut memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
                memory.insert(digest, bytes);
                Ok(())
            }
            other => other,
        }
    }

    /// Stores an output of a stage.
    pub fn keep(&self, value: NewValue) -> Result<Value, CacheError> {
        Ok(match value {
            NewValue::Text(text) => Value::text(text),
            NewValue::Number(number) => Value::Number(number),
            NewValue::Kept(value) => value,
            NewValue::Bytes { kind, bytes } => {
                let size = bytes.len() as u64;
                let digest = self.put(bytes)?;
                Value::Blob(Arc::new(Blob { digest, size, kind: kind.into() }))
            }
        })
    }

    pub fn read(&self, digest: &Digest) -> Result<Bytes, ReadError> {
        self.or_elsewhere(digest, self.0.cache.read(digest))
    }

    /// Hands over the bytes of several objects with their place in the list, one after the other,
    /// with one look into the index.
    pub fn read_each(
        &self,
        digests: &[Digest],
        take: &mut dyn FnMut(usize, Result<Bytes, ReadError>),
    ) -> Result<(), ReadError> {
        let mut found = |at, bytes| take(at, self.or_elsewhere(&digests[at], bytes));
        self.0.cache.read_each(digests, &mut found).map_err(ReadError::Cache)
    }

    fn or_elsewhere(
        &self,
        digest: &Digest,
        found: Result<Bytes, CacheError>,
    ) -> Result<Bytes, ReadError> {
        match found {
            Ok(bytes) => Ok(bytes),
            Err(CacheError::Missing { .. } | CacheError::Damaged { .. }) => {
                self.read_elsewhere(digest)
            }
            Err(error) => Err(ReadError::Cache(error)),
        }
    }

    fn read_elsewhere(&self, digest: &Digest) -> Result<Bytes, ReadError> {
        let memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = memory.get(digest) {
            return Ok(bytes.clone());
        }
        drop(memory);
        let mut changed = None;
        for entry in self.sources(digest) {
            let bytes = self.0.cache.fs().read(&self.0.base.join(&entry.path));
            match bytes {
                Ok(bytes) if Digest::of(&bytes) == *digest => return Ok(bytes.into()),
                // The content may be intact.
                Err(error) if error.machine_fault().is_some() => {
                    return Err(ReadError::Cache(error.into()));
                }
                _ => changed = Some(Utf8PathBuf::from(entry.path)),
            }
        }
        if self.bring(digest)? {
            return self.0.cache.read(digest).map_err(ReadError::Cache);
        }
        Err(match changed {
            Some(path) => ReadError::Changed { path, digest: *digest },
            None => ReadError::Lost(*digest),
        })
    }

    /// Fetches an object from the remote into the cache, if the remote has it.
    pub fn bring(&self, digest: &Digest) -> Result<bool, ReadError> {
        Ok(match &self.0.remote {
            Some(remote) => remote.bring(digest)?,
            None => false,
        })
    }

    /// The message about an object that has to be made again: it is damaged, could not be fetched,
    /// or is missing. Only the first missing object of each stage has a message, since thousands
    /// can be missing after a pull that was stopped.
    pub fn lost(&self, stage: &str, digest: &Digest) -> Option<Event> {
        let is_elsewhere = |remote: &Arc<Remote>| remote.lists(digest).unwrap_or(false);
        let short = digest.short();
        let message = if self.0.remote.as_ref().is_some_and(is_elsewhere) {
            format!("object {short} could not be fetched from the remote and is made again")
        } else if self.0.cache.was_damaged(digest) {
            return Some(Event::Damaged { stage: stage.to_owned(), digest: digest.to_string() });
        } else {
            let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
            if !told.insert(stage.to_owned()) {
                return None;
            }
            format!("object {short} is not in the cache; a run makes missing objects again")
        };
        let stage = Some(stage.to_owned()).filter(|stage| !stage.is_empty());
        Some(Event::Note { stage, message })
    }

    /// The outcome of a stage in the remote.
    pub fn outcome_elsewhere(&self, key: &Digest) -> Result<Option<Bytes>, ReadError> {
        let Some(remote) = &self.0.remote else { return Ok(None) };
        Ok(remote.outcome(key)?)
    }

    /// Records an outcome of the remote, unless a list of its items is missing or damaged: it may be
    /// forged.
    pub fn accept(&self, key: &Digest, outcome: Bytes) -> Result<bool, ReadError> {
        let record = decode::<StageRecord>(&outcome);
        for value in record.iter().flat_map(|record| record.outputs.values()) {
            let PortValue::Dataset { root, .. } = value else { continue };
            let is_whole = match self.dataset(root) {
                Ok(dataset) => {
                    let chunks: Vec<Digest> = dataset.buckets.iter().map(|b| b.chunk).collect();
                    self.have(&chunks).map_err(ReadError::Cache)?.into_iter().all(|has| has)
                }
                Err(ReadError::Cache(error)) => return Err(ReadError::Cache(error)),
                Err(_) => false,
            };
            if !is_whole {
                if let Some(remote) = &self.0.remote {
                    remote.refuse_outcome(key, "a list of its items is missing or damaged");
                }
                return Ok(false);
            }
        }
        self.0.cache.record(STAGE, key, outcome.to_vec()).map_err(ReadError::Cache)?;
        Ok(true)
    }

    /// Adds the records of a scope in the remote to the cache.
    pub fn scope_elsewhere(&self, scope: &Digest) -> Result<(), ReadError> {
        match &self.0.remote {
            Some(remote) => Ok(remote.scope(scope).map(drop)?),
            None => Ok(()),
        }
    }

    fn known_elsewhere(&self, digests: &[Digest]) -> Result<Vec<bool>, CacheError> {
        match &self.0.remote {
            Some(remote) => remote.knows(digests),
            None => Ok(vec![false; digests.len()]),
        }
    }

    /// A file of the cache or of the user that contains a large object, according to its stat. None
    /// if there is no such file; then [`Store::read`] reports the reason.
    pub fn open(&self, digest: &Digest) -> Result<Option<Arc<ScannedFile>>, ReadError> {
        let cache = &self.0.cache;
        if let Some(path) = cache.file_of(digest).map_err(ReadError::Cache)? {
            return Ok(self.open_file(&path, digest));
        }
        if cache.contains(digest).map_err(ReadError::Cache)? {
            return Ok(None);
        }
        let open = |entry: StatEntry| {
            let file = self.open_file(&self.0.base.join(&entry.path), digest)?;
            file.is_as(&entry).then_some(file)
        };
        if let Some(file) = self.sources(digest).into_iter().find_map(open) {
            return Ok(Some(file));
        }
        if !self.bring(digest)? {
            return Ok(None);
        }
        let path = cache.file_of(digest).map_err(ReadError::Cache)?;
        Ok(path.and_then(|path| self.open_file(&path, digest)))
    }

    /// The file and the position in it at which the bytes of each object begin: in the cache, or in
    /// an unchanged file of the user. None for those that are nowhere.
    pub fn places(&self, digests: &[Digest]) -> Result<Vec<Option<(Utf8PathBuf, u64)>>, ReadError> {
        let (cache, fs) = (&self.0.cache, self.0.cache.fs());
        let mut places = cache.places(digests).map_err(ReadError::Cache)?;
        for (place, digest) in places.iter_mut().zip(digests).filter(|(place, _)| place.is_none()) {
            let path = |entry: &StatEntry| self.0.base.join(&entry.path);
            let is_same = |entry: &StatEntry| {
                fs.metadata(&path(entry)).is_ok_and(|now| entry.describes(&now))
            };
            let source = self.sources(digest).into_iter().find(is_same);
            *place = match source {
                Some(entry) => Some((path(&entry), 0)),
                None if self.bring(digest)? => {
                    cache.commit().map_err(ReadError::Cache)?;
                    cache.places(std::slice::from_ref(digest)).map_err(ReadError::Cache)?.remove(0)
                }
                None => None,
            };
        }
        Ok(places)
    }

    /// A file in its present state, which should have this content.
    fn open_file(&self, path: &Utf8Path, digest: &Digest) -> Option<Arc<ScannedFile>> {
        let fs = self.0.cache.fs();
        let file = fs.open(path, Open::Read).ok()?;
        let now = file.metadata().ok()?;
        let entry = StatEntry::new(path.to_string(), &now, fs.now(), *digest, What::File);
        Some(Arc::new(ScannedFile::new(file, entry)))
    }

    /// The files outside the cache that had this content when they were last seen.
    fn sources(&self, digest: &Digest) -> Vec<StatEntry> {
        let seen = self.0.seen.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<StatEntry> =
            seen.iter().rev().flat_map(|seen| seen.with(digest)).collect();
        found.extend(self.0.sources.with(digest));
        found
    }

    /// Adds files that are newer than the stat index, which may be lost.
    pub fn saw(&self, section: &Section) {
        let mut seen = self.0.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.push(Sources::new(vec![section.clone()]));
    }

    /// Tests if a file still has the stat that it had with this content.
    pub fn is_in_a_source(&self, digest: &Digest) -> bool {
        let (fs, base) = (self.0.cache.fs(), &self.0.base);
        self.sources(digest).iter().any(|entry| {
            fs.metadata(&base.join(&entry.path)).is_ok_and(|now| entry.describes(&now))
        })
    }

    /// Tests if the bytes are available, according to the indices.
    pub fn has(&self, digest: &Digest) -> Result<bool, CacheError> {
        if self.0.cache.contains(digest)? {
            return Ok(true);
        }
        let memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.contains_key(digest) || self.is_in_a_source(digest) {
            return Ok(true);
        }
        drop(memory);
        Ok(self.known_elsewhere(&[*digest])? == [true])
    }

    /// Tests if an object with this content is in the cache or the remote, according to the indices.
    pub fn is_output(&self, digest: &Digest) -> Result<bool, CacheError> {
        Ok(self.0.cache.contains(digest)? || self.known_elsewhere(&[*digest])? == [true])
    }

    /// Like [`Store::has`], for many.
    pub fn have(&self, digests: &[Digest]) -> Result<Vec<bool>, CacheError> {
        let mut there = self.0.cache.contains_all(digests)?;
        let memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        for (there, digest) in there.iter_mut().zip(digests).filter(|(there, _)| !**there) {
            *there = memory.contains_key(digest) || self.is_in_a_source(digest);
        }
        drop(memory);
        let open =
            |there: &[bool]| -> Vec<usize> { (0..there.len()).filter(|at| !there[*at]).collect() };
        if self.0.remote.is_some() {
            let open = open(&there);
            let lacking: Vec<Digest> = open.iter().map(|at| digests[*at]).collect();
            for (at, known) in open.into_iter().zip(self.known_elsewhere(&lacking)?) {
                there[at] = known;
            }
        }
        Ok(there)
    }

    /// The recorded outcomes of items with all objects present.
    pub fn known_items(&self, keys: &[Digest]) -> Result<Vec<Option<ItemRecord>>, CacheError> {
        let records = self.item_records(keys)?;
        Ok(records.into_iter().map(|(record, lost)| record.filter(|_| lost.is_none())).collect())
    }

    /// The recorded outcomes of items, each with its first missing object.
    pub fn item_records(&self, keys: &[Digest]) -> Result<Vec<ItemState>, CacheError> {
        let records = self.0.cache.get_many(ITEM, keys)?;
        let records: Vec<Option<ItemRecord>> =
            records.into_iter().map(|bytes| decode(&bytes?)).collect();
        let blobs = || records.iter().enumerate().flat_map(|(at, record)| blobs_of(at, record));
        let digests: Vec<Digest> = blobs().map(|(_, digest)| digest).collect();
        let mut lost = vec![None; records.len()];
        if !digests.is_empty() {
            let there = self.have(&digests)?;
            for ((at, digest), _) in blobs().zip(there).filter(|(_, there)| !there) {
                lost[at].get_or_insert(digest);
            }
        }
        Ok(records.into_iter().zip(lost).collect())
    }

    pub fn dataset(&self, root: &Digest) -> Result<Dataset, ReadError> {
        let bytes = self.read(root)?;
        Dataset::decode(&bytes).map_err(|error| ReadError::Unreadable(error.to_string()))
    }

    pub fn chunk(&self, digest: &Digest) -> Result<Chunk, ReadError> {
        let bytes = self.read(digest)?;
        Chunk::decode(&bytes).map_err(|error| ReadError::Unreadable(error.to_string()))
    }

    /// The item with this id.
    pub fn item(&self, root: &Digest, id: &str) -> Result<Option<Item>, ReadError> {
        let dataset = self.dataset(root)?;
        let numbers: BTreeSet<u32> =
            with_parents(id).map(|id| bucket_of(id, dataset.bits)).collect();
        for bucket in dataset.buckets.iter().filter(|bucket| numbers.contains(&bucket.number)) {
            let items = self.chunk(&bucket.chunk)?.items;
            if let Some(item) = items.into_iter().find(|item| *item.id == *id) {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// The items of a data set, by id.
    pub fn items(&self, root: &Digest) -> Result<Vec<Item>, ReadError> {
        let dataset = self.dataset(root)?;
        let mut items = Vec::with_capacity(dataset.len());
        for bucket in dataset.buckets {
            items.extend(self.chunk(&bucket.chunk)?.items);
        }
        items.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(items)
    }

    pub fn put_dataset(&self, dataset: &Dataset) -> Result<Digest, CacheError> {
        self.put(dataset.encode().into())
    }
}

/// The objects that an outcome refers to, with its position.
fn blobs_of(at: usize, record: &Option<ItemRecord>) -> impl Iterator<Item = (usize, Digest)> {
    let fields = match record {
        Some(ItemRecord::Done { fields, .. }) => Some(fields),
        _ => None,
    };
    fields.into_iter().flat_map(move |fields| fields.blobs().map(move |blob| (at, blob.digest)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use cache::Access;
    use cache::fs::{Fs, MemoryFs};
    use cache::stat;
    use stage_core::FileParts;

    use super::*;

    const MODEL: &str = "/project/model";

    /// A scanned file of the user, and its content.
    fn looked_at(fs: &MemoryFs) -> (Store, Digest) {
        let base = Utf8Path::new("/project");
        fs.create_dir_all(base).unwrap();
        fs.write_new(MODEL.into(), &vec![7; 2 << 20]).unwrap();
        let cache = Cache::open("/cache".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap();
        let (digest, entry) = stat::hash_file(fs, MODEL.into()).unwrap();
        let mut index = StatIndex::load(&cache).unwrap();
        let entry = StatEntry { path: "model".to_owned(), ..entry };
        index.put_section(Digest::of(b"section"), vec![entry]);
        (Store::new(cache, base, Arc::new(index)), digest)
    }

    #[test]
    fn a_file_that_changes_while_it_is_open_ends_the_reading() {
        let fs = MemoryFs::new();
        let (store, digest) = looked_at(&fs);
        let file = store.open(&digest).unwrap().unwrap();
        let mut bytes = [0; 16];
        assert_eq!(file.read_at(&mut bytes, 1 << 20).unwrap(), 16);
        assert_eq!(bytes, [7; 16]);
        file.verify().unwrap();
        fs.open(MODEL.into(), Open::ReadWrite).unwrap().write_all_at(b"other", 1 << 20).unwrap();
        assert!(file.read_at(&mut bytes, 1 << 20).is_err());
        assert!(file.check().is_err() && file.verify().is_err());
        assert!(store.open(&digest).unwrap().is_none(), "it is another one now");
    }

    #[test]
    fn a_damaged_object_is_found_before_it_is_used() {
        let fs = MemoryFs::new();
        let (store, _) = looked_at(&fs);
        let digest = store.put(vec![1; 2 << 20].into()).unwrap();
        store.cache().commit().unwrap();
        let file = store.open(&digest).unwrap().unwrap();
        assert_eq!(file.size(), 2 << 20);
        file.verify().unwrap();
        let path = store.cache().file_of(&digest).unwrap().unwrap();
        fs.overwrite(&path, &[2; 2 << 20]).unwrap();
        let file = store.open(&digest).unwrap().unwrap();
        assert!(file.check().is_ok() && file.verify().is_err() && file.check().is_err());
        assert!(matches!(store.read(&digest), Err(ReadError::Lost(_))));
    }
}
