//! The work of a stage.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::Digest;
use stage_core::key::StageKey;
use stage_core::{Bucket, Expands, Item, Reject};

use super::value::ExpectedItem;
use crate::record::StageRecord;

/// The identity of the work of a stage with known inputs.
#[derive(Clone)]
pub struct StageIdentity {
    pub key: StageKey,
    pub digest: Digest,
    pub roots: BTreeMap<String, Vec<Digest>>,
}

impl StageIdentity {
    /// The same work, continued from an earlier outcome.
    pub fn with_parent(self, parent: Digest) -> StageIdentity {
        let key = StageKey { parent: Some(parent), ..self.key };
        StageIdentity { digest: key.digest(), key, roots: self.roots }
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
    /// Its trial does not take part any more.
    LeftOut,
    /// It is not among the targets.
    Unwanted,
}

impl Work {
    /// Tests if there is something to do, or may be once more is known.
    pub fn is_open(&self) -> bool {
        !matches!(self, Work::Nothing(_) | Work::LeftOut | Work::Unwanted)
    }
}

/// The work of an item stage, bucket by bucket.
#[derive(Default)]
pub struct ItemWork {
    /// The part of the keys that all items share.
    pub job: Option<Digest>,
    pub bits: u8,
    /// The stage makes several items of one. Its children are in the bucket of their parent.
    pub expands: Option<Expands>,
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
    /// The item has become these.
    Expanded(Arc<str>, Vec<Item>),
    /// It was quarantined before.
    Rejected(Arc<str>, Reject),
    /// To be executed, under this key.
    Todo { item: Item, key: Digest },
    /// Decided by an upstream stage.
    Pending(Arc<str>, ExpectedItem),
}
