//! Trials of sweeps that do not take part any more.

use stage_core::StageError;
use stage_core::event::Event;

use super::board::State;
use super::schedule::Schedule;
use crate::engine::EngineError;
use crate::pipeline::StageId;
use crate::record::{FAILED, FailedRecord, encode};
use crate::sweep::halving::Part;

impl Schedule<'_> {
    /// Ends a stage that does not run: other trials are better, or its own has failed.
    pub fn leave_out(&mut self, id: StageId) -> Result<(), EngineError> {
        self.board.advance(id, State::Done)?;
        self.plan_below(id)
    }

    /// A stage of a trial failed, and the trial is to blame: it ranks last, and the run goes on.
    /// False for stages and failures that end the run. The failure is recorded, since the score of
    /// a trial must not change from run to run.
    pub fn trial_fails(&mut self, id: StageId, error: &StageError) -> Result<bool, EngineError> {
        let spec = self.pipeline.stage(id);
        let message = match error {
            StageError::Failed { message, .. } => message.clone(),
            StageError::TimedOut { .. } => error.with_advice(),
            _ => return Ok(false),
        };
        if self.planner.ranking(spec).is_none() || self.options.probe.is_some() {
            return Ok(false);
        }
        if let Some(keyed) = &self.board[id].known.keyed {
            let record = FailedRecord { run: self.run, message: message.clone() };
            self.store.cache().record(FAILED, &keyed.digest, encode(&record))?;
            self.committer.note(Vec::new());
        }
        let known = &mut self.board[id].known;
        known.part = Part::Failed;
        known.outputs.clear();
        let message = format!("the trial failed and ranks last: {message}");
        self.tell(Event::Note { stage: Some(self.name(id)), message });
        self.leave_out(id)?;
        Ok(true)
    }

    /// Fails the run if no trial of a sweep is left.
    pub fn require_trials(&mut self) -> Result<(), EngineError> {
        let hopeless = self.planner.hopeless(self.board.runs());
        let hopeless = hopeless.map_err(|error| error.at(String::new()))?;
        if let Some(event) = hopeless.map(no_trial_left) {
            self.is_hopeless = true;
            self.tell(event);
        }
        Ok(())
    }
}

/// Every trial of the sweep has failed.
pub fn no_trial_left(sweep: &crate::pipeline::Sweep) -> Event {
    Event::StageFailed {
        stage: sweep.stage.clone(),
        message: format!("every trial of sweep `{}` has failed", sweep.name),
        help: Some(
            "see the reasons in `throstle status`; to try again, change `salt` of the stage".into(),
        ),
    }
}
