//! The batch size of a stage after an out-of-memory error, and its record.
//!
//! It depends on the stage, on its models, on the device, and on the requested size, so that a
//! changed request is tried. The next run starts with the size that fitted. It enters no key of a
//! result.

use cache::Digest;
use stage_core::Batching;
use stage_core::event::Event;
use stage_core::key::{HashSink, Sink};

use super::schedule::{Schedule, State};
use crate::engine::EngineError;
use crate::pipeline::StageId;
use crate::record::{LIMIT, decode, encode};

/// The size of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub items: u64,
    pub bytes: u64,
}

impl Schedule<'_> {
    /// The batch size that fitted in an earlier run.
    pub fn known_limit(&self, id: StageId) -> Result<Option<u64>, EngineError> {
        if self.pipeline.stage(id).kind.batching == Batching::Single {
            return Ok(None);
        }
        let kept = self.store.cache().get(LIMIT, &self.limit_key(id))?;
        Ok(kept.and_then(|bytes| decode(&bytes)))
    }

    /// A batch did not fit: use at most half of it from now on.
    pub fn halve(&mut self, id: StageId, batch: Batch, message: String) {
        let spec = self.pipeline.stage(id);
        let State::Items(stage) = &mut self.states[id.0] else { return };
        let (size, is_counted) = match spec.kind.batching {
            Batching::ByCount { .. } => (batch.items, true),
            _ => (batch.bytes, false),
        };
        let half = (size / 2).max(1);
        if stage.batch_limit.is_none_or(|limit| half < limit) {
            stage.batch_limit = Some(half);
            let (bytes, items) = ((!is_counted).then_some(half), is_counted.then_some(half));
            (self.sink)(Event::BatchHalved { stage: spec.name.clone(), bytes, items, message });
        }
    }

    /// Recorded for the next run. Not after the death of a worker, which may have had other causes.
    pub fn remember_limit(&mut self, id: StageId) -> Result<(), EngineError> {
        let State::Items(stage) = &self.states[id.0] else { return Ok(()) };
        let Some(limit) = stage.batch_limit else { return Ok(()) };
        self.store.cache().record(LIMIT, &self.limit_key(id), encode(&limit))?;
        self.committer.note(Vec::new());
        Ok(())
    }

    fn limit_key(&self, id: StageId) -> Digest {
        let spec = self.pipeline.stage(id);
        let mut sink = HashSink::default();
        sink.text("batches of", spec.kind.name);
        sink.integer("version", i64::from(spec.kind.version));
        sink.text("device", &spec.policy.device);
        match spec.kind.batching {
            Batching::Single => {}
            Batching::ByBytes { parameter } => {
                sink.integer("asked", spec.parameters.bytes(parameter).unwrap_or(0) as i64);
            }
            Batching::ByCount { parameter } => {
                sink.integer("asked", spec.parameters.integer(parameter).unwrap_or(0));
            }
        }
        for (port, artifacts) in self.artifacts(id) {
            for blob in artifacts.iter().flat_map(|fields| fields.blobs()) {
                sink.digest(&port, &blob.digest);
            }
        }
        sink.finish()
    }
}
