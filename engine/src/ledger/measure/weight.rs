//! The work of a stage in numbers that its cost grows with: bytes that it reads, threads that share it.

use std::sync::Arc;

use stage_core::key::ItemReads;
use stage_core::{Blob, Item, Place};

use crate::pipeline::{StageSpec, StageWork};

/// The files that a stage reads of an item.
pub fn blobs<'a>(reads: &'a ItemReads, item: &'a Item) -> impl Iterator<Item = &'a Arc<Blob>> {
    reads.names.iter().filter_map(|name| item.fields.blob(name))
}

/// The size of the blobs that a stage reads of an item.
pub fn item_weight(reads: &ItemReads, item: &Item) -> u64 {
    blobs(reads, item).map(|blob| blob.size).sum()
}

/// The number of threads that share the work of a stage.
pub fn threads_of(spec: &StageSpec, threads: usize) -> f64 {
    match (spec.work, spec.kind.place) {
        (StageWork::Item, Place::Here) => threads.max(1) as f64,
        _ => 1.0,
    }
}
