//! The start of stages: at the beginning of a pass, and once their inputs are known.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::Event;
use cache::Digest;
use stage_core::{Batching, Fields, StageError};

use super::Schedule;
use crate::engine::EngineError;
use crate::history;
use crate::pipeline::StageId;
use crate::plan::items::item_reads;
use crate::plan::{PlannedValue, StagePlan, Work, main_output};
use crate::record::{STAGE, StageRecord, encode};
use crate::run::arrived;
use crate::run::board::StageState;
use crate::run::export_paths::left_out;
use crate::run::items::batch::KeptLimit;
use crate::run::items::intake::Intake;
use crate::run::items::item_stage::ItemStage;
use crate::run::items::program_check::ProgramCheck;

impl Schedule<'_> {
    /// Starts every stage with known work, and then passes known outputs on.
    pub(super) fn activate_all(&mut self, works: Vec<(StageId, Work)>) -> Result<(), EngineError> {
        for (id, work) in works {
            if self.board.is(id, StageState::Planned) {
                self.activate(id, work)?;
            }
        }
        self.run.pipeline.ids().try_for_each(|id| self.check_export_paths(id))?;
        for id in self.run.pipeline.ids() {
            self.board.close_known(&self.planner.store, id)?;
        }
        self.finish_complete().map(drop)
    }

    /// Starts the work of a planned stage.
    fn activate(&mut self, id: StageId, work: Work) -> Result<(), EngineError> {
        match work {
            Work::AwaitsInputs | Work::AwaitsFile | Work::Unwanted => Ok(()),
            Work::LeftOut => self.leave_out(id),
            Work::Nothing(record) => {
                self.keep_settled(id, &record)?;
                self.end_stage(id)
            }
            Work::Scanned(record) => {
                self.tell_started(id, 1);
                self.end_scanned(id, record)
            }
            Work::Whole => {
                self.tell_started(id, 1);
                self.board.advance(id, StageState::AwaitsThread)
            }
            Work::Items(work) => {
                let spec = self.run.stage(id);
                let todo = self.board[id].todo;
                let total = todo + self.board[id].counts.reused;
                self.tell_started(id, total);
                let key = work.job.unwrap_or(Digest::from_bytes([0; 32]));
                let job = Arc::new(self.job_handle(id)?);
                let mut stage = ItemStage::new(work, Intake { key, reads: item_reads(spec) }, job);
                stage.total = total;
                stage.program_check = ProgramCheck::of(spec, todo);
                if spec.kind.batching != Batching::Single {
                    let kept = KeptLimit::of(spec, &self.artifacts(id));
                    stage.batch_limit = kept.read(self.run.cache)?;
                }
                stage.rejects = self.board[id].known.rejects.clone();
                self.board.begin_items(id, stage)
            }
        }
    }

    /// Records an outcome that the plan has put together from known items like any other.
    fn keep_settled(&mut self, id: StageId, record: &StageRecord) -> Result<(), EngineError> {
        let run = &self.board[id];
        // Items quarantined in a stored outcome may have new names.
        let is_kept = |kept: &StageRecord| kept.aside == record.aside;
        if let (Some(keyed), false) = (&run.known.keyed, run.is_unchanged)
            && !history::outcome_of(self.run.cache, &keyed.digest)?
                .is_some_and(|kept| is_kept(&kept))
        {
            self.committer.record(STAGE, &keyed.digest, encode(record))?;
        }
        Ok(())
    }

    /// Nothing, if no work of the stage begins because the run ends.
    fn tell_started(&mut self, id: StageId, total: u64) {
        if !self.may_start() {
            return;
        }
        let reasons = self.board[id].reasons.iter().map(ToString::to_string).collect();
        let trial = self.run.pipeline.values_of(self.run.stage(id));
        self.tell(Event::StageStarted { stage: self.name(id), total, reasons, trial });
    }

    /// Finds pending items of a stage that exports cannot name a file after.
    fn check_export_paths(&mut self, id: StageId) -> Result<(), EngineError> {
        let Some(stage) = self.board[id].items() else { return Ok(()) };
        let is_wanted = |id| !self.board.is(id, StageState::Unwanted);
        let items = stage.queue.iter().map(|queued| &queued.item);
        for (exporting, left_out) in
            left_out(self.run.pipeline, &is_wanted, (id, stage.total), items)
        {
            let spec = self.run.stage(exporting);
            let message = left_out.to_string();
            if spec.policy.quarantine.is_exceeded(left_out.items, left_out.of) {
                let help = "correct these names or add the field, or choose another `export` path";
                self.fail(exporting, &StageError::with_help(message, help))?;
            } else {
                self.tell(Event::Note { stage: Some(spec.name.clone()), message });
            }
        }
        Ok(())
    }

    /// Plans a stage from the present outcomes upstream, and starts it if its work is known.
    pub(super) fn plan_waiting(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.run.stage(id);
        for above in spec.upstream() {
            let run = &mut self.board[above];
            if let Some(stage) = run.items() {
                let partial = PlannedValue::Partial(Arc::new(stage.snapshot()));
                let rejects = stage.rejects.clone();
                run.known.outputs = main_output(self.run.stage(above), partial);
                run.known.rejects = rejects;
            }
        }
        let plan = self.planner.stage(spec, self.board.runs(), self.sink);
        let Some(plan) = self.or_lost(id, plan)? else { return Ok(()) };
        if matches!(plan.work, Work::AwaitsInputs | Work::AwaitsFile) {
            return Ok(());
        }
        let work = self.board.replan(id, plan)?;
        self.activate(id, work)?;
        self.check_export_paths(id)?;
        self.board.close_known(&self.planner.store, id)?;
        self.finish_complete().map(drop)
    }

    /// Checks if another process has finished a stage meanwhile. True if nothing is left to do.
    pub(super) fn take_finished(&mut self, id: StageId) -> Result<bool, EngineError> {
        let Some(keyed) = self.board[id].known.keyed.clone() else { return Ok(false) };
        let spec = self.run.stage(id);
        let known = self.planner.known_whole(spec, &keyed, &mut Vec::new());
        let plan = match self.or_lost(id, known)?.flatten() {
            Some(record) => Some(StagePlan::fresh(spec, keyed, record)),
            None => {
                let failure = self.planner.failure(spec, &keyed);
                self.or_lost(id, failure)?.flatten()
            }
        };
        let Some(plan) = plan else { return Ok(false) };
        let work = self.board.replan(id, plan)?;
        self.activate(id, work)?;
        Ok(true)
    }

    /// The input artifacts of a stage, by port.
    pub(super) fn artifacts(&self, id: StageId) -> BTreeMap<String, Vec<Fields>> {
        let spec = self.run.stage(id);
        arrived::artifacts(self.run.pipeline, self.board.runs(), &self.planner.assets, spec)
    }
}
