//! Hands out work: to threads that are free, under claims that exclude other processes.

use std::sync::Arc;
use std::time::Instant;

use crate::event::Event;
use cache::{Claim, Digest};
use stage_core::StageError;
use stage_core::cost::Cost;

use super::{Schedule, TICK};
use crate::allowance::LimitedResource;
use crate::checkpoints::{begun_under, steps_done};
use crate::engine::EngineError;
use crate::history;
use crate::mirror::Mirror;
use crate::pipeline::{StageId, StageSpec, StageWork};
use crate::record::last_key;
use crate::run::arrived;
use crate::run::board::StageState;
use crate::run::cost::TrainingTally;
use crate::run::items::batch::{BatchLimit, BatchSize};
use crate::run::items::queue::QueuedItem;
use crate::run::message::{GatherTask, ItemTask, JobHandle, Task};
use crate::run::training::{Debt, Pace, Training};

impl Schedule<'_> {
    /// Hands out work as long as threads are free.
    pub(super) fn dispatch(&mut self) -> Result<(), EngineError> {
        loop {
            // Outputs that turned out to be known may have passed to a stage without work, or ended
            // one, without a message.
            let moved = self.hand_out()?;
            if !self.finish_complete()? && !moved {
                return Ok(());
            }
        }
    }

    /// True if anything was taken off a queue.
    fn hand_out(&mut self) -> Result<bool, EngineError> {
        let mut moved = false;
        if let Some(id) = self.first_turn() {
            moved |= self.hand_out_next(id)?;
        }
        for at in 0..self.run.pipeline.stages.len() {
            let id = self.precedence.order()[at];
            if self.board[id].has_pending_work() && !self.may_work(id) {
                // It may have to wait for another week.
                self.threads.release(id);
                continue;
            }
            while self.has_turn(id) {
                if !self.hand_out_next(id)? {
                    break;
                }
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Hands out a task of a stage; false if it has none after all.
    fn hand_out_next(&mut self, id: StageId) -> Result<bool, EngineError> {
        match self.board[id].state() {
            _ if self.leave_rest(id)? => Ok(true),
            _ if self.run.is_on_executor(id) => self.hand_out_jobs(id),
            StageState::AwaitsThread | StageState::AwaitsClaim => self.hand_out_whole(id),
            StageState::RunsItems => self.hand_out_items(id),
            _ => Ok(false),
        }
    }

    pub(super) fn may_work(&self, id: StageId) -> bool {
        !self.is_barred(id) && !self.is_probed(id)
    }

    /// Tests if a probe has run enough of a stage, or need not.
    fn is_probed(&self, id: StageId) -> bool {
        let Some(items) = self.run.options.mode.probed_items() else { return false };
        if self.run.is_on_executor(id) {
            return true;
        }
        let spec = self.run.stage(id);
        let run = &self.board[id];
        match (run.items(), spec.work) {
            (Some(stage), StageWork::Item) => run.counts.executed + stage.running as u64 >= items,
            // A training with known inputs; only a few of its steps are run.
            (None, StageWork::Train) => !run.has_pending_work(),
            _ => true,
        }
    }

    /// Tests if a stage would run on a GPU.
    pub(super) fn is_on_gpu(&self, id: StageId) -> bool {
        !self.run.is_on_executor(id) && self.threads.is_on_gpu(self.run.stage(id))
    }

    /// Tests if a stage has to wait: for another week, or for all its inputs if it runs on an
    /// executor or if GPU time is counted or paid from a budget.
    pub(super) fn is_barred(&self, id: StageId) -> bool {
        // A probe runs no checks.
        if !self.run.is_probe() && self.board.awaits_check(self.run.pipeline, id) {
            return true;
        }
        if self.run.is_on_executor(id) {
            return !self.upstream_is_done(id);
        }
        let session = &self.run.pipeline.session;
        let is_thrifty = session.budget.is_some() || session.gpu_hours_per_week.is_some();
        (self.budget.bars_gpus() || (is_thrifty && !self.upstream_is_done(id)))
            && self.is_on_gpu(id)
    }

    fn hand_out_whole(&mut self, id: StageId) -> Result<bool, EngineError> {
        let keyed = self.board[id].known.keyed.clone();
        let claim = match &keyed {
            Some(keyed) => self.run.cache.claim(&keyed.digest)?,
            None => None,
        };
        if keyed.is_some() && claim.is_none() {
            self.threads.release(id);
            if self.board.is(id, StageState::AwaitsThread) {
                self.board.advance(id, StageState::AwaitsClaim)?;
            }
            return Ok(false);
        }
        if self.take_finished(id)? {
            self.threads.release(id);
            return Ok(true);
        }
        let spec = self.run.stage(id);
        if !self.threads.reserve(spec) {
            return Ok(false);
        }
        let training = self.training(id)?;
        if let Some(training) = &training {
            let begun = begun_under(self.store(), &training.key, &training.prefixes)?;
            let from = steps_done(self.store(), &begun.unwrap_or(training.key))?;
            let preflight = spec.parameters.flag("preflight").unwrap_or(false);
            let session = TrainingTally::begin(from, preflight && from == 0);
            self.board[id].cost.unwritten.training = session;
        }
        let ports = arrived::gather_sources(
            self.run.pipeline,
            self.board.runs(),
            &self.planner.assets,
            spec,
        );
        let ticket = self.tasks.ticket();
        let task = Task::Gather(Box::new(GatherTask {
            ticket,
            job: Arc::new(self.job_handle(id)?),
            outputs: spec.kind.outputs,
            ports: Arc::new(ports),
            policy: spec.policy.clone(),
            training,
            own_key: keyed.map(|keyed| keyed.key.without_inputs().digest()),
            inputs: Some(last_key(&self.run.pipeline.name, &spec.name)),
            awaits: Vec::new(),
        }));
        self.board.advance(id, StageState::RunsTask)?;
        self.send(id, task, Arc::default(), claim.into_iter().collect())?;
        Ok(true)
    }

    fn send(
        &mut self,
        id: StageId,
        task: Task,
        items: Arc<Vec<QueuedItem>>,
        claims: Vec<Claim>,
    ) -> Result<(), EngineError> {
        self.tasks.begin(task.ticket(), id, items, claims);
        self.threads.hand_out(self.run.stage(id), task).map_err(EngineError::Thread)
    }

    /// The identity of a training task. The choice of a parent is recorded before the work begins,
    /// so that a later run continues from the same one.
    fn training(&self, id: StageId) -> Result<Option<Training>, EngineError> {
        let spec = self.run.stage(id);
        let keyed = self.board[id].known.keyed.as_ref().filter(|_| spec.work == StageWork::Train);
        let Some(keyed) = keyed else { return Ok(None) };
        let chosen = self.planner.choose_parent(spec, keyed);
        let parent = chosen.and_then(|()| self.planner.parent(spec, keyed));
        let first = self.budget.first(self.is_on_gpu(id));
        Ok(Some(Training {
            key: keyed.digest,
            prefixes: self.planner.prefixes(spec, keyed),
            pipeline: self.run.pipeline.name.clone(),
            run: self.run.number,
            parent: parent.map_err(|error| error.at(spec.name.clone()))?,
            is_probe: self.run.is_probe(),
            pace: Pace::until(first.map(|(_, deadline)| deadline), self.owed(spec, first)),
            mirror: self.mirror(keyed.digest),
        }))
    }

    fn mirror(&self, key: Digest) -> Option<Arc<Mirror>> {
        let remote = self.run.engine.remote.as_ref().filter(|_| !self.run.is_probe());
        Mirror::start(self.run.cache, remote, key).map(Arc::new)
    }

    /// A run that has done nothing else by the end of its time owes a step of its training: the
    /// next run would get no further. A budget is not exceeded for that.
    fn owed(&self, spec: &StageSpec, first: Option<(LimitedResource, Instant)>) -> Debt {
        let is_of_time = first.is_some_and(|(limit, _)| limit == LimitedResource::Time);
        match (is_of_time && !self.has_done(), spec.kind.cost) {
            (false, _) => Debt::Nothing,
            (true, Cost::Training(_)) => Debt::Step,
            (true, _) => Debt::Look,
        }
    }

    fn hand_out_items(&mut self, id: StageId) -> Result<bool, EngineError> {
        let spec = self.run.stage(id);
        let items = Arc::new(self.pick(id, spec));
        if items.is_empty() {
            return Ok(false);
        }
        let (ticket, route) = (self.tasks.ticket(), self.board.route(spec));
        let Some(stage) = self.board[id].items_mut() else { return Ok(false) };
        stage.running += items.len();
        let (job, intake) = (stage.job.clone(), stage.intake.clone());
        let (given, route) = (items.clone(), Some(route));
        let task = Task::Items(ItemTask { ticket, job, intake, items: given, route });
        self.send(id, task, items, Vec::new())?;
        Ok(true)
    }

    /// Takes the items of a task off the queue, without those that another item of this run has the
    /// key of.
    fn pick(&mut self, id: StageId, spec: &StageSpec) -> Vec<QueuedItem> {
        let Some(stage) = self.board[id].items_mut() else { return Vec::new() };
        let full = BatchLimit::of(spec, stage, self.run.engine.threads);
        let most = self.run.options.mode.probed_items().unwrap_or(u64::MAX);
        let (mut picked, mut batch) = (Vec::new(), BatchSize::default());
        while let Some(next) = stage.queue.peek() {
            if full.is_reached(batch, next.weight) || batch.items >= most {
                break;
            }
            let Some(queued) = stage.queue.pop() else { break };
            if let Some(queued) = self.duplicates.begin(id, queued) {
                batch.bytes += queued.weight;
                batch.items += 1;
                picked.push(queued);
            }
        }
        picked
    }

    /// Work that other processes do: waits briefly and takes over what is finished. False if there
    /// is nothing to wait for.
    pub(super) fn wait_elsewhere(&mut self) -> Result<bool, EngineError> {
        if !self.may_start() {
            return Ok(false);
        }
        let (mut waiting, mut any_queued) = (None, false);
        for id in self.run.pipeline.ids().filter(|id| self.may_work(*id)).collect::<Vec<_>>() {
            let run = &mut self.board[id];
            if let Some(stage) = run.items_mut() {
                waiting = stage.elsewhere.front().map(|queued| queued.key).or(waiting);
                stage.queue.extend(stage.elsewhere.drain(..));
            }
            if run.state() == StageState::AwaitsClaim {
                waiting = run.known.keyed.as_ref().map(|keyed| keyed.digest).or(waiting);
            }
            any_queued |= run.has_pending_work();
        }
        let Some(key) = waiting else { return Ok(any_queued) };
        if !self.committer.holds_claims() {
            let others = match &self.others {
                Some(others) => others.clone(),
                None => history::others_at_work(self.run.cache, self.run.number)?,
            };
            let more = if others.is_empty() { String::new() } else { format!(": {others}") };
            let what = format!("another run working on the same items{more}");
            self.others = Some(others);
            self.tell(Event::Waiting { what });
        }
        self.run.cache.wait_for(&key, TICK)?;
        Ok(true)
    }

    /// A job for a stage with known input artifacts.
    pub(super) fn job_handle(&mut self, id: StageId) -> Result<JobHandle, EngineError> {
        let spec = self.run.stage(id);
        let at = |error: StageError| EngineError::Stage { stage: spec.name.clone(), error };
        let mut setup = self.run.engine.setup(self.run.pipeline, spec).map_err(at)?;
        setup.artifacts = self.artifacts(id);
        setup.files = self.planner.files[id.0].clone();
        Ok(JobHandle::new(self.tasks.ticket() as u32, spec.kind, setup))
    }
}
