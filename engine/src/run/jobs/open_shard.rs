//! A shard of a batch that is waited for.

use std::collections::HashMap;
use std::sync::Arc;

use cache::Digest;
use stage_core::StageError;

use crate::executor::batch::{AttemptReport, ShardResult};
use crate::executor::decide::{ShardAttempts, ShardFacts};
use crate::record::ItemRecord;
use crate::run::message::{Failure, ItemOutcome, Outcome};

pub struct OpenShard {
    pub ticket: u64,
    /// The keys and names of its items.
    items: Vec<(Digest, Arc<str>)>,
    pub tried: ShardAttempts,
    /// The reports of its attempts that are known, by their numbers; none for an attempt that has not
    /// reported.
    pub attempts: Vec<Option<AttemptReport>>,
}

impl OpenShard {
    pub fn new(ticket: u64, items: Vec<(Digest, Arc<str>)>) -> OpenShard {
        OpenShard { ticket, items, tried: ShardAttempts::default(), attempts: Vec::new() }
    }

    pub fn stored(&self, is_done: bool) -> ShardFacts {
        let reports = || self.attempts.iter().flatten();
        let has_moved = |report: &&AttemptReport| {
            matches!(report, AttemptReport::Later { has_moved: true, .. })
        };
        ShardFacts {
            is_done,
            has_failed: reports().any(|report| matches!(report, AttemptReport::Failed { .. })),
            moved: reports().filter(has_moved).count() as u32,
        }
    }

    /// The same failure for all that it has.
    pub fn failed(&self, failure: Failure) -> Outcome {
        if self.items.is_empty() {
            Outcome::Gather(Err(failure))
        } else {
            Outcome::Items(vec![ItemOutcome::Failed(failure); self.items.len()])
        }
    }

    /// The outcomes of items in the order in which they stand here.
    pub fn outcomes(&self, result: Option<ShardResult>) -> Vec<ItemOutcome> {
        let (mut records, mut failures) = (HashMap::new(), HashMap::new());
        if let Some(result) = result {
            records.extend(result.items);
            failures.extend(result.failed);
        }
        let outcome = |(key, name): &(Digest, Arc<str>)| match records.remove(key) {
            Some(record) => {
                let bytes = match &record {
                    ItemRecord::Done { fields, .. } => fields.blobs().map(|blob| blob.size).sum(),
                    ItemRecord::Rejected(_) => 0,
                };
                ItemOutcome::of(record, bytes)
            }
            None => ItemOutcome::Failed(Failure::Stage(match failures.remove(name) {
                Some(reject) => StageError::failed(reject.reason),
                None => {
                    let message = "its job returned no result for this item".to_owned();
                    StageError::Transient { message }
                }
            })),
        };
        self.items.iter().map(outcome).collect()
    }
}
