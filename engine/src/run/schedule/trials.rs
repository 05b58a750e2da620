//! Trials of sweeps that fail, or do not take part any more.

use crate::event::Event;
use cache::Table;
use stage_core::StageError;

use super::Schedule;
use crate::engine::EngineError;
use crate::pipeline::{StageId, StageSpec};
use crate::plan::sweep::failed_here_key;
use crate::record::{FAILED, FAILED_HERE, FailedRecord, TRIES, decode, encode};
use crate::run::board::StageState;
use crate::run::items::item_stage::Slot;
use crate::run::obstacles::Obstacle;
use crate::sweep::halving::Part;

/// After as many runs with failures that might have passed, the trial is to blame.
const RUNS: u32 = 2;
/// With as many failed trials and none that works, the program or the machine is to blame.
const HOPELESS: usize = 3;

impl Schedule<'_> {
    /// Ends a stage that does not run: other trials are better, or its own has failed.
    pub(super) fn leave_out(&mut self, id: StageId) -> Result<(), EngineError> {
        self.board.advance(id, StageState::Done)?;
        self.plan_below(id)
    }

    /// Tests if a stage belongs to a trial that a sweep ranks.
    pub(super) fn is_ranked(&self, id: StageId) -> bool {
        !self.run.is_probe() && self.planner.ranking(self.run.stage(id)).is_some()
    }

    /// Tests if an item has exceeded the time limit of its trial.
    pub(super) fn is_late(&self, id: StageId) -> bool {
        self.board[id].items().is_some_and(|stage| stage.is_late)
    }

    /// A trial that exceeds its time limit ranks last, so that the rest of its items is left.
    pub(super) fn trial_is_late(&mut self, id: StageId) {
        let Some(stage) = self.board[id].items_mut() else { return };
        stage.is_late = true;
        let held = stage.program_check.take().map(|check| check.held);
        for item in held.unwrap_or_default() {
            self.free_duplicates(&item.queued);
            self.board.requeue(id, item.queued);
        }
    }

    /// Leaves the queued items of a late trial. True if there were any.
    pub(super) fn leave_rest(&mut self, id: StageId) -> Result<bool, EngineError> {
        let Some(stage) = self.board[id].items_mut().filter(|stage| stage.is_late) else {
            return Ok(false);
        };
        let rest: Vec<_> = stage.queue.drain().collect();
        let any = !rest.is_empty();
        for queued in rest {
            self.decide(id, &queued, Slot::Left)?;
        }
        Ok(any)
    }

    /// A stage of a trial failed, and the trial is to blame: it ranks last, and the run goes on.
    /// False for stages and failures that end the run. The failure is recorded, since the score of
    /// a trial must not change from run to run.
    pub(super) fn trial_fails(
        &mut self,
        id: StageId,
        error: &StageError,
    ) -> Result<bool, EngineError> {
        match error {
            StageError::Failed { message, .. } => self.trial_ranks_last(id, FAILED, message),
            // Another machine may be faster.
            StageError::TimedOut { .. } => {
                self.trial_ranks_last(id, FAILED_HERE, &error.with_advice())
            }
            _ => Ok(false),
        }
    }

    /// The same with the table of the record.
    pub(super) fn trial_ranks_last(
        &mut self,
        id: StageId,
        table: Table,
        message: &str,
    ) -> Result<bool, EngineError> {
        if !self.is_ranked(id) {
            return Ok(false);
        }
        self.record_failure(id, table, message)?;
        let known = &mut self.board[id].known;
        known.part = Part::Failed;
        known.outputs.clear();
        let message = format!("the trial failed and ranks last: {message}");
        self.tell(Event::Note { stage: Some(self.name(id)), message });
        self.leave_out(id)?;
        Ok(true)
    }

    fn record_failure(
        &mut self,
        id: StageId,
        table: Table,
        message: &str,
    ) -> Result<(), EngineError> {
        if let Some(keyed) = &self.board[id].known.keyed {
            let record = FailedRecord { run: self.run.number, message: message.to_owned() };
            let key = match table {
                FAILED_HERE => failed_here_key(self.run.stage(id), &keyed.digest),
                _ => keyed.digest,
            };
            self.committer.record(table, &key, encode(&record))?;
        }
        Ok(())
    }

    /// Fails a stage for a reason that may pass, such as a program that died. Other trials of its sweep
    /// go on. A trial that fails so again and again, while the stage works in others, ranks last from
    /// the next run on.
    pub(super) fn fail_for_now(
        &mut self,
        id: StageId,
        error: &StageError,
    ) -> Result<(), EngineError> {
        if !self.is_ranked(id) || self.board.is(id, StageState::Failed) {
            return self.fail(id, error);
        }
        self.board[id].failed_for_now = Some(error.to_string());
        let works = self.works_in_another_trial(id);
        let failed =
            self.run.pipeline.ids().filter(|id| self.board.is(*id, StageState::Failed)).count();
        self.end_failed(id, error, !works && failed + 1 >= HOPELESS)
    }

    /// Counts the failures of trials that may pass, once the pass has ended: a failure counts if the
    /// stage works in another trial, whichever of the two has ended first.
    pub(super) fn count_failures(&mut self) -> Result<(), EngineError> {
        if self.obstacles.has(Obstacle::Loss) {
            // The next pass plans and runs them again.
            return Ok(());
        }
        for id in self.board.failed() {
            let Some(error) = self.board[id].failed_for_now.take() else { continue };
            let keyed = self.board[id].known.keyed.clone();
            let Some(keyed) = keyed.filter(|_| self.works_in_another_trial(id)) else { continue };
            let before =
                self.run.cache.get(TRIES, &keyed.digest)?.and_then(|bytes| decode::<u32>(&bytes));
            let tries = before.unwrap_or(0).saturating_add(1);
            self.committer.record(TRIES, &keyed.digest, encode(&tries))?;
            if tries >= RUNS {
                let message = format!("failed in {tries} runs; last error: {error}");
                self.record_failure(id, FAILED_HERE, &message)?;
            }
        }
        Ok(())
    }

    /// Tests if another trial has the outcome of the same stage: the program itself works here.
    fn works_in_another_trial(&self, id: StageId) -> bool {
        let spec = self.run.stage(id);
        let trial = |spec: &StageSpec| spec.place.map(|place| (place.sweep, place.trial));
        let sweep = |spec: &StageSpec| spec.place.map(|place| place.sweep);
        let is_same = |other: &&StageSpec| {
            other.written() == spec.written()
                && sweep(other) == sweep(spec)
                && trial(other) != trial(spec)
        };
        let has_outcome = |other: &StageSpec| {
            let run = &self.board[other.id];
            run.state() == StageState::Done && !run.known.outputs.is_empty()
        };
        self.run.pipeline.stages.iter().filter(is_same).any(has_outcome)
    }

    /// Fails the run if no trial of a sweep is left.
    pub(super) fn require_trials(&mut self) -> Result<(), EngineError> {
        let lost_sweep = self.planner.lost_sweep(self.board.runs());
        let lost_sweep = lost_sweep.map_err(|error| error.at(String::new()))?;
        if let Some(event) = lost_sweep.map(|lost_sweep| lost_sweep.event()) {
            self.obstacles.add(Obstacle::NoTrial);
            self.tell(event);
        }
        Ok(())
    }
}
