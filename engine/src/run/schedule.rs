//! The schedule: one thread that owns the state of a run, hands out work and takes results.
//!
//! A stage is activated as soon as its inputs are known. An item that leaves a stage goes to the
//! next one immediately. The open work downstream of a stage decides its rank (module `precedence`);
//! within a stage the longest item comes first. `docs/scheduler.md` shows the states of a stage.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cache::{CacheError, Claim, Digest};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use stage_core::escape::cleaned;
use stage_core::event::Event;
use stage_core::{Reject, StageError};

use super::board::{Board, State};
use super::commit::Committer;
use super::hands::Hands;
use super::home::Home;
use super::message::{Message, Report};
use super::meter::Meter;
use super::precedence::Precedence;
use super::queue::Queued;
use super::training::Saved;
use super::watchdog::Watchdog;
use crate::allowance::{Allowance, Limit};
use crate::engine::{Engine, EngineError, RunOptions, Sink, StopFlag};
use crate::error::PlanError;
use crate::executor::queue::Queue;
use crate::pipeline::{Pipeline, StageId, StageWork};
use crate::plan::Work;
use crate::plan::planner::Planner;
use crate::record::{PROGRESS, encode};
use crate::store::{ReadError, Store};

pub const TICK: Duration = Duration::from_millis(100);
/// The time after its limit that a run waits for a worker to name the GPUs: a broken driver may
/// never answer.
const LATE_ANSWER: Duration = Duration::from_secs(10);

/// A task that has been handed out.
pub struct InFlight {
    pub stage: StageId,
    /// Shared with the executor.
    pub items: Arc<Vec<Queued>>,
    pub claims: Vec<Claim>,
    pub started: Instant,
    /// Its time limit counts from here: until it runs, this is the last look at it.
    pub since: Instant,
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

pub struct Schedule<'a> {
    pub engine: &'a Engine,
    pub pipeline: &'a Pipeline,
    pub store: Store,
    pub home: &'a Home,
    pub planner: Planner<'a>,
    pub board: Board,
    pub precedence: Precedence,
    /// By the position of a stage: the stages that take their items from it.
    pub takers: Vec<Vec<StageId>>,
    pub in_flight: HashMap<u64, InFlight>,
    /// Items that wait for another item of this run with the same key.
    pub followers: HashMap<Digest, Vec<(StageId, Queued)>>,
    pub options: &'a RunOptions,
    pub sink: Sink<'a>,
    pub hands: Hands,
    pub messages: Receiver<Message>,
    pub committer: Committer,
    pub run: u64,
    /// The runs whose work this one waits for, in words, once it has waited.
    pub others: Option<String>,
    pub allowance: &'a mut Allowance,
    pub meter: Meter,
    pub watchdog: Watchdog,
    /// A failure ends the run.
    pub halted: bool,
    /// An object is lost: the pass ends, and the next one plans again.
    pub lost: bool,
    /// A machine fault stops the run.
    pub unable: bool,
    /// Every trial of a sweep has failed.
    pub is_hopeless: bool,
    pub next_ticket: u64,
    /// Stops the threads that wait for jobs of executors.
    pub away: StopFlag,
    /// The threads that wait for jobs of executors, by their batches.
    pub batch_threads: HashMap<Digest, JoinHandle<()>>,
    /// The claims on the jobs of stages, until the last commit of the run: who has one sees all outcomes
    /// of the run before it.
    pub claims_away: HashMap<Digest, Claim>,
    /// The expected time of an item of stages on executors.
    pub seconds_away: HashMap<StageId, f64>,
    /// The queue of Slurm.
    pub queue: Arc<Queue>,
}

