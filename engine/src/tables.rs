//! Writes data sets: buckets as they close, and the root after all of them.

use std::sync::Arc;

use cache::{CacheError, Digest};
use stage_core::key::chunk_key;
use stage_core::{Bucket, Chunk, Dataset, DatasetError, Item, Reject};

use crate::record::{CHUNK, ChunkRecord, PortValue, encode};
use crate::store::Store;

/// A bucket of an item stage in which every item is decided.
pub struct ClosedBucket {
    pub number: u32,
    /// The input chunk; `None` if no item arrived at all.
    pub chunk: Option<Digest>,
    pub items: Vec<Item>,
    pub rejects: Vec<(Arc<str>, Reject)>,
}

/// Writes the bucket's chunk and records it as the outcome for the input chunk.
pub fn close_bucket(
    store: &Store,
    job: &Digest,
    bucket: ClosedBucket,
) -> Result<Option<Bucket>, CacheError> {
    let count = bucket.items.len() as u32;
    let chunk = match Chunk::new(bucket.items) {
        Ok(chunk) if count > 0 => Some(store.put(chunk.encode().into())?),
        // Ids came from one chunk, so they are distinct.
        Ok(_) | Err(_) => None,
    };
    if let Some(arrived) = bucket.chunk {
        let record = ChunkRecord { chunk, items: count, rejects: bucket.rejects };
        let key = chunk_key(job, &arrived);
        match store.cache().record(CHUNK, &key, encode(&record)) {
            Ok(()) | Err(CacheError::ReadOnly { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(chunk.map(|chunk| Bucket { number: bucket.number, chunk, items: count }))
}

/// Writes the root over buckets in any order.
pub fn close_dataset(
    store: &Store,
    bits: u8,
    mut buckets: Vec<Bucket>,
) -> Result<PortValue, CacheError> {
    buckets.sort_by_key(|bucket| bucket.number);
    let dataset = Dataset { bits, buckets };
    let items = dataset.len() as u64;
    Ok(PortValue::Dataset { root: store.put_dataset(&dataset)?, items })
}

/// Builds a data set from scratch and stores all of it.
pub fn write_dataset(store: &Store, items: Vec<Item>) -> Result<PortValue, WriteError> {
    let count = items.len() as u64;
    let parts = Dataset::build(items)?;
    for (bucket, chunk) in parts.dataset.buckets.iter().zip(parts.chunks) {
        store.put_with_digest(bucket.chunk, chunk.into())?;
    }
    Ok(PortValue::Dataset { root: store.put_dataset(&parts.dataset)?, items: count })
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Dataset(#[from] DatasetError),
}
