//! Stages as a whole: their start, and the effect of their end on downstream stages.

use std::collections::BTreeMap;
use std::sync::Arc;

use stage_core::event::Event;
use stage_core::{Fields, Reject, StageError};

use super::arrived::{self, GatherSources};
use super::item_stage::ItemStage;
use super::message::{Failure, ItemOutcome, Outcome};
use super::program_check::ProgramCheck;
use super::schedule::{InFlight, Schedule, State};
use crate::engine::EngineError;
use crate::excess::{self, Excess};
use crate::history;
use crate::pipeline::{Reference, StageId, StageWork, Tolerance};
use crate::plan::inputs::{ITEMS, arriving, planned};
use crate::plan::items::item_reads;
use crate::plan::planner::main_output;
use crate::plan::reasons::differences;
use crate::plan::{Planned, StagePlan, Work};
use crate::record::{
    LAST, LastRecord, MADE_OF, PortValue, Previous, STAGE, StageRecord, encode, last_key,
};
use crate::tables::close_dataset;

impl Schedule<'_> {
    /// Sets every stage to its planned state, and then passes known outputs on.
    pub fn activate_all(&mut self) -> Result<(), EngineError> {
        for id in self.pipeline.ids() {
            if matches!(self.states[id.0], State::Waiting) {
                self.activate(id)?;
            }
        }
        self.pipeline.ids().for_each(|id| self.check_export_paths(id));
        for id in self.pipeline.ids() {
            self.close_known(id)?;
        }
        self.finish_complete().map(drop)
    }

    /// Acts on the plan of a stage.
    fn activate(&mut self, id: StageId) -> Result<(), EngineError> {
        let work = std::mem::replace(&mut self.plans[id.0].work, Work::Later);
        match work {
            Work::Later => return Ok(()),
            Work::Nothing(record) => {
                self.counts[id.0].reused = record.items;
                self.counts[id.0].quarantined = record.rejects.len() as u64;
                self.keep_settled(id, &record)?;
                self.plans[id.0].work = Work::Nothing(record);
                return self.end(id);
            }
            Work::Scanned(record) => {
                self.tell_started(id, 1);
                self.counts[id.0].executed = 1;
                return self.end_scanned(id, record);
            }
            Work::Whole => {
                self.tell_started(id, 1);
                self.states[id.0] = State::Ready { attempt: 0 };
            }
            Work::Items(work) => {
                let plan = &self.plans[id.0];
                let todo = plan.executed + plan.pending;
                let total = todo + plan.reused;
                self.counts[id.0].reused = plan.reused;
                self.counts[id.0].quarantined = plan.quarantined;
                self.tell_started(id, total);
                let reads = item_reads(self.pipeline.stage(id));
                let key = work.job.unwrap_or(cache::Digest::from_bytes([0; 32]));
                let job = Arc::new(self.job_handle(id)?);
                let mut stage = ItemStage::new(work, reads, key, job);
                stage.total = total;
                stage.program_check = ProgramCheck::of(self.pipeline.stage(id), todo);
                stage.batch_limit = self.known_limit(id)?;
                stage.rejects = self.plans[id.0].rejects.clone();
                self.states[id.0] = State::Items(Box::new(stage));
            }
        }
        Ok(())
    }

    /// Records an outcome that the plan has put together from known items like any other.
    fn keep_settled(&mut self, id: StageId, record: &StageRecord) -> Result<(), EngineError> {
        let (plan, cache) = (&self.plans[id.0], self.store.cache());
        // Items quarantined in a stored outcome may have new names.
        let is_kept = |kept: &StageRecord| kept.aside == record.aside;
        if let (Some(keyed), false) = (&plan.keyed, plan.unchanged)
            && !history::outcome_of(cache, &keyed.digest)?.is_some_and(|kept| is_kept(&kept))
        {
            cache.record(STAGE, &keyed.digest, encode(record))?;
            self.committer.note(Vec::new());
        }
        Ok(())
    }

    /// Ends a source: reports its quarantined items, and fails if there are too many.
    fn end_scanned(&mut self, id: StageId, record: StageRecord) -> Result<(), EngineError> {
        for (item, reject) in &record.rejects {
            self.tell_quarantined(id, item, reject);
        }
        self.notes[id.0] = record.notes.clone();
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

    fn tell_started(&mut self, id: StageId, total: u64) {
        (self.sink)(Event::StageStarted {
            stage: self.pipeline.stage(id).name.clone(),
            total,
            reasons: self.plans[id.0].reasons.iter().map(ToString::to_string).collect(),
        });
    }

    /// Closes the buckets without work.
    fn close_known(&mut self, id: StageId) -> Result<(), EngineError> {
        let State::Items(stage) = &self.states[id.0] else { return Ok(()) };
        let numbers: Vec<u32> = stage.open.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.close(id, number))
    }

    /// Ends item stages in which everything is decided and all items have arrived. True if there
    /// was one.
    pub fn finish_complete(&mut self) -> Result<bool, EngineError> {
        let mut ended = false;
        for id in self.pipeline.ids() {
            let complete = match &self.states[id.0] {
                State::Items(stage) => stage.is_complete() && self.upstream_is_done(id),
                _ => false,
            };
            if complete {
                self.finish_items(id)?;
                ended = true;
            }
        }
        Ok(ended)
    }

    pub fn upstream_is_done(&self, id: StageId) -> bool {
        let mut upstream = self.pipeline.stage(id).upstream();
        upstream.all(|above| matches!(self.states[above.0], State::Done))
    }

    fn finish_items(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.pipeline.stage(id);
        let State::Items(stage) = std::mem::replace(&mut self.states[id.0], State::Waiting) else {
            return Ok(());
        };
        let bad = (stage.rejects.len() + stage.failures.len()) as u64;
        // Items that upstream stages have quarantined meanwhile never arrived.
        let kept: u64 = stage.closed.iter().map(|bucket| u64::from(bucket.items)).sum();
        let total = kept + bad;
        if self.exceeds_limit(id, total, &[&stage.rejects, &stage.failures])? {
            return Ok(());
        }
        if !stage.failures.is_empty() {
            // Failures are no results: without this list, nothing would tell them after the run.
            self.keep_excess(id, [&stage.rejects[..], &stage.failures[..]].concat())?;
        }
        let value = close_dataset(&self.store, stage.bits, stage.closed)?;
        self.key_late(id)?;
        let (items, pace) = (total, stage.pace);
        let known = self.plans[id.0].seconds;
        let record = StageRecord {
            outputs: main_output(spec, Planned::Unknown)
                .into_keys()
                .map(|port| (port.to_owned(), value.clone()))
                .collect(),
            rejects: stage.rejects,
            items,
            notes: self.notes[id.0].clone(),
            seconds: if pace > 0.0 { pace * items as f64 } else { known },
            aside: None,
        };
        self.end_with(id, record, stage.failures.is_empty())
    }

    /// Computes the key of an item stage that was planned with pending items.
    fn key_late(&mut self, id: StageId) -> Result<(), EngineError> {
        if self.plans[id.0].keyed.is_some() {
            return Ok(());
        }
        let spec = self.pipeline.stage(id);
        let files = self.planner.file_digests(spec);
        let arriving = arriving(self.pipeline, &self.plans, &self.planner.assets, spec);
        let keyed = arriving.key(&self.store, &files, true);
        if let Some(keyed) = self.or_lost(id, keyed)? {
            self.plans[id.0].keyed = Some(keyed);
        }
        Ok(())
    }

    /// Ends a stage with an outcome.
    fn end_with(
        &mut self,
        id: StageId,
        record: StageRecord,
        remember: bool,
    ) -> Result<(), EngineError> {
        let spec = self.pipeline.stage(id);
        let outputs = spec.kind.outputs.iter().filter_map(|port| {
            let value = record.outputs.get(port.name)?;
            Some((port.name, planned(value)))
        });
        self.plans[id.0].outputs = outputs.collect();
        self.plans[id.0].rejects = record.rejects.clone();
        if let (Some(keyed), true) = (&self.plans[id.0].keyed, remember) {
            self.store.cache().record(STAGE, &keyed.digest, encode(&record))?;
            self.committer.note(Vec::new());
        }
        self.end(id)
    }

    fn end(&mut self, id: StageId) -> Result<(), EngineError> {
        self.states[id.0] = State::Done;
        self.end_measure(id)?;
        self.remember_last(id)?;
        (self.sink)(Event::StageFinished {
            stage: self.pipeline.stage(id).name.clone(),
            counts: self.counts[id.0],
            notes: self.notes[id.0].clone(),
        });
        self.wake(id)
    }

    /// Records the state of the stage, so that the next run can explain differences.
    fn remember_last(&mut self, id: StageId) -> Result<(), EngineError> {
        let spec = self.pipeline.stage(id);
        let Some(keyed) = self.plans[id.0].keyed.clone() else { return Ok(()) };
        let last = self.planner.last(spec).map_err(|error| error.at(spec.name.clone()))?;
        if last.as_ref().is_some_and(|last| last.key == keyed.key && last.roots == keyed.roots) {
            return Ok(());
        }
        let mut reasons = self.plans[id.0].reasons.clone();
        if let Some(last) = &last
            && (reasons.is_empty() || spec.work == StageWork::Item)
        {
            reasons = match self.plans[id.0].differences.take() {
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

    /// Plans the stages that waited for this one, as far as the initial plan could not.
    fn wake(&mut self, id: StageId) -> Result<(), EngineError> {
        for below in self.consumers(id) {
            let is_waiting = matches!(self.states[below.0], State::Waiting);
            if is_waiting && matches!(self.plans[below.0].work, Work::Later) {
                self.plan_waiting(below)?;
            }
        }
        Ok(())
    }

    fn plan_waiting(&mut self, id: StageId) -> Result<(), EngineError> {
        self.refresh_snapshots(id);
        let spec = self.pipeline.stage(id);
        let plan = self.planner.stage(spec, &self.plans, self.sink);
        let Some(plan) = self.or_lost(id, plan)? else { return Ok(()) };
        if matches!(plan.work, Work::Later) {
            return Ok(());
        }
        self.plans[id.0] = plan;
        self.activate(id)?;
        self.check_export_paths(id);
        self.close_known(id)?;
        self.finish_complete().map(drop)
    }

    /// Checks if another process has finished a stage meanwhile. True if nothing is left to do.
    pub fn plan_again(&mut self, id: StageId) -> Result<bool, EngineError> {
        let Some(keyed) = self.plans[id.0].keyed.clone() else { return Ok(false) };
        let mut lost = Vec::new();
        let known = self.planner.known_whole(self.pipeline.stage(id), &keyed, &mut lost);
        match self.or_lost(id, known)?.flatten() {
            None => Ok(false),
            Some(record) => {
                self.plans[id.0] = StagePlan::fresh(self.pipeline.stage(id), keyed, record);
                self.activate(id)?;
                Ok(true)
            }
        }
    }

    fn refresh_snapshots(&mut self, id: StageId) {
        for above in self.pipeline.stage(id).upstream() {
            if let State::Items(stage) = &self.states[above.0] {
                let partial = Planned::Partial(Arc::new(stage.snapshot()));
                self.plans[above.0].outputs = main_output(self.pipeline.stage(above), partial);
                self.plans[above.0].rejects = stage.rejects.clone();
            }
        }
    }

    pub fn gather_done(
        &mut self,
        task: InFlight,
        result: Result<StageRecord, Failure>,
        written: u64,
    ) -> Result<(), EngineError> {
        let id = task.stage;
        let State::Whole { attempt } = self.states[id.0] else { return Ok(()) };
        self.counts[id.0].seconds += task.started.elapsed().as_secs_f64();
        self.count_gpu_time(id, task.started)?;
        match result {
            Ok(mut record) => {
                record.seconds = task.started.elapsed().as_secs_f64();
                self.end_training(id, record.seconds);
                self.measure_whole(id, record.seconds, written);
                self.counts[id.0].executed += 1;
                self.notes[id.0] = record.notes.clone();
                self.end_with(id, record, true)?;
                self.committer.note(task.claims);
                self.committer.start_if_due(&self.store);
            }
            // The pass ends and the stage is planned again.
            Err(_) if self.lost => self.states[id.0] = State::Waiting,
            Err(Failure::Stage(StageError::Stopped)) => {
                self.states[id.0] = State::Resting;
                self.end_training(id, task.started.elapsed().as_secs_f64());
                self.has_saved_for_limit(id);
                self.has_saved_for_budget();
            }
            Err(failure) => self.gather_failed(id, attempt, failure.of_the_item())?,
        }
        Ok(())
    }

    fn gather_failed(
        &mut self,
        id: StageId,
        attempt: u32,
        failure: Failure,
    ) -> Result<(), EngineError> {
        let spec = self.pipeline.stage(id);
        let passing = matches!(
            failure,
            Failure::Died { .. }
                | Failure::Stage(StageError::Transient { .. } | StageError::Machine { .. })
        );
        if passing && attempt < spec.policy.retries {
            let (stage, what, attempt) = (spec.name.clone(), spec.name.clone(), attempt + 1);
            (self.sink)(Event::Retried { stage, what, attempt });
            self.states[id.0] = State::Ready { attempt };
            return Ok(());
        }
        let error = match failure {
            Failure::Stage(error) if error.is_of_machine() => {
                self.states[id.0] = State::Resting;
                self.pause_at(id, &error);
                return Ok(());
            }
            Failure::Stage(error) | Failure::Open(error) => error,
            Failure::Died { message } => StageError::failed(message),
            Failure::TimedOut { seconds } => StageError::with_help(
                format!("not done after {seconds} s"),
                "raise `timeout` if it needs more",
            ),
        };
        self.fail(id, &error);
        let own = self.aside.iter().filter(|((stage, _), _)| *stage == id);
        let own: Vec<_> = own.map(|((_, item), reject)| (item.clone(), reject.clone())).collect();
        match own.is_empty() {
            true => Ok(()),
            false => self.keep_excess(id, own),
        }
    }

    /// Fails a stage that has quarantined more of its items than it may. True if it has; the items
    /// are kept to be listed.
    pub fn exceeds_limit(
        &mut self,
        id: StageId,
        total: u64,
        aside: &[&[(Arc<str>, Reject)]],
    ) -> Result<bool, EngineError> {
        let bad = aside.iter().map(|list| list.len() as u64).sum();
        let limit = self.pipeline.stage(id).policy.quarantine;
        if !limit.is_exceeded(bad, total) {
            return Ok(false);
        }
        self.keep_excess(id, aside.concat())?;
        let first = aside.iter().copied().flatten().next();
        let error = too_many(limit, (bad, total), first);
        self.fail(id, &error);
        Ok(true)
    }

    /// Keeps the items that a stage has quarantined when it ends without a recorded outcome.
    pub fn keep_excess(
        &mut self,
        id: StageId,
        mut rejects: Vec<(Arc<str>, Reject)>,
    ) -> Result<(), EngineError> {
        let (pipeline, stage) = (&self.pipeline.name, &self.pipeline.stage(id).name);
        rejects.sort_by(|(one, _), (other, _)| one.cmp(other));
        let excess = Excess { run: self.run, rejects };
        excess::keep(self.store.cache(), pipeline, stage, &excess)?;
        self.committer.note(Vec::new());
        Ok(())
    }

    /// Fails a stage; its downstream stages do not start.
    pub fn fail(&mut self, id: StageId, error: &StageError) {
        if matches!(self.states[id.0], State::Failed) {
            return;
        }
        self.states[id.0] = State::Failed;
        self.failed = true;
        self.halted |= !self.options.keep_going;
        (self.sink)(Event::StageFailed {
            stage: self.pipeline.stage(id).name.clone(),
            message: error.to_string(),
            help: error.help().map(str::to_owned),
        });
    }

    /// Ends work that exceeds the time limit of its stage.
    pub fn end_overdue(&mut self) -> Result<(), EngineError> {
        let overdue: Vec<(u64, f64)> = self
            .in_flight
            .iter()
            .filter_map(|(ticket, task)| {
                let limit = self.pipeline.stage(task.stage).policy.timeout_seconds?;
                let limit = limit * task.items.len().max(1) as f64;
                (task.started.elapsed().as_secs_f64() > limit).then_some((*ticket, limit))
            })
            .collect();
        for (ticket, seconds) in overdue {
            self.hands.abandon(ticket).map_err(EngineError::Thread)?;
            let failure = Failure::TimedOut { seconds };
            let count = self.in_flight.get(&ticket).map_or(0, |task| task.items.len());
            let outcome = match count {
                0 => Outcome::Gather(Err(failure)),
                count => Outcome::Items(vec![ItemOutcome::Failed(failure); count]),
            };
            self.done(ticket, outcome, Vec::new(), 0)?;
        }
        Ok(())
    }

    pub fn consumers(&self, id: StageId) -> Vec<StageId> {
        let stages = self.pipeline.stages.iter();
        stages.filter(|spec| spec.upstream().any(|above| above == id)).map(|spec| spec.id).collect()
    }

    /// The running item stages that take their items from this one.
    pub fn item_consumers(&self, id: StageId) -> Vec<StageId> {
        let takes = |spec: &&crate::pipeline::StageSpec| {
            let from = |reference: &Reference| matches!(reference, Reference::Stage { stage, .. } if *stage == id);
            let input = spec.inputs.get(ITEMS);
            matches!(self.states[spec.id.0], State::Items(_))
                && input.is_some_and(|input| input.references.iter().any(from))
        };
        self.pipeline.stages.iter().filter(takes).map(|spec| spec.id).collect()
    }

    /// The input artifacts of a stage, by port.
    pub fn artifacts(&self, id: StageId) -> BTreeMap<String, Vec<Fields>> {
        let spec = self.pipeline.stage(id);
        arrived::artifacts(self.pipeline, &self.plans, &self.planner.assets, spec)
    }

    pub fn gather_sources(&self, id: StageId) -> GatherSources {
        let spec = self.pipeline.stage(id);
        arrived::gather_sources(self.pipeline, &self.plans, &self.planner.assets, spec)
    }
}

/// The message for a stage that has quarantined more of its items than it may.
pub(super) fn too_many(
    limit: Tolerance,
    (bad, total): (u64, u64),
    first: Option<&(Arc<str>, Reject)>,
) -> StageError {
    let first = first.map_or(String::new(), |(item, reject)| {
        format!("; the first is `{item}`: {}", reject.reason)
    });
    StageError::with_help(
        format!("{}{first}", limit.violation(bad, total)),
        "fix these items or raise `quarantine`; see `throstle items STAGE --quarantined` and `throstle \
         retry`",
    )
}
