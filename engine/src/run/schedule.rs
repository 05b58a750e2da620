//! The schedule: one thread that owns the state of a run, hands out work and takes results.
//!
//! A stage is activated as soon as its inputs are known. An item that leaves a stage goes to the
//! next one immediately. Stages near the end of the pipeline come first, and within a stage the
//! longest item.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::{CacheError, Claim, Digest};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use stage_core::event::{Event, StageCounts};
use stage_core::{Batching, Kind, Place, Reject, StageError};

use super::commit::Committer;
use super::gpu::Gpus;
use super::hands::Hands;
use super::home::Home;
use super::item_stage::{ItemStage, Queued};
use super::lookups::Lookups;
use super::message::{GatherTask, ItemTask, JobHandle, Message, Task};
use super::meter::Meter;
use super::spending::Spending;
use super::training::steps_done;
use super::watchdog::Watchdog;
use crate::engine::{Engine, EngineError, RunOptions, Sink};
use crate::pipeline::{Pipeline, StageId};
use crate::plan::StagePlan;
use crate::plan::planner::{PlanError, Planner};
use crate::store::{ReadError, Store};

/// A task of single items is filled up to about this duration, so that handing it over costs
/// little.
const TASK_SECONDS: f64 = 0.004;
const TASK_ITEMS: usize = 64;
const TICK: Duration = Duration::from_millis(100);

/// The state of a stage.
pub enum State {
    /// It is not among the targets.
    Unwanted,
    /// An input is not known yet.
    Waiting,
    /// Its inputs are complete, and its only task is not handed out yet.
    Ready {
        attempt: u32,
    },
    /// Its only task is running.
    Whole {
        attempt: u32,
    },
    /// Its only task has stopped, and another run will continue it.
    Resting,
    Items(Box<ItemStage>),
    Done,
    Failed,
}

/// A task that has been handed out.
pub struct InFlight {
    pub stage: StageId,
    pub items: Vec<Queued>,
    pub claims: Vec<Claim>,
    pub started: Instant,
}

/// The end of a pass over the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    Done,
    Failed,
    Paused,
    /// An object was lost and its records were removed: planning again makes it again.
    Again,
}

/// The items of a task, and their claims.
type Taken = (Vec<Queued>, Vec<Claim>);

pub struct Schedule<'a> {
    pub engine: &'a Engine,
    pub pipeline: &'a Pipeline,
    pub store: Store,
    pub home: &'a Home,
    pub planner: Planner<'a>,
    pub plans: Vec<StagePlan>,
    pub states: Vec<State>,
    pub counts: Vec<StageCounts>,
    pub notes: Vec<BTreeMap<String, u64>>,
    pub reported: Vec<u64>,
    pub in_flight: HashMap<u64, InFlight>,
    /// Items that wait for another item of this run with the same key.
    pub followers: HashMap<Digest, Vec<(StageId, Queued)>>,
    pub lookups: Lookups,
    pub options: &'a RunOptions,
    pub sink: Sink<'a>,
    pub hands: Hands,
    pub messages: Receiver<Message>,
    pub committer: Committer,
    pub run: u64,
    pub gpus: Gpus,
    pub meter: Meter,
    pub spending: &'a mut Spending,
    pub watchdog: Watchdog,
    /// Deaths of the worker without a result between them, by stage.
    pub deaths: HashMap<StageId, u32>,
    /// Items quarantined by stages on whole data sets, as reported: another attempt reports the
    /// same items again.
    pub aside: BTreeMap<(StageId, Arc<str>), Reject>,
    pub halted: bool,
    pub failed: bool,
    pub lost: bool,
    /// A machine fault stops the run.
    pub unable: bool,
    pub next_ticket: u64,
}

