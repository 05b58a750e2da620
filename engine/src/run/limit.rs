//! The batch size of a stage after a lack of memory, and what is remembered of it.
//!
//! It depends on the stage, on the models that the stage works with, on the device, and on the size
//! that was asked for, so that another one is tried. The next run begins with the size that
//! held. It enters no key of a result.

use cache::Digest;
use stage_core::Batching;
use stage_core::event::Event;
use stage_core::key::{HashSink, Sink};

use super::schedule::{Schedule, State};
use crate::engine::EngineError;
use crate::pipeline::StageId;
use crate::record::{LIMIT, decode, encode};

impl Schedule<'_> {
    /// The batch size that held in an earlier run.
    pub fn known_limit(&self, id: StageId) -> Result<Option<u64>, EngineError> {
        if !matches!(self.pipeline.stage(id).kind.batching, Batching::ByBytes { .. }) {
            return Ok(None);
        }
        let kept = self.store.cache().get(LIMIT, &self.limit_key(id))?;
        Ok(kept.and_then(|bytes| decode(&bytes)))
    }

    /// A batch of so many bytes did not get through: from here on, half of it at most.
    pub fn halve(&mut self, id: StageId, bytes: u64, message: String) {
        let State::Items(stage) = &mut self.states[id.0] else { return };
        let half = (bytes / 2).max(1);
        if stage.limit_bytes.is_none_or(|limit| half < limit) {
            stage.limit_bytes = Some(half);
            let stage = self.pipeline.stage(id).name.clone();
            (self.sink)(Event::BatchHalved { stage, bytes: half, message });
        }
    }

    /// For the next run. Not after the death of a worker, which may have had other causes.
    pub fn remember_limit(&mut self, id: StageId) -> Result<(), EngineError> {
        let State::Items(stage) = &self.states[id.0] else { return Ok(()) };
        let Some(bytes) = stage.limit_bytes else { return Ok(()) };
        self.store.cache().record(LIMIT, &self.limit_key(id), encode(&bytes))?;
        self.committer.note(Vec::new());
        Ok(())
    }

    fn limit_key(&self, id: StageId) -> Digest {
        let spec = self.pipeline.stage(id);
        let mut sink = HashSink::default();
        sink.text("batches of", spec.kind.name);
        sink.integer("version", i64::from(spec.kind.version));
        sink.text("device", &spec.policy.device);
        if let Batching::ByBytes { parameter } = spec.kind.batching {
            sink.integer("asked", spec.parameters.bytes(parameter).unwrap_or(0) as i64);
        }
        for (port, artifacts) in self.artifacts(id) {
            for blob in artifacts.iter().flat_map(|fields| fields.blobs()) {
                sink.digest(&port, &blob.digest);
            }
        }
        sink.finish()
    }
}
