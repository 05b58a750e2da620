//! The training stages of a run: the inputs of their task, and its reports.

use std::collections::BTreeMap;

use stage_core::course::Course;
use stage_core::event::Event;

use super::schedule::{Schedule, State};
use super::training::{Pace, Saved, Training};
use crate::engine::EngineError;
use crate::pipeline::{StageId, StageWork};
use crate::record::{PROGRESS, encode};

impl Schedule<'_> {
    /// The identity of a training task. The choice of a parent is recorded before the work begins,
    /// so that a later run continues from the same one.
    pub fn training(&self, id: StageId) -> Result<Option<Training>, EngineError> {
        let spec = self.pipeline.stage(id);
        let Some(keyed) = self.plans[id.0].keyed.as_ref().filter(|_| spec.work == StageWork::Train)
        else {
            return Ok(None);
        };
        let chosen = self.planner.choose_parent(spec, keyed);
        let limit = self.is_on_gpu(id).then(|| self.gpus.deadline(self.store.cache())).flatten();
        let parent = chosen.and_then(|()| self.planner.parent(spec, keyed));
        Ok(Some(Training {
            key: keyed.digest,
            pipeline: self.pipeline.name.clone(),
            run: self.run,
            parent: parent.map_err(|error| error.at(spec.name.clone()))?,
            is_probe: self.options.probe.is_some(),
            pace: Pace::until(
                [self.options.deadline, limit, self.spending.deadline()]
                    .into_iter()
                    .flatten()
                    .min(),
            ),
        }))
    }

    pub fn training_begins(&mut self, ticket: u64, course: Course) {
        if let Some(task) = self.in_flight.get(&ticket) {
            let stage = self.pipeline.stage(task.stage).name.clone();
            (self.sink)(Event::TrainingStarted { stage, course });
        }
    }

    pub fn metrics(&mut self, ticket: u64, step: u64, values: BTreeMap<String, f64>) {
        if let Some(task) = self.in_flight.get(&ticket) {
            let id = task.stage;
            let stage = self.pipeline.stage(id).name.clone();
            self.measure_step(id, step, &values);
            (self.sink)(Event::Metrics { stage, step, values });
        }
    }

    /// A stage that made progress gets its full number of retries again.
    pub fn checkpoint_kept(&mut self, ticket: u64, saved: Saved) -> Result<(), EngineError> {
        let Some(task) = self.in_flight.get(&ticket) else { return Ok(()) };
        let id = task.stage;
        if let (State::Whole { attempt }, true) = (&mut self.states[id.0], saved.is_further) {
            *attempt = 0;
        }
        let stage = self.pipeline.stage(id).name.clone();
        let Saved { bytes, seconds, .. } = saved;
        (self.sink)(Event::CheckpointKept { stage, bytes, seconds });
        self.keep_progress(id)
    }

    /// Records the progress of a checkpoint, for the estimate of the remaining work.
    fn keep_progress(&mut self, id: StageId) -> Result<(), EngineError> {
        let keyed = self.plans[id.0].keyed.as_ref();
        if let (Some(keyed), Some(progress)) = (keyed, self.meter.progress(id)) {
            self.store.cache().record(PROGRESS, &keyed.digest, encode(&progress))?;
            self.committer.note(Vec::new());
        }
        Ok(())
    }
}
