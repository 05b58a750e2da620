//! The outcome of a source when only contents of files differ, which it passes on unread: the parts
//! of the data set that name them are rewritten, and nothing is scanned.

use cache::Digest;
use cache::stat::NewContent;
use stage_core::{Chunk, Dataset};

use crate::plan::planner::PlanError;
use crate::record::{PortValue, STAGE, StageRecord, decode};
use crate::store::{ReadError, Store};

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
    for bucket in &mut dataset.buckets {
        let bytes = store.read(&bucket.chunk)?;
        let named: Vec<&NewContent> =
            contents.iter().filter(|content| Chunk::may_name(&bytes, &content.old)).collect();
        if named.is_empty() {
            continue;
        }
        let mut chunk = store.chunk(&bucket.chunk)?;
        chunk.replace_blobs(&|digest| {
            let content = named.iter().find(|content| content.old == *digest)?;
            Some((content.new, content.size))
        });
        bucket.chunk = store.put(chunk.encode().into()).map_err(ReadError::Cache)?;
    }
    store.put_dataset(&dataset).map_err(ReadError::Cache)
}
