//! Sizes of batches: those of the next tasks, and the size that fits after an out-of-memory error.
//!
//! That size depends on the stage, on its models, on the device, and on the requested size, so that
//! a changed request is tried. The next run starts with it. It enters no key of a result.

use std::collections::BTreeMap;

use cache::{Cache, CacheError, Digest};
use stage_core::key::{HashSink, Sink};
use stage_core::{Batching, Fields, Place};

use super::item_stage::ItemStage;
use crate::pipeline::StageSpec;
use crate::record::{LIMIT, decode, encode};

/// A task of single items is filled up to about this duration, so that handing it over costs
/// little.
const TASK_SECONDS: f64 = 0.004;
const TASK_ITEMS: usize = 64;

/// The size of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchSize {
    pub items: u64,
    pub bytes: u64,
}

/// The size of a task at which no more items are added.
#[derive(Clone, Copy, Debug)]
pub enum BatchLimit {
    Items(u64),
    Bytes(u64),
}

impl BatchLimit {
    /// The size for the next task of a stage.
    pub fn of(spec: &StageSpec, stage: &ItemStage, threads: usize) -> BatchLimit {
        let most = |wanted: u64| stage.batch_limit.map_or(wanted, |limit| limit.min(wanted));
        match spec.kind.batching {
            Batching::ByBytes { parameter } => {
                BatchLimit::Bytes(most(spec.parameters.bytes(parameter).unwrap_or(1 << 20)))
            }
            Batching::ByCount { parameter } => BatchLimit::Items(most(
                spec.parameters.integer(parameter).unwrap_or(1).max(1) as u64,
            )),
            Batching::Single if spec.kind.place == Place::Worker => BatchLimit::Items(1),
            Batching::Single => {
                let by_time =
                    if stage.pace > 0.0 { (TASK_SECONDS / stage.pace) as usize } else { 1 };
                let share = stage.queue.len() / (2 * threads.max(1));
                BatchLimit::Items(by_time.min(share).clamp(1, TASK_ITEMS) as u64)
            }
        }
    }

    /// Tests if an item of this size has no room.
    pub fn is_reached(self, batch: BatchSize, next: u64) -> bool {
        match self {
            BatchLimit::Items(limit) => batch.items >= limit,
            BatchLimit::Bytes(limit) => batch.items > 0 && batch.bytes + next > limit,
        }
    }
}

impl ItemStage {
    /// A batch did not fit: at most half of it is used from now on. Returns the new limit.
    pub fn halve(&mut self, batching: Batching, batch: BatchSize) -> Option<u64> {
        let size = match batching {
            Batching::ByCount { .. } => batch.items,
            _ => batch.bytes,
        };
        let half = (size / 2).max(1);
        let is_less = self.batch_limit.is_none_or(|limit| half < limit);
        is_less.then(|| *self.batch_limit.insert(half))
    }
}

/// The place of a stage's batch size in the index.
pub struct KeptLimit(Digest);

impl KeptLimit {
    pub fn of(spec: &StageSpec, artifacts: &BTreeMap<String, Vec<Fields>>) -> KeptLimit {
        let mut sink = HashSink::default();
        sink.text("batches of", spec.kind.name);
        sink.integer("version", i64::from(spec.kind.version));
        sink.text("device", &spec.policy.device.to_string());
        match spec.kind.batching {
            Batching::Single => {}
            Batching::ByBytes { parameter } => {
                sink.integer("asked", spec.parameters.bytes(parameter).unwrap_or(0) as i64);
            }
            Batching::ByCount { parameter } => {
                sink.integer("asked", spec.parameters.integer(parameter).unwrap_or(0));
            }
        }
        for (port, artifacts) in artifacts {
            for blob in artifacts.iter().flat_map(|fields| fields.blobs()) {
                sink.digest(port, &blob.digest);
            }
        }
        KeptLimit(sink.finish())
    }

    /// The batch size that fitted in an earlier run.
    pub fn read(&self, cache: &Cache) -> Result<Option<u64>, CacheError> {
        Ok(cache.get(LIMIT, &self.0)?.and_then(|bytes| decode(&bytes)))
    }

    pub fn keep(&self, cache: &Cache, limit: u64) -> Result<(), CacheError> {
        cache.record(LIMIT, &self.0, encode(&limit))
    }
}
