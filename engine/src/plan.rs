//! The plan: the work of a run and its reasons, as a value.
//!
//! `plan` prints it, `run` executes the same value, `why` explains it.

mod absent;
mod diff;
mod earlier;
pub mod inputs;
pub mod items;
pub mod names;
mod parent;
pub mod parts;
pub mod planner;
pub mod reasons;

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::Digest;
use stage_core::event::{Event, PlannedStage, Verdict};
use stage_core::key::StageKey;
use stage_core::{Bucket, Fields, Item, Reject};

use crate::pipeline::{Pipeline, StageId};
use crate::reason::Reason;
use crate::record::StageRecord;

pub use diff::{DatasetDiff, compare_datasets, compare_keys};
pub use planner::Planner;

pub struct Plan {
    /// By the position of the stage in the pipeline.
    pub stages: Vec<StagePlan>,
    pub seconds: f64,
}

pub struct StagePlan {
    pub verdict: Verdict,
    /// Fresh, and unchanged since the last run: there is no state to record either.
    pub unchanged: bool,
    pub reasons: Vec<Reason>,
    /// The differences from the state after this run, if they are already known.
    pub differences: Option<(u64, Vec<Reason>)>,
    /// The number of items to execute, as far as known, or 1.
    pub executed: u64,
    /// Items that depend on pending outputs of upstream stages.
    pub pending: u64,
    pub reused: u64,
    pub quarantined: u64,
    /// Estimated from earlier runs; 0 without any.
    pub seconds: f64,
    /// `None` while an input is not known.
    pub keyed: Option<Keyed>,
    pub outputs: BTreeMap<&'static str, Planned>,
    pub work: Work,
    pub rejects: Vec<(Arc<str>, Reject)>,
}

/// The identity of the work of a stage with known inputs.
#[derive(Clone)]
pub struct Keyed {
    pub key: StageKey,
    pub digest: Digest,
    pub roots: BTreeMap<String, Vec<Digest>>,
}

impl Keyed {
    /// The same work, continued from an earlier outcome.
    pub fn with_parent(self, parent: Digest) -> Keyed {
        let key = StageKey { parent: Some(parent), ..self.key };
        Keyed { digest: key.digest(), key, roots: self.roots }
    }
}

/// The work of a stage.
pub enum Work {
    /// None: the stored outcome is valid.
    Nothing(StageRecord),
    Items(ItemWork),
    /// A source that was read again; its outcome still has to be recorded.
    Scanned(StageRecord),
    /// A gather.
    Whole,
    /// Not known until an upstream stage has finished.
    AwaitsInputs,
    /// Not known while a file is missing.
    AwaitsFile,
    /// It is not among the targets.
    Unwanted,
}

/// The present knowledge of a stage: from a plan, or from a run.
pub trait Known {
    fn keyed(&self) -> Option<&Keyed>;
    fn outputs(&self) -> &BTreeMap<&'static str, Planned>;
    fn rejects(&self) -> &[(Arc<str>, Reject)];
}

impl Known for StagePlan {
    fn keyed(&self) -> Option<&Keyed> {
        self.keyed.as_ref()
    }

    fn outputs(&self) -> &BTreeMap<&'static str, Planned> {
        &self.outputs
    }

    fn rejects(&self) -> &[(Arc<str>, Reject)] {
        &self.rejects
    }
}

/// The value of a port, as far as it is known.
#[derive(Clone)]
pub enum Planned {
    /// Complete: the root of the data set, read only if its items are needed.
    Root {
        root: Digest,
        items: u64,
    },
    Artifact(Fields),
    /// A data set with pending items.
    Partial(Arc<PartialDataset>),
    Unknown,
}

/// A data set that is not complete yet.
#[derive(Clone, Debug, Default)]
pub struct PartialDataset {
    pub bits: u8,
    pub buckets: Vec<PartialBucket>,
}

#[derive(Clone, Debug)]
pub enum PartialBucket {
    Closed(Bucket),
    Open { number: u32, items: Vec<PartialItem> },
}

#[derive(Clone, Debug)]
pub enum PartialItem {
    Known(Item),
    Pending(Arc<str>),
}

/// The work of an item stage, bucket by bucket.
#[derive(Default)]
pub struct ItemWork {
    /// The part of the keys that all items share.
    pub job: Option<Digest>,
    pub bits: u8,
    /// Whole buckets with known outcomes, each with its quarantined items.
    pub closed: Vec<Bucket>,
    pub open: Vec<OpenBucket>,
}

/// A bucket with items to execute or pending items.
pub struct OpenBucket {
    pub number: u32,
    /// The chunk that arrives, once all its items are known.
    pub chunk: Option<Digest>,
    pub items: Vec<ItemPlan>,
}

pub enum ItemPlan {
    /// The outcome is known.
    Known(Item),
    /// It was quarantined before.
    Rejected(Arc<str>, Reject),
    /// To be executed, under this key.
    Todo { item: Item, key: Digest },
    /// Decided by an upstream stage.
    Pending(Arc<str>),
}

impl Plan {
    pub fn stage(&self, id: StageId) -> &StagePlan {
        &self.stages[id.0]
    }

    /// The plan as an event.
    pub fn event(&self, pipeline: &Pipeline) -> Event {
        let planned = |(id, stage): (StageId, &StagePlan)| {
            let name = pipeline.stage(id).name.clone();
            (name, stage.event())
        };
        Event::Plan {
            stages: pipeline.ids().zip(&self.stages).map(planned).collect(),
            seconds: self.seconds,
        }
    }

    pub fn is_fresh(&self) -> bool {
        self.stages.iter().all(|stage| stage.verdict == Verdict::Fresh)
    }
}

impl StagePlan {
    fn event(&self) -> PlannedStage {
        PlannedStage {
            verdict: self.verdict,
            reasons: self.reasons.iter().map(ToString::to_string).collect(),
            executed: self.executed + self.pending,
            reused: self.reused,
            quarantined: self.quarantined,
            seconds: self.seconds,
        }
    }
}

impl PartialDataset {
    /// The number of items that are known or pending.
    pub fn items(&self) -> u64 {
        let count = |bucket: &PartialBucket| match bucket {
            PartialBucket::Closed(bucket) => u64::from(bucket.items),
            PartialBucket::Open { items, .. } => items.len() as u64,
        };
        self.buckets.iter().map(count).sum()
    }
}
