//! The output of a stage that has failed all the same, such as the report of a check.
//!
//! It is no result: no key leads to it, and nothing is made from it. It is kept to be exported and
//! listed, until garbage collection.

use std::collections::{BTreeMap, HashSet};

use cache::{Cache, CacheError, Digest};
use serde::{Deserialize, Serialize};

use crate::record::{JUDGED, PortValue, decode, encode, last_key};

/// The output of a stage that failed in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedOutput {
    pub run: u64,
    pub outputs: BTreeMap<String, PortValue>,
}

/// Replaces the one of an earlier run.
pub fn keep(
    cache: &Cache,
    pipeline: &str,
    stage: &str,
    failed: &FailedOutput,
) -> Result<(), CacheError> {
    cache.record(JUDGED, &last_key(pipeline, stage), encode(failed))
}

/// The last one of the stage, even if it succeeded since.
pub fn last(
    cache: &Cache,
    pipeline: &str,
    stage: &str,
) -> Result<Option<FailedOutput>, CacheError> {
    let record = cache.get(JUDGED, &last_key(pipeline, stage))?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

impl FailedOutput {
    /// Tests if every object of it is among these.
    pub fn is_among(&self, objects: &HashSet<Digest>) -> bool {
        self.outputs.values().all(|value| match value {
            PortValue::Artifact(fields) => {
                fields.blobs().all(|blob| objects.contains(&blob.digest))
            }
            PortValue::Dataset { root, .. } => objects.contains(root),
        })
    }
}
