//! Stages as a whole: their start, and the effect of their end on downstream stages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stage_core::event::Event;
use stage_core::{Batching, Fields, StageError};

use super::arrived;
use super::batch::KeptLimit;
use super::board::State;
use super::export_paths::left_out;
use super::intake::Intake;
use super::item_stage::ItemStage;
use super::message::{Failure, ItemOutcome, Outcome};
use super::program_check::ProgramCheck;
use super::schedule::{InFlight, Schedule};
use crate::engine::EngineError;
use crate::history;
use crate::judged::{self, Judged};
use crate::pipeline::{StageId, StageSpec, StageWork};
use crate::plan::inputs::{arriving, arriving_items};
use crate::plan::items::item_reads;
use crate::plan::reasons::differences;
use crate::plan::{Planned, StagePlan, Work, main_output, planned};
use crate::record::{
    LAST, LastRecord, MADE_OF, PortValue, Previous, STAGE, StageRecord, encode, last_key,
};
use crate::settled::settled_key;
use crate::tables::close_dataset;

/// The time in seconds that work may take beyond its limit: a stage that ends its program itself also
/// tells what the program said.
const OVERTIME: f64 = 1.0;

impl Schedule<'_> {
    /// Starts every stage with known work, and then passes known outputs on.
    pub fn activate_all(&mut self, works: Vec<(StageId, Work)>) -> Result<(), EngineError> {
        for (id, work) in works {
            if self.board.is(id, State::Planned) {
                self.activate(id, work)?;
            }
        }
        self.pipeline.ids().try_for_each(|id| self.check_export_paths(id))?;
        self.pipeline.ids().try_for_each(|id| self.close_known(id))?;
        self.finish_complete().map(drop)
    }

    /// Starts the work of a planned stage.
    fn activate(&mut self, id: StageId, work: Work) -> Result<(), EngineError> {
        match work {
            Work::AwaitsInputs | Work::AwaitsFile | Work::Unwanted => Ok(()),
            Work::LeftOut => self.leave_out(id),
            Work::Nothing(record) => {
                self.keep_settled(id, &record)?;
                self.end(id)
            }
            Work::Scanned(record) => {
                self.tell_started(id, 1);
                self.end_scanned(id, record)
            }
            Work::Whole => {
                self.tell_started(id, 1);
                self.board.advance(id, State::AwaitsExecutor)
            }
            Work::Items(work) => {
                let spec = self.pipeline.stage(id);
                let todo = self.board[id].todo;
                let total = todo + self.board[id].counts.reused;
                self.tell_started(id, total);
                let key = work.job.unwrap_or(cache::Digest::from_bytes([0; 32]));
                let job = Arc::new(self.job_handle(id)?);
                let mut stage = ItemStage::new(work, Intake { key, reads: item_reads(spec) }, job);
                stage.total = total;
                stage.program_check = ProgramCheck::of(spec, todo);
                if spec.kind.batching != Batching::Single {
                    let kept = KeptLimit::of(spec, &self.artifacts(id));
                    stage.batch_limit = kept.read(self.store.cache())?;
                }
                stage.rejects = self.board[id].known.rejects.clone();
                self.board.begin_items(id, stage)
            }
        }
    }

    /// Records an outcome that the plan has put together from known items like any other.
    fn keep_settled(&mut self, id: StageId, record: &StageRecord) -> Result<(), EngineError> {
        let (run, cache) = (&self.board[id], self.store.cache());
        // Items quarantined in a stored outcome may have new names.
        let is_kept = |kept: &StageRecord| kept.aside == record.aside;
        if let (Some(keyed), false) = (&run.known.keyed, run.is_unchanged)
            && !history::outcome_of(cache, &keyed.digest)?.is_some_and(|kept| is_kept(&kept))
        {
            cache.record(STAGE, &keyed.digest, encode(record))?;
            self.committer.note(Vec::new());
        }
        Ok(())
    }

    /// Ends a source: reports its quarantined items, and fails if there are too many.
    fn end_scanned(&mut self, id: StageId, record: StageRecord) -> Result<(), EngineError> {
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

    /// Nothing, if no work of the stage begins because the run ends.
    fn tell_started(&mut self, id: StageId, total: u64) {
        if !self.may_start() {
            return;
        }
        let reasons = self.board[id].reasons.iter().map(ToString::to_string).collect();
        let trial = self.pipeline.values_of(self.pipeline.stage(id));
        self.tell(Event::StageStarted { stage: self.name(id), total, reasons, trial });
    }

    /// Finds pending items of a stage that exports cannot name a file after.
    fn check_export_paths(&mut self, id: StageId) -> Result<(), EngineError> {
        let Some(stage) = self.board[id].items() else { return Ok(()) };
        let is_wanted = |id| !self.board.is(id, State::Unwanted);
        let items = stage.queue.iter().map(|queued| &queued.item);
        for (exporting, left_out) in left_out(self.pipeline, &is_wanted, (id, stage.total), items) {
            let spec = self.pipeline.stage(exporting);
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

    /// Closes the buckets without work.
    fn close_known(&mut self, id: StageId) -> Result<(), EngineError> {
        let Some(stage) = self.board[id].items() else { return Ok(()) };
        let numbers: Vec<u32> = stage.open.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.close(id, number))
    }

    /// Ends item stages in which everything is decided and all items have arrived. True if there
    /// was one.
    pub fn finish_complete(&mut self) -> Result<bool, EngineError> {
        let mut ended = false;
        for id in self.pipeline.ids() {
            let is_complete = self.board[id].items().is_some_and(ItemStage::is_complete);
            if is_complete && self.upstream_is_done(id) {
                self.finish_items(id)?;
                ended = true;
            }
        }
        Ok(ended)
    }

    pub fn upstream_is_done(&self, id: StageId) -> bool {
        self.pipeline.stage(id).upstream().all(|above| self.board.is(above, State::Done))
    }

    fn finish_items(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.pipeline.stage(id);
        let Some(stage) = self.board.close_items(id)? else { return Ok(()) };
        self.hands.close(stage.job.number);
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
            self.keep_excess(id, [&stage.rejects[..], &stage.failures[..]].concat())?;
        }
        let value = close_dataset(&self.store, stage.bits, stage.closed)?;
        let run = &self.board[id];
        let record = StageRecord {
            outputs: main_output(spec, Planned::Unknown)
                .into_keys()
                .map(|port| (port.to_owned(), value.clone()))
                .collect(),
            rejects: stage.rejects,
            items,
            notes: run.notes.clone(),
            seconds: match stage.pace > 0.0 {
                true => stage.pace * items as f64,
                false => run.expected_seconds,
            },
            aside: None,
            settled: Default::default(),
            failure: None,
        };
        self.end_with(id, record, stage.failures.is_empty())
    }

    /// Computes the key of an item stage that was planned with pending items.
    fn key_late(&mut self, id: StageId) -> Result<(), EngineError> {
        if self.board[id].known.keyed.is_some() {
            return Ok(());
        }
        let spec = self.pipeline.stage(id);
        let files = self.planner.file_digests(spec);
        let arriving = arriving(self.pipeline, self.board.runs(), &self.planner.assets, spec);
        let keyed = arriving.key(&self.store, &files, true);
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
        let outputs = outputs(self.pipeline.stage(id), &record);
        let run = &mut self.board[id];
        run.known.outputs = outputs;
        run.known.rejects = record.rejects.clone();
        if let (Some(keyed), true) = (&run.known.keyed, remember) {
            let settled = settled_key(&keyed.key, &record.settled).map(|key| key.digest());
            for key in settled.iter().chain([&keyed.digest]) {
                self.store.cache().record(STAGE, key, encode(&record))?;
            }
            self.committer.note(Vec::new());
        }
        self.end(id)
    }

    fn end(&mut self, id: StageId) -> Result<(), EngineError> {
        self.board.advance(id, State::Done)?;
        self.end_measure(id)?;
        self.remember_last(id)?;
        let (counts, notes) = (self.board[id].counts, self.board[id].notes.clone());
        self.tell(Event::StageFinished { stage: self.name(id), counts, notes });
        self.plan_below(id)
    }

    /// A stage has ended.
    pub fn plan_below(&mut self, id: StageId) -> Result<(), EngineError> {
        // Stages that waited for this one are planned, as far as the initial plan could not.
        for below in self.consumers(id) {
            if self.board.is(below, State::AwaitsInputs) {
                self.plan_waiting(below)?;
            }
        }
        Ok(())
    }

    /// Records the state of the stage, so that the next run can explain differences.
    fn remember_last(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.pipeline.stage(id);
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
                _ => differences(&self.store, spec, last, &keyed),
            };
        }
        let (digest, made_of) = (keyed.digest, (keyed.key.clone(), keyed.roots.clone()));
        self.store.cache().record(MADE_OF, &digest, encode::<Previous>(&made_of))?;
        let record = LastRecord {
            run: self.run,
            reasons,
            previous: last.map(|last| Box::new((last.key, last.roots))),
            key: keyed.key,
            roots: keyed.roots,
        };
        let key = last_key(&self.pipeline.name, &spec.name);
        self.store.cache().record(LAST, &key, encode(&record))?;
        self.committer.note(Vec::new());
        Ok(())
    }

    /// Plans a stage from the present outcomes upstream, and starts it if its work is known.
    fn plan_waiting(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.pipeline.stage(id);
        for above in spec.upstream() {
            let run = &mut self.board[above];
            if let Some(stage) = run.items() {
                let partial = Planned::Partial(Arc::new(stage.snapshot()));
                let rejects = stage.rejects.clone();
                run.known.outputs = main_output(self.pipeline.stage(above), partial);
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
        self.close_known(id)?;
        self.finish_complete().map(drop)
    }

    /// Checks if another process has finished a stage meanwhile. True if nothing is left to do.
    pub fn take_finished(&mut self, id: StageId) -> Result<bool, EngineError> {
        let Some(keyed) = self.board[id].known.keyed.clone() else { return Ok(false) };
        let spec = self.pipeline.stage(id);
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

    pub fn gather_done(
        &mut self,
        task: InFlight,
        result: Result<StageRecord, Failure>,
        (written, took): (u64, Option<Duration>),
    ) -> Result<(), EngineError> {
        let id = task.stage;
        let seconds = took.unwrap_or_else(|| task.started.elapsed()).as_secs_f64();
        self.board[id].counts.seconds += seconds;
        if self.is_on_gpu(id) {
            // The time becomes durable with the outcome.
            let is_busy = self.hands.gpus_are_busy();
            self.allowance.count_task(self.store.cache(), task.started, is_busy)?;
            self.committer.note(Vec::new());
        }
        match result {
            Ok(mut record) => {
                record.seconds = seconds;
                self.end_training(id, seconds);
                let size = arriving_items(self.pipeline, self.board.runs(), id) as f64;
                let run = &mut self.board[id];
                match self.pipeline.stage(id).work {
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
                self.committer.start_if_due(&self.store);
                Ok(())
            }
            // The pass ends and the stage is planned again.
            Err(_) if self.lost => self.board.advance(id, State::Left),
            Err(Failure::Stage(StageError::Stopped)) => {
                self.board.advance(id, State::Left)?;
                self.end_training(id, seconds);
                self.has_saved(id);
                Ok(())
            }
            Err(failure) => self.gather_failed(id, failure.of_the_item()),
        }
    }

    /// A training has ended or was stopped.
    fn end_training(&mut self, id: StageId, seconds: f64) {
        if self.options.probe.is_none() {
            self.board[id].cost.unwritten.training.end(seconds);
        }
    }

    /// Keeps the output of a stage that has failed all the same.
    fn keep_judged(&mut self, id: StageId, record: StageRecord) -> Result<(), EngineError> {
        if !self.board.is(id, State::Failed) {
            return Ok(());
        }
        let (pipeline, spec) = (&self.pipeline.name, self.pipeline.stage(id));
        self.board[id].judged = outputs(spec, &record);
        let judged = Judged { run: self.run, outputs: record.outputs };
        judged::keep(self.store.cache(), pipeline, &spec.name, &judged)?;
        self.committer.note(Vec::new());
        self.committer.start_if_due(&self.store);
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
        if passing && self.board[id].attempt < self.pipeline.stage(id).policy.retries {
            self.board[id].attempt += 1;
            let (stage, attempt) = (self.name(id), self.board[id].attempt);
            self.tell(Event::Retried { what: stage.clone(), stage, attempt });
            return self.board.advance(id, State::AwaitsExecutor);
        }
        let error = match failure {
            Failure::Stage(error) if error.is_of_machine() => {
                self.pause_at(id, &error);
                return self.board.advance(id, State::Left);
            }
            Failure::Stage(error) if self.trial_fails(id, &error)? => return Ok(()),
            Failure::Stage(error) | Failure::Open(error) => error,
            Failure::Died { message } => StageError::failed(message),
        };
        self.fail_for_now(id, &error)?;
        let own: Vec<_> = self.board[id].aside.clone().into_iter().collect();
        match own.is_empty() {
            true => Ok(()),
            false => self.keep_excess(id, own),
        }
    }

    /// Ends work that exceeds the time limit of its stage.
    pub fn end_overdue(&mut self) -> Result<(), EngineError> {
        let waiting = |(ticket, _): &(&u64, &mut InFlight)| !self.hands.is_running(**ticket);
        for (_, task) in self.in_flight.iter_mut().filter(waiting) {
            task.since = Instant::now();
        }
        let overdue: Vec<(u64, f64)> = self
            .in_flight
            .iter()
            .filter_map(|(ticket, task)| {
                let spec = self.pipeline.stage(task.stage);
                let limit = spec.policy.timeout_seconds.filter(|_| !spec.kind.watches_time)?;
                let limit = (!self.is_away(task.stage)).then_some(limit)?;
                let limit = limit * task.items.len().max(1) as f64;
                let is_overdue = task.since.elapsed().as_secs_f64() > limit + OVERTIME;
                is_overdue.then_some((*ticket, limit))
            })
            .collect();
        for (ticket, seconds) in overdue {
            self.hands.abandon(ticket).map_err(EngineError::Thread)?;
            let failure = Failure::Stage(StageError::timed_out(seconds));
            let count = self.in_flight.get(&ticket).map_or(0, |task| task.items.len());
            let outcome = match count {
                0 => Outcome::Gather(Err(failure)),
                count => Outcome::Items(vec![ItemOutcome::Failed(failure); count]),
            };
            self.done(ticket, outcome, Vec::new(), (0, None))?;
        }
        Ok(())
    }

    fn consumers(&self, id: StageId) -> Vec<StageId> {
        let stages = self.pipeline.stages.iter();
        stages.filter(|spec| spec.upstream().any(|above| above == id)).map(|spec| spec.id).collect()
    }

    /// The running item stages that take their items from this one.
    pub fn item_consumers(&self, id: StageId) -> Vec<StageId> {
        let takers = self.takers[id.0].iter();
        takers.filter(|below| self.board.is(**below, State::RunsItems)).copied().collect()
    }

    /// The input artifacts of a stage, by port.
    pub fn artifacts(&self, id: StageId) -> BTreeMap<String, Vec<Fields>> {
        let spec = self.pipeline.stage(id);
        arrived::artifacts(self.pipeline, self.board.runs(), &self.planner.assets, spec)
    }
}

/// The values of the ports of a stage with an outcome.
fn outputs(spec: &StageSpec, record: &StageRecord) -> BTreeMap<&'static str, Planned> {
    let ports = spec.kind.outputs.iter();
    let values =
        ports.filter_map(|port| Some((port.name, planned(record.outputs.get(port.name)?))));
    values.collect()
}
