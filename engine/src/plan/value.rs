//! The value of a port, as far as it is known before the run.

use std::sync::Arc;

use cache::Digest;
use stage_core::{Bucket, Fields, Item};

use crate::record::PortValue;

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

/// The value of a port once it is complete.
pub fn planned(value: &PortValue) -> Planned {
    match value {
        PortValue::Dataset { root, items } => Planned::Root { root: *root, items: *items },
        PortValue::Artifact(fields) => Planned::Artifact(fields.clone()),
    }
}
