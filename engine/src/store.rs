//! Reads and keeps objects for the engine: the cache first, then the user's own files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use cache::stat::{StatIndex, What};
use cache::{Cache, CacheError, Digest};
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Blob, Chunk, Dataset, NewValue, Value};

/// A cheap handle; clones share everything.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    cache: Cache,
    base: Utf8PathBuf,
    /// Objects of a plan on a cache that cannot be written.
    memory: Mutex<HashMap<Digest, Bytes>>,
    /// Where untouched sources lie, by content; filled once, at the first blob that the cache
    /// does not have.
    sources: OnceLock<HashMap<Digest, Utf8PathBuf>>,
    index: Arc<StatIndex>,
}

/// Why bytes could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Damaged or gone: whoever made it makes it again.
    #[error("object {} is damaged or gone", .0.short())]
    Lost(Digest),
    /// A source file is no longer what was planned with.
    #[error("file `{path}` changed while it was being used")]
    Changed { path: Utf8PathBuf, digest: Digest },
    #[error(transparent)]
    Cache(CacheError),
    #[error("{0}")]
    Unreadable(String),
}

impl Store {
    pub fn new(cache: Cache, base: &Utf8Path, index: Arc<StatIndex>) -> Store {
        Store(Arc::new(Inner {
            cache,
            base: base.to_owned(),
            memory: Mutex::default(),
            sources: OnceLock::new(),
            index,
        }))
    }

    pub fn cache(&self) -> &Cache {
        &self.0.cache
    }

    pub fn base(&self) -> &Utf8Path {
        &self.0.base
    }

    /// The memo of file states as it was when planning began.
    pub fn index(&self) -> &StatIndex {
        &self.0.index
    }

    pub fn put(&self, bytes: Bytes) -> Result<Digest, CacheError> {
        let digest = Digest::of(&bytes);
        match self.0.cache.put_with_digest(digest, bytes.clone()) {
            Err(CacheError::ReadOnly { .. }) => {
                let mut memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
                memory.insert(digest, bytes);
                Ok(digest)
            }
            other => other.map(|()| digest),
        }
    }

    /// Keeps what a stage has made.
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
        match self.0.cache.read(digest) {
            Ok(bytes) => Ok(bytes),
            Err(CacheError::Missing { .. }) => self.read_elsewhere(digest),
            Err(CacheError::Damaged { .. }) => match self.read_elsewhere(digest) {
                Err(ReadError::Lost(_)) => Err(ReadError::Lost(*digest)),
                other => other,
            },
            Err(error) => Err(ReadError::Cache(error)),
        }
    }

    fn read_elsewhere(&self, digest: &Digest) -> Result<Bytes, ReadError> {
        let memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = memory.get(digest) {
            return Ok(bytes.clone());
        }
        drop(memory);
        let path = self.source(digest).ok_or(ReadError::Lost(*digest))?;
        let changed = || ReadError::Changed { path: path.clone(), digest: *digest };
        let bytes = self.0.cache.fs().read(&self.0.base.join(&path)).map_err(|_| changed())?;
        match Digest::of(&bytes) == *digest {
            true => Ok(bytes.into()),
            false => Err(changed()),
        }
    }

    /// The user's file that has this content, relative to the manifest or absolute.
    pub fn source(&self, digest: &Digest) -> Option<Utf8PathBuf> {
        let sources = self.0.sources.get_or_init(|| {
            let entries = self.0.index.sections().flat_map(|(_, section)| section.iter());
            let files = entries.filter(|entry| entry.what == What::File);
            files.map(|entry| (entry.digest, Utf8PathBuf::from(entry.path))).collect()
        });
        sources.get(digest).cloned()
    }

    /// Whether the bytes can be had, as far as the indices tell.
    pub fn has(&self, digest: &Digest) -> Result<bool, CacheError> {
        if self.0.cache.contains(digest)? {
            return Ok(true);
        }
        let memory = self.0.memory.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(memory.contains_key(digest) || self.source(digest).is_some())
    }

    pub fn dataset(&self, root: &Digest) -> Result<Dataset, ReadError> {
        let bytes = self.read(root)?;
        Dataset::decode(&bytes).map_err(|error| ReadError::Unreadable(error.to_string()))
    }

    pub fn chunk(&self, digest: &Digest) -> Result<Chunk, ReadError> {
        let bytes = self.read(digest)?;
        Chunk::decode(&bytes).map_err(|error| ReadError::Unreadable(error.to_string()))
    }

    pub fn put_dataset(&self, dataset: &Dataset) -> Result<Digest, CacheError> {
        self.put(dataset.encode().into())
    }
}
