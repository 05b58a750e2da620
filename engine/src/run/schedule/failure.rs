//! Failures of whole stages: what they mean for the run.

use std::sync::Arc;

use crate::event::Event;
use stage_core::{Reject, StageError};

use super::Schedule;
use crate::engine::EngineError;
use crate::pipeline::{ITEMS, Reference, StageId, StageWork};
use crate::record::FAILED_HERE;
use crate::run::board::StageState;
use crate::run::items::quarantine_list::LimitExceeded;
use crate::run::items::reaction::TIMED_OUT;
use crate::run::obstacles::Obstacle;
use crate::unrecorded::{self, UnrecordedEnd};

impl Schedule<'_> {
    /// Fails a stage that has quarantined more of its items than it may. True if it has; the items
    /// are kept to be listed.
    pub(super) fn exceeds_limit(
        &mut self,
        id: StageId,
        total: u64,
        aside: &[&[(Arc<str>, Reject)]],
    ) -> Result<bool, EngineError> {
        let bad = aside.iter().map(|list| list.len() as u64).sum();
        let limit = self.run.stage(id).policy.quarantine;
        let failures = aside.get(1).copied().unwrap_or_default();
        // Without these items, the score of a trial could be another one in each run.
        let is_unscored = self.is_ranked(id) && !failures.is_empty();
        if !limit.is_exceeded(bad, total) && !is_unscored {
            return Ok(false);
        }
        self.keep_unrecorded(id, aside.concat())?;
        let late = failures.iter().find(|(_, failure)| failure.code == TIMED_OUT);
        let error = match late.or(failures.first()).filter(|_| is_unscored) {
            Some((item, failure)) => {
                StageError::failed(format!("item `{item}`: {}", failure.reason))
            }
            None => self.too_many(id, (bad, total)).error(&aside.concat()),
        };
        // Items that failed without a verdict may succeed the next time; a trial that exceeds its own
        // time limit is to blame for that.
        if !failures.is_empty() && late.is_none() {
            self.fail_for_now(id, &error)?;
        } else if !self.trial_ranks_last(id, FAILED_HERE, &error.to_string())? {
            self.fail(id, &error)?;
        }
        Ok(true)
    }

    fn too_many(&self, id: StageId, (quarantined, of): (u64, u64)) -> LimitExceeded<'_> {
        let spec = self.run.stage(id);
        let references = spec.inputs.get(ITEMS).into_iter().flat_map(|input| &input.references);
        let name = |reference: &Reference| match reference {
            Reference::Stage { stage, .. } => Some(format!("`{}`", self.name(*stage))),
            Reference::Asset(_) => None,
        };
        let from = references.filter_map(name).collect();
        let limit = spec.policy.quarantine;
        LimitExceeded { stage: &spec.name, kind: spec.kind, limit, quarantined, of, from }
    }

    /// Keeps the items that a stage has quarantined when it ends without a recorded outcome.
    pub(super) fn keep_unrecorded(
        &mut self,
        id: StageId,
        mut rejects: Vec<(Arc<str>, Reject)>,
    ) -> Result<(), EngineError> {
        let (pipeline, stage) = (&self.run.pipeline.name, &self.run.stage(id).name);
        rejects.sort_by(|(one, _), (other, _)| one.cmp(other));
        let unrecorded = UnrecordedEnd { run: self.run.number, rejects };
        unrecorded::keep(self.run.cache, pipeline, stage, &unrecorded)?;
        self.committer.mark();
        Ok(())
    }

    /// Fails a stage; its downstream stages do not start.
    pub(super) fn fail(&mut self, id: StageId, error: &StageError) -> Result<(), EngineError> {
        self.end_failed(id, error, true)
    }

    /// The same; the run ends if the failure `ends_run`, unless it is to go on after any, or a training is
    /// still to come and the stage only compares models.
    pub(super) fn end_failed(
        &mut self,
        id: StageId,
        error: &StageError,
        ends_run: bool,
    ) -> Result<(), EngineError> {
        if self.board.is(id, StageState::Failed) {
            return Ok(());
        }
        if let Some(stage) = self.board[id].items() {
            self.threads.close(stage.job.number);
        }
        self.board.advance(id, StageState::Failed)?;
        let (message, help) = (error.to_string(), error.help().map(str::to_owned));
        self.tell(Event::StageFailed { stage: self.name(id), message, help });
        if !ends_run || self.run.options.keep_going || self.obstacles.has(Obstacle::Failure) {
            return Ok(());
        }
        match self.training_without(id) {
            Some(training) => {
                let message = format!(
                    "no training depends on this stage: `{}` and all other stages that do not depend on \
                     it still run; then the run ends as failed",
                    self.name(training)
                );
                self.tell(Event::Note { stage: Some(self.name(id)), message });
            }
            None => {
                self.obstacles.add(Obstacle::Failure);
            }
        }
        Ok(())
    }

    /// An unfinished training, if the failed stage only compares models: its failure does not end
    /// the run.
    fn training_without(&self, id: StageId) -> Option<StageId> {
        let is_training = |id: &StageId| {
            let is_open = !self.board[*id].state().is_final();
            is_open && self.run.stage(*id).work == StageWork::Train
        };
        let mut trainings = self.run.pipeline.ids().filter(is_training);
        trainings.find(|_| self.precedence.only_compares(id))
    }
}