impl<'a> Schedule<'a> {
    /// Works until nothing more can be done.
    pub fn drive(&mut self) -> Result<Ending, EngineError> {
        self.watch_spending()?;
        self.activate_all()?;
        let mut last_tick = Instant::now();
        loop {
            if self.may_start() {
                self.dispatch()?;
            }
            if self.in_flight.is_empty() {
                if self.trust_all()? {
                    continue;
                }
                if !self.wait_elsewhere()? {
                    break;
                }
            }
            self.receive()?;
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                self.tick()?;
            }
        }
        self.end_gpus()?;
        self.end_spending()?;
        self.keep_measures()?;
        if self.ending() != Ending::Done && self.options.probe.is_none() {
            let committed = self.committer.finish(&self.store);
            self.report_commit(committed)?;
        }
        Ok(self.ending())
    }

    fn ending(&self) -> Ending {
        if self.lost && !self.options.stop.is_requested() && !self.unable {
            return Ending::Again;
        }
        let unfinished = self
            .states
            .iter()
            .any(|state| !matches!(state, State::Unwanted | State::Done | State::Failed));
        match (self.failed, unfinished) {
            (true, _) => Ending::Failed,
            (false, true) => Ending::Paused,
            (false, false) => Ending::Done,
        }
    }

    /// Nothing new starts after a request to stop, or after a failure that ends the run.
    pub fn may_start(&self) -> bool {
        !self.halted && !self.lost && !self.unable && !self.options.stop.is_requested()
    }

    fn receive(&mut self) -> Result<(), EngineError> {
        match self.messages.recv_timeout(TICK) {
            Ok(message) => self.handle(message)?,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the threads of the run are gone".to_owned();
                return Err(EngineError::Internal { message });
            }
        }
        while let Ok(message) = self.messages.try_recv() {
            self.handle(message)?;
        }
        self.finish_complete().map(drop)
    }

    fn handle(&mut self, message: Message) -> Result<(), EngineError> {
        match message {
            Message::Done { ticket, outcome, lost, written } => {
                self.done(ticket, outcome, lost, written)?;
            }
            Message::Progress { ticket, done, total } => self.progress(ticket, done, total),
            Message::Metrics { ticket, step, values } => self.metrics(ticket, step, values),
            Message::SetAside { ticket, rejects } => self.set_aside(ticket, rejects),
            Message::Begins { ticket, course } => self.training_begins(ticket, course),
            Message::CheckpointKept { ticket, saved } => self.checkpoint_kept(ticket, saved)?,
            Message::Event(event) => {
                self.meter.observe(&event);
                (self.sink)(event);
            }
            Message::Full { why } => self.pause(why),
            Message::Committed(result) => self.report_commit(result)?,
        }
        self.committer.start_if_due(&self.store);
        Ok(())
    }

    /// A full disk pauses the run: finished work stays, and the rest continues later.
    pub fn report_commit(&mut self, result: Result<(), CacheError>) -> Result<(), EngineError> {
        match result {
            Ok(()) => Ok(()),
            Err(error) if error.machine_fault().is_some() => {
                self.pause(error.whole());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A machine fault stops the run: it is no verdict on anything.
    pub fn pause(&mut self, why: String) {
        if !self.unable {
            self.unable = true;
            (self.sink)(Event::Stopping { why });
        }
    }

    fn set_aside(&mut self, ticket: u64, rejects: Vec<(Arc<str>, Reject)>) {
        let Some(id) = self.in_flight.get(&ticket).map(|task| task.stage) else { return };
        for (item, reject) in rejects {
            if self.aside.insert((id, item.clone()), reject.clone()).is_none() {
                self.tell_quarantined(id, &item, &reject);
            }
        }
    }

    pub fn pause_at(&mut self, id: StageId, error: &StageError) {
        let stage = &self.pipeline.stage(id).name;
        self.pause(format!("stage `{stage}`: {error}"));
    }

    fn progress(&mut self, ticket: u64, done: u64, total: u64) {
        if let Some(task) = self.in_flight.get(&ticket) {
            let stage = self.pipeline.stage(task.stage).name.clone();
            let counts = self.counts[task.stage.0];
            self.meter.has_come_to(task.stage, done, total);
            (self.sink)(Event::Progress { stage, done, total, counts });
        }
    }

    /// Periodic work: progress, time limits, commits.
    fn tick(&mut self) -> Result<(), EngineError> {
        for (at, spec) in self.pipeline.stages.iter().enumerate() {
            let counts = self.counts[at];
            let done = counts.executed + counts.reused;
            if let State::Items(stage) = &self.states[at]
                && self.reported[at] != done
            {
                self.reported[at] = done;
                let (stage, total) = (spec.name.clone(), stage.total.max(done));
                (self.sink)(Event::Progress { stage, done, total, counts });
            }
        }
        self.watch_gpus()?;
        self.watch_spending()?;
        self.watch_memory();
        self.watch_workers();
        self.committer.start_if_due(&self.store);
        self.end_overdue()
    }

    /// Hands out work as long as executors are free.
    fn dispatch(&mut self) -> Result<(), EngineError> {
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
        for id in self.pipeline.ids().rev() {
            let spec = self.pipeline.stage(id);
            while !self.is_barred(id)
                && !self.is_probed(id)
                && self.hands.is_free(spec.kind, &spec.policy.device)
            {
                let handed = match &self.states[id.0] {
                    State::Ready { attempt } => {
                        let attempt = *attempt;
                        self.hand_out_whole(id, attempt)?
                    }
                    State::Items(_) => self.hand_out_items(id)?,
                    _ => false,
                };
                if !handed {
                    break;
                }
                moved = true;
            }
        }
        Ok(moved)
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    fn hand_out_whole(&mut self, id: StageId, attempt: u32) -> Result<bool, EngineError> {
        let key = self.plans[id.0].keyed.as_ref().map(|keyed| keyed.digest);
        let claim = match key {
            Some(key) => self.store.cache().claim(&key)?,
            None => None,
        };
        if key.is_some() && claim.is_none() {
            return Ok(false);
        }
        if self.plan_again(id)? {
            return Ok(true);
        }
        let spec = self.pipeline.stage(id);
        let training = self.training(id)?;
        if let Some(training) = &training {
            self.begin_training(id, steps_done(&self.store, &training.key)?);
        }
        let ticket = self.ticket();
        let keyed = self.plans[id.0].keyed.clone();
        let task = Task::Gather(Box::new(GatherTask {
            ticket,
            job: Arc::new(self.job_handle(id)?),
            outputs: spec.kind.outputs,
            ports: Arc::new(self.gather_sources(id)),
            policy: spec.policy.clone(),
            training,
            own_key: keyed.map(|keyed| keyed.key.without_inputs().digest()),
        }));
        self.in_flight.insert(
            ticket,
            InFlight {
                stage: id,
                items: Vec::new(),
                claims: claim.into_iter().collect(),
                started: Instant::now(),
            },
        );
        self.states[id.0] = State::Whole { attempt };
        self.hands.hand_out(spec.kind, &spec.policy.device, task).map_err(EngineError::Thread)?;
        Ok(true)
    }

    fn hand_out_items(&mut self, id: StageId) -> Result<bool, EngineError> {
        let (kind, device) = {
            let spec = self.pipeline.stage(id);
            (spec.kind, spec.policy.device.clone())
        };
        let Some((items, claims)) = self.take_items(id, kind)? else { return Ok(false) };
        if items.is_empty() {
            return Ok(true);
        }
        let ticket = self.ticket();
        let State::Items(stage) = &mut self.states[id.0] else { return Ok(false) };
        stage.running += items.len();
        let names = &stage.reads;
        let task = Task::Items(ItemTask {
            ticket,
            job: stage.job.clone(),
            items: items.iter().map(|queued| names.see(&queued.item).to_item()).collect(),
        });
        let started = Instant::now();
        self.in_flight.insert(ticket, InFlight { stage: id, items, claims, started });
        self.hands.hand_out(kind, &device, task).map_err(EngineError::Thread)?;
        Ok(true)
    }

    /// Takes the next items of a stage from its queue: as many as make a task, without those with
    /// known outcomes. None if there are none.
    fn take_items(
        &mut self,
        id: StageId,
        kind: &'static Kind,
    ) -> Result<Option<Taken>, EngineError> {
        let picked = self.pick(id, kind)?;
        if picked.is_empty() {
            return Ok(None);
        }
        // Looked up after claiming, so that commits of others are seen.
        let keys: Vec<Digest> = picked.iter().map(|(queued, _)| queued.key).collect();
        let known = match self.lookups.may_find(self.store.cache(), &keys)? {
            true => self.store.known_items(&keys)?,
            false => vec![None; keys.len()],
        };
        let (mut items, mut claims) = (Vec::new(), Vec::new());
        for ((queued, claim), record) in picked.into_iter().zip(known) {
            match (record, claim) {
                (Some(record), _) => self.resolve_known(id, queued, record)?,
                (None, Some(claim)) => {
                    claims.push(claim);
                    items.push(queued);
                }
                (None, None) => {
                    if let State::Items(stage) = &mut self.states[id.0] {
                        stage.elsewhere.push_back(queued);
                    }
                }
            }
        }
        Ok(Some((items, claims)))
    }

    /// Takes items off the queue and claims them, unless another process has them. A claim of this
    /// run is kept until its outcome is durable; the outcome is known before that.
    fn pick(
        &mut self,
        id: StageId,
        kind: &'static Kind,
    ) -> Result<Vec<(Queued, Option<Claim>)>, EngineError> {
        let (mut picked, mut count, mut bytes) = (Vec::new(), 0, 0u64);
        let limit = self.batch_limit(id, kind);
        let most = self.options.probe.unwrap_or(u64::MAX);
        while let State::Items(stage) = &mut self.states[id.0] {
            let full = match limit {
                BatchLimit::Items(limit) => count >= limit,
                BatchLimit::Bytes(limit) => {
                    let next = stage.queue.peek().map_or(0, |queued| queued.weight);
                    count > 0 && bytes + next > limit
                }
            };
            if full || count as u64 >= most {
                break;
            }
            let Some(queued) = stage.queue.pop() else { break };
            if let Some(followers) = self.followers.get_mut(&queued.key) {
                followers.push((id, queued));
                continue;
            }
            let claim = self.store.cache().claim(&queued.key)?;
            if claim.is_some() {
                bytes += queued.weight;
                count += 1;
                self.followers.insert(queued.key, Vec::new());
            }
            picked.push((queued, claim));
        }
        Ok(picked)
    }

    fn batch_limit(&self, id: StageId, kind: &Kind) -> BatchLimit {
        let State::Items(stage) = &self.states[id.0] else { return BatchLimit::Items(1) };
        match kind.batching {
            Batching::ByBytes { parameter } => {
                let wanted = self.pipeline.stage(id).parameters.bytes(parameter).unwrap_or(1 << 20);
                BatchLimit::Bytes(stage.batch_limit.map_or(wanted, |limit| limit.min(wanted)))
            }
            Batching::ByCount { parameter } => {
                let wanted = self.pipeline.stage(id).parameters.integer(parameter).unwrap_or(1);
                let wanted = wanted.max(1) as u64;
                let limit = stage.batch_limit.map_or(wanted, |limit| limit.min(wanted));
                BatchLimit::Items(limit as usize)
            }
            Batching::Single if kind.place == Place::Worker => BatchLimit::Items(1),
            Batching::Single => {
                let by_time = match stage.pace > 0.0 {
                    true => (TASK_SECONDS / stage.pace) as usize,
                    false => 1,
                };
                let share = stage.queue.len() / (2 * self.engine.threads.max(1));
                BatchLimit::Items(by_time.min(share).clamp(1, TASK_ITEMS))
            }
        }
    }

    /// Items that other processes work on: waits briefly and takes over finished ones. False if
    /// there is nothing to wait for.
    fn wait_elsewhere(&mut self) -> Result<bool, EngineError> {
        if !self.may_start() {
            return Ok(false);
        }
        let mut waiting = None;
        for id in self.pipeline.ids() {
            if self.is_barred(id) || self.is_probed(id) {
                continue;
            }
            match &mut self.states[id.0] {
                State::Items(stage) if !stage.elsewhere.is_empty() => {
                    waiting = stage.elsewhere.front().map(|queued| queued.key).or(waiting);
                    let elsewhere = std::mem::take(&mut stage.elsewhere);
                    stage.queue.extend(elsewhere);
                }
                State::Ready { .. } => {
                    let keyed = self.plans[id.0].keyed.as_ref();
                    waiting = keyed.map(|keyed| keyed.digest).or(waiting);
                }
                _ => {}
            }
        }
        let Some(key) = waiting else { return Ok(self.any_queued()) };
        let what = "another run that works on the same items".to_owned();
        (self.sink)(Event::Waiting { what });
        self.store.cache().wait_for(&key, TICK)?;
        Ok(true)
    }

    fn any_queued(&self) -> bool {
        let may = |id| !self.is_barred(id) && !self.is_probed(id);
        self.pipeline.ids().any(|id| self.waits(id) && may(id))
    }

    /// Tests if a stage has pending work.
    pub fn waits(&self, id: StageId) -> bool {
        match &self.states[id.0] {
            State::Items(stage) => !stage.queue.is_empty(),
            State::Ready { .. } => true,
            _ => false,
        }
    }

    /// A job for a stage with known input artifacts.
    pub fn job_handle(&mut self, id: StageId) -> Result<JobHandle, EngineError> {
        let spec = self.pipeline.stage(id);
        let at = |error: StageError| EngineError::Stage { stage: spec.name.clone(), error };
        let mut setup = self.engine.setup(self.pipeline, spec).map_err(at)?;
        setup.artifacts = self.artifacts(id);
        setup.files = self.planner.files[id.0].clone();
        self.next_ticket += 1;
        Ok(JobHandle::new(self.next_ticket as u32, spec.kind, setup))
    }

    /// An object lost during planning ends the pass; any other error ends the run.
    pub fn or_lost<T>(
        &mut self,
        id: StageId,
        result: Result<T, PlanError>,
    ) -> Result<Option<T>, EngineError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(PlanError::Read(ReadError::Lost(digest))) => {
                self.note_lost(id, &[digest]);
                Ok(None)
            }
            Err(error) => Err(error.at(self.pipeline.stage(id).name.clone())),
        }
    }

    pub fn note_lost(&mut self, id: StageId, lost: &[Digest]) {
        self.lost = true;
        for digest in lost {
            let stage = self.pipeline.stage(id).name.clone();
            (self.sink)(Event::Damaged { stage, digest: digest.to_string() });
        }
    }
}

enum BatchLimit {
    Items(usize),
    Bytes(u64),
}
