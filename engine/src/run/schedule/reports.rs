//! Reports of running tasks, and the progress of stages.

use std::sync::Arc;

use crate::event::Event;
use stage_core::Reject;

use super::Schedule;
use crate::engine::EngineError;
use crate::pipeline::{StageId, StageWork};
use crate::record::{PROGRESS, encode};
use crate::run::message::ProgressReport;
use crate::run::training::SavedCheckpoint;

impl Schedule<'_> {
    pub(super) fn report(
        &mut self,
        id: StageId,
        report: ProgressReport,
    ) -> Result<(), EngineError> {
        let stage = self.name(id);
        match report {
            ProgressReport::Progress { done, total } => {
                let counts = self.board[id].counts;
                self.board[id].cost.progress = Some((done, total));
                self.tell(Event::Progress { stage, done, total, counts });
            }
            ProgressReport::Metrics { step, values } => {
                if self.run.stage(id).work == StageWork::Train {
                    self.board[id].cost.step(step, &values);
                }
                self.tell(Event::Metrics { stage, step, values });
            }
            ProgressReport::SetAside(rejects) => self.quarantine_items(id, rejects),
            ProgressReport::Begins(course) => self.tell(Event::TrainingStarted { stage, course }),
            ProgressReport::CheckpointKept(saved) => self.checkpoint_kept(id, saved)?,
        }
        Ok(())
    }

    fn quarantine_items(&mut self, id: StageId, rejects: Vec<(Arc<str>, Reject)>) {
        for (item, reject) in rejects {
            if self.board[id].aside.insert(item.clone(), reject.clone()).is_none() {
                self.tell_quarantined(id, &item, &reject);
            }
        }
    }

    fn checkpoint_kept(&mut self, id: StageId, saved: SavedCheckpoint) -> Result<(), EngineError> {
        let SavedCheckpoint { bytes, seconds, is_further } = saved;
        if is_further {
            // A stage that made progress gets its full number of retries again.
            self.board[id].attempt = 0;
        }
        self.tell(Event::CheckpointKept { stage: self.name(id), bytes, seconds });
        // For the estimate of the remaining work.
        let run = &self.board[id];
        if let (Some(keyed), Some(progress)) = (&run.known.keyed, run.cost.progress) {
            self.committer.record(PROGRESS, &keyed.digest, encode(&progress))?;
        }
        Ok(())
    }

    pub(super) fn tell_progress(&mut self) {
        for id in self.run.pipeline.ids() {
            let run = &mut self.board[id];
            let counts = run.counts;
            let done = counts.executed + counts.reused;
            let Some(total) = run.items().map(|stage| stage.total.max(done)) else { continue };
            if run.reported.replace(done) != Some(done) {
                let stage = self.name(id);
                self.tell(Event::Progress { stage, done, total, counts });
            }
        }
    }
}
