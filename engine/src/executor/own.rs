//! The batches that this machine has begun, in its own index.
//!
//! A batch is open from its first job until the outcomes of all parts are recorded here, or until its
//! cancellation is in the remote. So an item that waits for an open batch is in no job of another one.

use cache::{Cache, CacheError, Digest};
use remote::{Fresh, Remote, RemoteError};
use serde::{Deserialize, Serialize};

use super::batch::{BATCH, Batch, Name};
use crate::record::{decode, encode};

/// A batch that this machine has begun: its record is in the remote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnBatch {
    /// The key of its work.
    pub key: Digest,
    pub pipeline: String,
    pub stage: String,
    pub executor: String,
    pub shards: u32,
    pub is_training: bool,
    /// The run that has made it.
    pub run: u64,
    /// Seconds since 1970.
    pub begun: i64,
    /// Nothing waits for it any more: it is kept to find the logs of its jobs.
    pub is_closed: bool,
}

impl OwnBatch {
    /// The key of the result of a shard.
    pub fn result(&self, batch: &Digest, shard: u32) -> Digest {
        if self.is_training { self.key } else { Name::Result(shard).of(batch) }
    }
}

/// The number of closed batches that are kept.
const KEPT: usize = 200;

/// The batches of this machine, the oldest first.
pub fn own(cache: &Cache) -> Result<Vec<(Digest, OwnBatch)>, CacheError> {
    let records = cache.scan(BATCH)?.into_iter();
    let mut own: Vec<(Digest, OwnBatch)> =
        records.filter_map(|(id, bytes)| Some((id, decode(&bytes)?))).collect();
    own.sort_by_key(|(id, batch)| (batch.begun, *id));
    Ok(own)
}

/// Notes that nothing waits for a batch any more, and forgets the oldest ones.
pub fn close(cache: &Cache, id: &Digest) -> Result<(), CacheError> {
    let own = own(cache)?;
    if let Some((_, batch)) = own.iter().find(|(other, _)| other == id) {
        let closed = OwnBatch { is_closed: true, ..batch.clone() };
        cache.record(BATCH, id, encode(&closed))?;
    }
    let closed: Vec<&Digest> =
        own.iter().filter(|(_, batch)| batch.is_closed).map(|(id, _)| id).collect();
    let many = closed.len().saturating_sub(KEPT);
    closed[..many].iter().try_for_each(|id| cache.forget(BATCH, id))
}

/// The open batches for the same work, the newest first, without those that are at work here. A batch
/// that the remote lacks is cancelled: its items may be in another one from now on.
pub fn open(
    cache: &Cache,
    remote: &Remote,
    key: &Digest,
    is_at_work: impl Fn(&Digest) -> bool,
) -> Result<Vec<Batch>, RemoteError> {
    let is_wanted =
        |(id, batch): &(Digest, OwnBatch)| !batch.is_closed && batch.key == *key && !is_at_work(id);
    let mut open = Vec::new();
    for (id, _) in own(cache)?.into_iter().rev().filter(is_wanted) {
        let batch = remote.look_up(&id)?.and_then(|bytes| Batch::decode(&bytes, &id));
        // A kill may have come between a cancellation and its note here.
        let is_cancelled = remote.look_up(&Name::Cancel.of(&id))?.is_some();
        match batch.filter(|_| !is_cancelled) {
            Some(batch) => open.push(batch),
            None => cancel(cache, remote, &id)?,
        }
    }
    Ok(open)
}

/// Tells the workers of a batch to stop, and closes it. It stays open if the remote cannot be told.
fn cancel(cache: &Cache, remote: &Remote, id: &Digest) -> Result<(), RemoteError> {
    tell_cancelled(remote, id)?;
    Ok(close(cache, id)?)
}

/// Tells the workers of a batch to stop.
pub fn tell_cancelled(remote: &Remote, id: &Digest) -> Result<(), RemoteError> {
    let (key, name, value) = (Name::Cancel.of(id), "cancel".to_owned(), id.to_string().into());
    let fresh = Fresh { key, name, table: BATCH, value, summary: *id, objects: Vec::new() };
    remote.publish(&fresh).map(drop)
}
