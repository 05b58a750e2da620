//! The end of stages: their outcomes, and the stages that have waited for them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::Event;
use stage_core::StageError;

use super::Schedule;
use crate::engine::EngineError;
use crate::failed_output::{self, FailedOutput};
use crate::pipeline::{StageId, StageSpec, StageWork};
use crate::plan::inputs::{arriving, arriving_items};
use crate::plan::reasons::differences;
use crate::plan::{PlannedValue, planned};
use crate::record::{
    LAST, LastRecord, MADE_OF, PortValue, Previous, STAGE, StageRecord, encode, last_key,
};
use crate::run::board::StageState;
use crate::run::items::item_stage::ItemStage;
use crate::run::message::{Failure, ItemOutcome, Outcome};
use crate::run::obstacles::Obstacle;
use crate::run::tasks::{InFlight, Overdue};
use crate::settled::settled_key;
use crate::tables::close_dataset;

impl Schedule<'_> {
    /// Ends a source: reports its quarantined items, and fails if there are too many.
    pub(super) fn end_scanned(
        &mut self,
        id: StageId,
        record: StageRecord,
    ) -> Result<(), EngineError> {
        let run = &mut self.board[id];
        (run.counts.executed, run.counts.quarantined) = (1, 0);
        run.notes = record.notes.clone();
        for (item, reject) in &record.rejects {
            self.tell_quarantined(id, item, reject);
        }
        let found = |value: &PortValue| match value {
            PortValue::Dataset { items, .. } => *items,
            PortValue::Artifact(_) => 1,
        };
        let total =
            record.rejects.len() as u64 + record.outputs.values().map(found).max().unwrap_or(0);
        if self.exceeds_limit(id, total, &[&record.rejects])? {
            return Ok(());
        }
        self.end_with(id, record, true)
    }

    /// Ends item stages in which everything is decided and all items have arrived. True if there
    /// was one.
    pub(super) fn finish_complete(&mut self) -> Result<bool, EngineError> {
        let mut ended = false;
        while let Some(id) = self.board.candidates.take() {
            let is_complete = self.board[id].items().is_some_and(ItemStage::is_complete);
            if is_complete && self.upstream_is_done(id) {
                self.finish_items(id)?;
                ended = true;
            }
        }
        Ok(ended)
    }

    pub(super) fn upstream_is_done(&self, id: StageId) -> bool {
        self.run.stage(id).upstream().all(|above| self.board.is(above, StageState::Done))
    }

    fn finish_items(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.run.stage(id);
        let Some(stage) = self.board.close_items(id)? else { return Ok(()) };
        self.threads.close(stage.job.number);
        let bad = (stage.rejects.len() + stage.failures.len()) as u64;
        // Items that upstream stages have quarantined meanwhile never arrived.
        let kept: u64 = stage.closed.iter().map(|bucket| u64::from(bucket.items)).sum();
        let counts = self.board[id].counts;
        let items = match stage.expands {
            // Its items are those that it was given.
            Some(_) => (counts.executed + counts.reused).max(bad),
            None => kept + bad,
        };
        self.key_late(id)?;
        if self.exceeds_limit(id, items, &[&stage.rejects, &stage.failures])? {
            return Ok(());
        }
        if !stage.failures.is_empty() {
            // Failures are no results: without this list, nothing would tell them after the run.
            self.keep_unrecorded(id, [&stage.rejects[..], &stage.failures[..]].concat())?;
            self.board[id].failed_items = stage.failures.clone();
        }
        let value = close_dataset(self.store(), stage.bits, stage.closed)?;
        let (run, port) = (&self.board[id], spec.kind.outputs.first());
        let record = StageRecord {
            outputs: port.map(|port| (port.name.to_owned(), value)).into_iter().collect(),
            rejects: stage.rejects,
            items,
            notes: run.notes.clone(),
            seconds: if stage.pace > 0.0 {
                stage.pace * items as f64
            } else {
                run.expected_seconds
            },
            ..StageRecord::default()
        };
        self.end_with(id, record, stage.failures.is_empty())
    }

    /// Computes the key of an item stage that was planned with pending items.
    fn key_late(&mut self, id: StageId) -> Result<(), EngineError> {
        if self.board[id].known.keyed.is_some() {
            return Ok(());
        }
        let spec = self.run.stage(id);
        let files = self.planner.file_digests(spec);
        let arriving = arriving(self.run.pipeline, self.board.runs(), &self.planner.assets, spec);
        let keyed = arriving.key(self.store(), &files, true);
        self.board[id].known.keyed = self.or_lost(id, keyed)?;
        Ok(())
    }

    /// Ends a stage with an outcome.
    fn end_with(
        &mut self,
        id: StageId,
        record: StageRecord,
        remember: bool,
    ) -> Result<(), EngineError> {
        self.warn_if_empty(id, &record);
        let outputs = outputs(self.run.stage(id), &record);
        let run = &mut self.board[id];
        run.known.outputs = outputs;
        run.known.rejects = record.rejects.clone();
        if let (Some(keyed), true) = (&run.known.keyed, remember) {
            let settled = settled_key(&keyed.key, &record.settled).map(|key| key.digest());
            for key in settled.iter().chain([&keyed.digest]) {
                self.committer.record(STAGE, key, encode(&record))?;
            }
        }
        self.end_stage(id)
    }

    /// Warns about a stage on whole data sets that leaves no item to its main output.
    fn warn_if_empty(&mut self, id: StageId, record: &StageRecord) {
        let spec = self.run.stage(id);
        let port = spec.kind.outputs.first().map(|port| port.name);
        let output = port.and_then(|port| record.outputs.get(port));
        let items = arriving_items(self.run.pipeline, self.board.runs(), id);
        let is_empty = matches!(output, Some(PortValue::Dataset { items: 0, .. }));
        if spec.work != StageWork::Gather || !is_empty || items == 0 {
            return;
        }
        let counted = record.notes.iter().map(|(note, count)| format!("{note}: {count}"));
        let counted = counted.collect::<Vec<_>>().join(", ");
        let counted = if counted.is_empty() { counted } else { format!(" ({counted})") };
        let names = spec.kind.parameters.iter().map(|parameter| format!("`{}`", parameter.name));
        let names = names.collect::<Vec<_>>().join(", ");
        let message =
            format!("warning: no item is left of {items}{counted}; the stage has {names}");
        self.tell(Event::Note { stage: Some(self.name(id)), message });
    }

    pub(super) fn end_stage(&mut self, id: StageId) -> Result<(), EngineError> {
        self.board.advance(id, StageState::Done)?;
        self.end_measure(id)?;
        self.remember_last(id)?;
        let (counts, notes) = (self.board[id].counts, self.board[id].notes.clone());
        self.tell(Event::StageFinished { stage: self.name(id), counts, notes });
        self.plan_below(id)
    }

    /// A stage has ended.
    pub(super) fn plan_below(&mut self, id: StageId) -> Result<(), EngineError> {
        // Stages that waited for this one are planned, as far as the initial plan could not.
        for below in self.board.candidates.below(id).to_vec() {
            if self.board.is(below, StageState::AwaitsInputs) {
                self.plan_waiting(below)?;
            }
        }
        Ok(())
    }

    /// Records the state of the stage, so that the next run can explain differences.
    fn remember_last(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.run.stage(id);
        let run = &mut self.board[id];
        let Some(keyed) = run.known.keyed.clone() else { return Ok(()) };
        let last = self.planner.last(spec).map_err(|error| error.at(spec.name.clone()))?;
        if last.as_ref().is_some_and(|last| last.key == keyed.key && last.roots == keyed.roots) {
            return Ok(());
        }
        let mut reasons = run.reasons.clone();
        if let Some(last) = &last
            && (reasons.is_empty() || spec.work == StageWork::Item)
        {
            reasons = match run.differences.take() {
                Some((run, known)) if run == last.run => known,
                _ => differences(self.store(), spec, last, &keyed),
            };
        }
        let (digest, made_of) = (keyed.digest, (keyed.key.clone(), keyed.roots.clone()));
        self.committer.record(MADE_OF, &digest, encode::<Previous>(&made_of))?;
        let record = LastRecord {
            run: self.run.number,
            reasons,
            previous: last.map(|last| Box::new((last.key, last.roots))),
            key: keyed.key,
            roots: keyed.roots,
        };
        let key = last_key(&self.run.pipeline.name, &spec.name);
        Ok(self.committer.record(LAST, &key, encode(&record))?)
    }

    pub(super) fn gather_done(
        &mut self,
        task: InFlight,
        result: Result<StageRecord, Failure>,
        (written, took): (u64, Option<Duration>),
    ) -> Result<(), EngineError> {
        let id = task.stage;
        let seconds = took.unwrap_or_else(|| task.started.elapsed()).as_secs_f64();
        self.board[id].counts.seconds += seconds;
        if self.is_on_gpu(id) {
            self.budget.count_task(task.started, &self.threads)?;
            self.committer.mark();
        }
        match result {
            Ok(mut record) => {
                record.seconds = seconds;
                self.end_training(id, seconds);
                let size = arriving_items(self.run.pipeline, self.board.runs(), id) as f64;
                let run = &mut self.board[id];
                match self.run.stage(id).work {
                    StageWork::Train => run.cost.add_output(size, seconds, written),
                    _ => run.cost.add(size, seconds, written),
                }
                run.counts.executed += 1;
                run.notes = record.notes.clone();
                if let Some(error) = record.failure.take() {
                    self.gather_failed(id, Failure::Stage(error))?;
                    return self.keep_judged(id, record);
                }
                self.end_with(id, record, true)?;
                self.committer.note(task.claims);
                self.committer.start_if_due();
                Ok(())
            }
            // The pass ends and the stage is planned again.
            Err(_) if self.obstacles.has(Obstacle::Loss) => {
                self.board.advance(id, StageState::Left)
            }
            Err(Failure::Stage(StageError::Stopped)) => {
                self.board.advance(id, StageState::Left)?;
                self.end_training(id, seconds);
                if !self.run.options.stop.is_requested()
                    && !self.obstacles.has(Obstacle::MachineFault)
                {
                    let event = self.budget.has_saved(self.is_on_gpu(id));
                    event.into_iter().for_each(|event| self.tell(event));
                }
                Ok(())
            }
            Err(failure) => self.gather_failed(id, failure.of_the_item()),
        }
    }

    /// A training has ended or was stopped.
    fn end_training(&mut self, id: StageId, seconds: f64) {
        if !self.run.is_probe() {
            self.board[id].cost.unwritten.training.end(seconds);
        }
    }

    /// Keeps the output of a stage that has failed all the same.
    fn keep_judged(&mut self, id: StageId, record: StageRecord) -> Result<(), EngineError> {
        if !self.board.is(id, StageState::Failed) {
            return Ok(());
        }
        let (pipeline, spec) = (&self.run.pipeline.name, self.run.stage(id));
        self.board[id].judged = outputs(spec, &record);
        let judged = FailedOutput { run: self.run.number, outputs: record.outputs };
        failed_output::keep(self.run.cache, pipeline, &spec.name, &judged)?;
        self.committer.mark();
        self.committer.start_if_due();
        Ok(())
    }

    fn gather_failed(&mut self, id: StageId, failure: Failure) -> Result<(), EngineError> {
        let passing = matches!(
            failure,
            Failure::Died { .. }
                | Failure::Stage(
                    StageError::Died { .. }
                        | StageError::Transient { .. }
                        | StageError::Machine { .. }
                )
        );
        if passing && self.board[id].attempt < self.run.stage(id).policy.retries {
            self.board[id].attempt += 1;
            let (stage, attempt) = (self.name(id), self.board[id].attempt);
            self.tell(Event::Retried { what: stage.clone(), stage, attempt });
            return self.board.advance(id, StageState::AwaitsThread);
        }
        let error = match failure {
            Failure::Stage(error) if error.is_of_machine() => {
                self.pause_at(id, &error);
                return self.board.advance(id, StageState::Left);
            }
            Failure::Stage(error) if self.trial_fails(id, &error)? => return Ok(()),
            Failure::Stage(error) | Failure::Open(error) => error,
            Failure::Died { message } => StageError::failed(message),
        };
        self.fail_for_now(id, &error)?;
        let own: Vec<_> = self.board[id].aside.clone().into_iter().collect();
        if own.is_empty() { Ok(()) } else { self.keep_unrecorded(id, own) }
    }

    /// Ends work that exceeds the time limit of its stage.
    pub(super) fn end_overdue(&mut self) -> Result<(), EngineError> {
        let (run, threads) = (self.run, &self.threads);
        let limit = |id| {
            let spec = run.stage(id);
            let limit = spec.policy.timeout_seconds.filter(|_| !spec.kind.watches_time)?;
            (!run.is_on_executor(id)).then_some(limit)
        };
        let overdue = self.tasks.overdue(|ticket| threads.is_running(ticket), limit);
        for Overdue { ticket, limit_seconds, items } in overdue {
            self.threads.abandon(ticket).map_err(EngineError::Thread)?;
            let failure = Failure::Stage(StageError::timed_out(limit_seconds));
            let outcome = match items {
                0 => Outcome::Gather(Err(failure)),
                count => Outcome::Items(vec![ItemOutcome::Failed(failure); count]),
            };
            self.done(ticket, outcome, Vec::new(), (0, None))?;
        }
        Ok(())
    }
}

/// The values of the ports of a stage with an outcome.
fn outputs(spec: &StageSpec, record: &StageRecord) -> BTreeMap<&'static str, PlannedValue> {
    let ports = spec.kind.outputs.iter();
    let values =
        ports.filter_map(|port| Some((port.name, planned(record.outputs.get(port.name)?))));
    values.collect()
}
