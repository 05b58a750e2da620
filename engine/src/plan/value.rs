//! The value of a port, as far as it is known before the run.

use std::sync::Arc;

use cache::Digest;
use stage_core::{Bucket, Expands, Fields, Item};

use crate::record::PortValue;

/// The value of a port, as far as it is known.
#[derive(Clone)]
pub enum PlannedValue {
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
    Pending(Arc<str>, ExpectedItem),
}

/// The expectation of a pending item, which may become several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedItem {
    /// The number of items that take its place.
    pub items: u32,
    /// The size of the largest blob of each; 0 if unknown.
    pub bytes: u64,
}

impl ExpectedItem {
    /// One item with these fields.
    pub fn of(fields: &Fields) -> ExpectedItem {
        let bytes = fields.blobs().map(|blob| blob.size).max().unwrap_or(0);
        ExpectedItem { items: 1, bytes }
    }

    /// The value after a stage that expands its items.
    pub fn expanded(self, expands: Option<Expands>) -> ExpectedItem {
        let Some(expands) = expands else { return self };
        let each = expands.expected(self.bytes);
        ExpectedItem { items: self.items.saturating_mul(each), bytes: self.bytes / u64::from(each) }
    }
}

impl PartialDataset {
    /// The number of items that are known or pending.
    pub fn items(&self) -> u64 {
        let count = |bucket: &PartialBucket| match bucket {
            PartialBucket::Closed(bucket) => u64::from(bucket.items),
            PartialBucket::Open { items, .. } => items.iter().map(PartialItem::count).sum(),
        };
        self.buckets.iter().map(count).sum()
    }
}

impl PartialItem {
    /// The number of items that it is or is expected to become.
    pub fn count(&self) -> u64 {
        match self {
            PartialItem::Known(_) => 1,
            PartialItem::Pending(_, expected) => u64::from(expected.items),
        }
    }
}

/// The value of a port once it is complete.
pub fn planned(value: &PortValue) -> PlannedValue {
    match value {
        PortValue::Dataset { root, items } => PlannedValue::Root { root: *root, items: *items },
        PortValue::Artifact(fields) => PlannedValue::Artifact(fields.clone()),
    }
}