impl Schedule<'_> {
    /// Works until nothing more can be done.
    pub fn drive(&mut self, works: Vec<(StageId, Work)>) -> Result<Ending, EngineError> {
        self.watch_allowance()?;
        self.activate_all(works)?;
        let mut last_tick = Instant::now();
        loop {
            if self.may_start() {
                self.dispatch()?;
            }
            let awaits_devices = self.may_start() && self.hands.awaits_devices();
            if self.in_flight.is_empty() && !awaits_devices {
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
        self.end_batch_threads()?;
        self.close_batches()?;
        self.require_trials()?;
        self.note_devices()?;
        self.end_allowance()?;
        self.end_measures()?;
        self.board.leave_unfinished()?;
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
        match (self.board.any(State::Failed) || self.is_hopeless, self.board.any(State::Left)) {
            (true, _) => Ending::Failed,
            (false, true) => Ending::Paused,
            (false, false) => Ending::Done,
        }
    }

    /// Nothing new starts after a request to stop, or after a failure that ends the run.
    pub fn may_start(&self) -> bool {
        let may_continue = !self.options.stop.is_requested() || self.owes_task();
        !self.halted && !self.lost && !self.unable && may_continue
    }

    /// A run that reaches its time limit while its worker starts still hands out its first task:
    /// runs as short as that start would make no progress.
    fn owes_task(&self) -> bool {
        let first = self.allowance.first(self.store.cache(), false);
        let is_recent = |until: Instant| until.elapsed() < LATE_ANSWER;
        let is_of_time =
            first.is_some_and(|(limit, until)| limit == Limit::Time && is_recent(until));
        let is_first = self.next_ticket == 0 && self.hands.has_asked() && !self.has_done();
        is_of_time && is_first && !self.options.stop.is_pressing()
    }

    /// True if the run has executed anything.
    pub fn has_done(&self) -> bool {
        self.board.runs().iter().any(|run| run.counts.executed > 0)
    }

    pub fn tell(&mut self, event: Event) {
        (self.sink)(event);
    }

    /// The name of a stage, for an event.
    pub fn name(&self, id: StageId) -> String {
        self.pipeline.stage(id).name.clone()
    }

    fn receive(&mut self) -> Result<(), EngineError> {
        match self.messages.recv_timeout(TICK) {
            Ok(message) => self.handle(message)?,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the threads of the run have ended".to_owned();
                return Err(EngineError::Internal { message });
            }
        }
        while let Ok(message) = self.messages.try_recv() {
            self.handle(message)?;
        }
        self.finish_complete().map(drop)
    }

    pub fn handle(&mut self, message: Message) -> Result<(), EngineError> {
        match message {
            Message::Done { ticket, outcome, lost, written, took } => {
                self.done(ticket, outcome, lost, (written, took))?;
            }
            Message::Event(event) => {
                self.meter.observe(&event);
                self.tell(event);
            }
            Message::Full { why } => self.pause(why),
            Message::Overtaken { ticket, why } => {
                let stage = self.in_flight.get(&ticket).map(|task| self.name(task.stage));
                self.pause(format!("stage `{}`: {why}", stage.unwrap_or_default()));
            }
            Message::Note { ticket, message } => {
                let stage = self.in_flight.get(&ticket).map(|task| self.name(task.stage));
                self.tell(Event::Note { stage, message });
            }
            Message::Committed(result) => self.report_commit(result)?,
            Message::BatchEnded(id) => self.close_batch(&id)?,
            Message::Found(devices) => self.hands.learn(devices),
            Message::Report { ticket, report } => {
                // A task that was given up on may still report.
                if let Some(id) = self.in_flight.get(&ticket).map(|task| task.stage) {
                    self.report(id, report)?;
                }
            }
        }
        self.committer.start_if_due(&self.store);
        Ok(())
    }

    fn report(&mut self, id: StageId, report: Report) -> Result<(), EngineError> {
        let stage = self.name(id);
        match report {
            Report::Progress { done, total } => {
                let counts = self.board[id].counts;
                self.board[id].cost.progress = Some((done, total));
                self.tell(Event::Progress { stage, done, total, counts });
            }
            Report::Metrics { step, values } => {
                if self.pipeline.stage(id).work == StageWork::Train {
                    self.board[id].cost.step(step, &values);
                }
                self.tell(Event::Metrics { stage, step, values });
            }
            Report::SetAside(rejects) => self.set_aside(id, rejects),
            Report::Begins(course) => self.tell(Event::TrainingStarted { stage, course }),
            Report::CheckpointKept(saved) => self.checkpoint_kept(id, saved)?,
        }
        Ok(())
    }

    fn set_aside(&mut self, id: StageId, rejects: Vec<(Arc<str>, Reject)>) {
        for (item, reject) in rejects {
            if self.board[id].aside.insert(item.clone(), reject.clone()).is_none() {
                self.tell_quarantined(id, &item, &reject);
            }
        }
    }

    fn checkpoint_kept(&mut self, id: StageId, saved: Saved) -> Result<(), EngineError> {
        let Saved { bytes, seconds, is_further } = saved;
        if is_further {
            // A stage that made progress gets its full number of retries again.
            self.board[id].attempt = 0;
        }
        self.tell(Event::CheckpointKept { stage: self.name(id), bytes, seconds });
        // For the estimate of the remaining work.
        let run = &self.board[id];
        if let (Some(keyed), Some(progress)) = (&run.known.keyed, run.cost.progress) {
            self.store.cache().record(PROGRESS, &keyed.digest, encode(&progress))?;
            self.committer.note(Vec::new());
        }
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
            self.tell(Event::Stopping { why });
        }
    }

    pub fn pause_at(&mut self, id: StageId, error: &StageError) {
        let stage = self.name(id);
        self.pause(format!("stage `{stage}`: {error}"));
    }

    /// The same for a fault that one item met again and again.
    pub fn pause_at_item(&mut self, id: StageId, item: &str, error: &StageError) {
        let (stage, item) = (self.name(id), cleaned(item.to_owned()));
        self.pause(format!("stage `{stage}`, item `{item}`: {error}"));
    }

    /// Periodic work: progress, time limits, commits.
    fn tick(&mut self) -> Result<(), EngineError> {
        if !self.may_start() {
            self.away.request();
        }
        self.tell_progress();
        self.watch_allowance()?;
        self.watch_memory();
        if self.options.stop.is_requested() || self.unable {
            for message in self.watchdog.watch(&self.options.stop, &self.hands) {
                self.tell(Event::Note { stage: None, message });
            }
        }
        self.note_devices()?;
        self.committer.start_if_due(&self.store);
        self.end_overdue()
    }

    fn tell_progress(&mut self) {
        for id in self.pipeline.ids() {
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

    /// Records the used money and GPU time, and stops work that has used up either.
    fn watch_allowance(&mut self) -> Result<(), EngineError> {
        let busy = self.hands.gpus_are_busy().then(Instant::now);
        if self.allowance.watch(self.store.cache(), busy)? {
            self.committer.note(Vec::new());
        }
        for limit in self.allowance.reached(self.store.cache()) {
            if limit == Limit::GpuHours {
                self.hands.stop_gpus();
            }
            self.stop_at(limit);
        }
        Ok(())
    }

    fn stop_at(&mut self, limit: Limit) {
        if let Some(why) = self.allowance.why_stopped(self.store.cache(), limit) {
            self.tell(Event::Stopping { why });
        }
        match limit {
            Limit::Money => self.options.stop.request_after_batch(),
            Limit::GpuHours => self.allowance.bar_gpus(),
            // The clock of the session requests the stop.
            Limit::Time => {}
        }
    }

    /// A training has saved and stopped by itself, since the allowance would not have lasted for a
    /// later save.
    pub fn has_saved(&mut self, id: StageId) {
        let is_stopping = self.options.stop.is_requested() || self.unable;
        let first = self.allowance.first(self.store.cache(), self.is_on_gpu(id));
        if let (false, Some((limit, _))) = (is_stopping, first) {
            self.stop_at(limit);
        }
    }

    /// Records the last usage of the pass, and reports work that had to wait for GPU time.
    fn end_allowance(&mut self) -> Result<(), EngineError> {
        if self.allowance.end_pass(self.store.cache())? {
            self.committer.note(Vec::new());
        }
        let waits = |id| self.board[id].has_pending_work() && self.is_barred(id);
        if self.allowance.bars_gpus() && self.pipeline.ids().any(waits) {
            self.stop_at(Limit::GpuHours);
        }
        Ok(())
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
            Err(error) => Err(error.at(self.name(id))),
        }
    }

    pub fn note_lost(&mut self, id: StageId, lost: &[Digest]) {
        self.lost = true;
        for digest in lost {
            if let Some(event) = self.store.lost(&self.name(id), digest) {
                self.tell(event);
            }
        }
    }
}
