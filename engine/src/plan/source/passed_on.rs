//! The outcome of a source when only contents of files differ, which it passes on unread: the parts
//! of the data set that name them are rewritten, and nothing is scanned.

use std::ops::Range;

use cache::stat::NewContent;
use cache::{Digest, in_shares};
use stage_core::{Bucket, Chunk, Dataset};

use crate::error::PlanError;
use crate::record::{PortValue, STAGE, StageRecord, decode};
use crate::store::{ReadError, Store};

/// The number of chunks that a thread reads at a time.
const SHARE: usize = 16;

/// None if the earlier outcome, given by its key, is missing or has no data set.
pub fn outcome(
    store: &Store,
    before: &Digest,
    contents: &[NewContent],
) -> Result<Option<StageRecord>, PlanError> {
    let record = store.cache().get(STAGE, before)?;
    let Some(mut record) = record.and_then(|bytes| decode::<StageRecord>(&bytes)) else {
        return Ok(None);
    };
    for value in record.outputs.values_mut() {
        let PortValue::Dataset { root, .. } = value else { return Ok(None) };
        match dataset(store, root, contents) {
            Ok(replaced) => *root = replaced,
            // A lost part is scanned again.
            Err(ReadError::Lost(_) | ReadError::Changed { .. } | ReadError::Unreadable(_)) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    record.seconds = 0.0;
    Ok(Some(record))
}

fn dataset(store: &Store, root: &Digest, contents: &[NewContent]) -> Result<Digest, ReadError> {
    let mut dataset: Dataset = store.dataset(root)?;
    let chunk = |bucket: &Bucket| renewed(store, &bucket.chunk, contents);
    let buckets = &dataset.buckets;
    let share = |range: Range<usize>| buckets[range].iter().map(chunk).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // If a thread panics, this thread does its work.
    let chunks: Vec<Result<Digest, ReadError>> = in_shares(buckets.len(), SHARE, threads, share)
        .unwrap_or_else(|| buckets.iter().map(chunk).collect());
    for (bucket, chunk) in dataset.buckets.iter_mut().zip(chunks) {
        bucket.chunk = chunk?;
    }
    store.put_dataset(&dataset).map_err(ReadError::Cache)
}

/// A chunk with new contents in place of the old ones; most have none of them.
fn renewed(store: &Store, chunk: &Digest, contents: &[NewContent]) -> Result<Digest, ReadError> {
    let bytes = store.read(chunk)?;
    let named: Vec<&NewContent> =
        contents.iter().filter(|content| Chunk::may_name(&bytes, &content.old)).collect();
    if named.is_empty() {
        return Ok(*chunk);
    }
    let mut chunk =
        Chunk::decode(&bytes).map_err(|error| ReadError::Unreadable(error.to_string()))?;
    chunk.replace_blobs(&|digest| {
        let content = named.iter().find(|content| content.old == *digest)?;
        Some((content.new, content.size))
    });
    store.put(chunk.encode().into()).map_err(ReadError::Cache)
}
