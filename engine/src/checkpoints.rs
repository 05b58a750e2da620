//! The kept checkpoints of a training.

use cache::{CacheError, Digest};
use stage_core::Fields;

use crate::record::{CHECKPOINT, CheckpointRecord, PROGRESS, decode};
use crate::store::Store;

pub fn checkpoints(store: &Store, key: &Digest) -> Result<Option<CheckpointRecord>, CacheError> {
    let record = store.cache().get(CHECKPOINT, key)?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// The key with checkpoints that a training goes on from: its own, or that of the longest prefix.
pub fn begun_under(
    store: &Store,
    key: &Digest,
    prefixes: &[Digest],
) -> Result<Option<Digest>, CacheError> {
    for key in std::iter::once(key).chain(prefixes) {
        if checkpoints(store, key)?.is_some() {
            return Ok(Some(*key));
        }
    }
    Ok(None)
}

/// The step of the newest reported checkpoint of a key; 0 without one.
pub fn steps_done(store: &Store, key: &Digest) -> Result<u64, CacheError> {
    if checkpoints(store, key)?.is_none() {
        return Ok(0);
    }
    let progress = store.cache().get(PROGRESS, key)?;
    Ok(progress.and_then(|bytes| decode::<(u64, u64)>(&bytes)).map_or(0, |(done, _)| done))
}

/// The state, if all its objects exist.
pub fn is_there(store: &Store, state: Fields) -> Result<Option<Fields>, CacheError> {
    for blob in state.blobs() {
        if !store.has(&blob.digest)? {
            return Ok(None);
        }
    }
    Ok(Some(state))
}
