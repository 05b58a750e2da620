//! The schedule: one thread that owns the state of a run, hands out work and takes results.
//!
//! A stage is activated as soon as its inputs are known. An item that leaves a stage goes to the
//! next one immediately. The open work downstream of a stage decides its rank (module `precedence`);
//! within a stage the longest item comes first. `docs/scheduler.md` shows the states of a stage.

mod dispatch;
mod failure;
mod finish;
mod measured;
mod quarantine;
mod remote;
mod reports;
mod settle;
mod start;
mod trials;
mod turns;

use std::time::{Duration, Instant};

use crate::event::Event;
use cache::{CacheError, Digest};
use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use stage_core::StageError;
use stage_core::escape::cleaned;

use super::board::{Board, StageState};
use super::budget::{Budget, Effects};
use super::commit::Committer;
use super::home::Home;
use super::message::Message;
use super::meter::Meter;
use super::obstacles::{Ending, Obstacle, Obstacles};
use super::precedence::Precedence;
use super::records::Run;
use super::shared::SharedState;
use super::tasks::Tasks;
use super::threads::Threads;
use super::total::RunTotal;
use crate::allowance::Allowance;
use crate::engine::{EngineError, Sink};
use crate::error::PlanError;
use crate::pipeline::StageId;
use crate::plan::planner::Planner;
use crate::plan::{Plan, Work};
use crate::run::items::duplicates::Duplicates;
use crate::run::jobs::remote_jobs::RemoteJobs;
use crate::run::workers::watchdog::Watchdog;
use crate::store::{ReadError, Store};

const TICK: Duration = Duration::from_millis(100);

/// The handlers are in the files of this folder. What they change is in parts with methods of their
/// own; only they and this file see the fields.
pub struct Schedule<'a> {
    run: Run<'a>,
    home: &'a Home,
    /// It has the store, too.
    planner: Planner<'a>,
    board: Board,
    precedence: Precedence,
    tasks: Tasks,
    duplicates: Duplicates,
    threads: Threads,
    messages: Receiver<Message>,
    sink: Sink<'a>,
    committer: Committer,
    budget: Budget<'a>,
    meter: Meter,
    watchdog: Watchdog,
    obstacles: Obstacles,
    jobs: RemoteJobs,
    /// The runs whose work this one waits for, in words, once it has waited.
    others: Option<String>,
}

/// The parts of a schedule that are used after its work.
pub struct Rest {
    pub board: Board,
    pub store: Store,
    pub committer: Committer,
}

impl<'a> Schedule<'a> {
    /// A schedule that has handed nothing out yet, and the work.
    pub fn new(
        run: Run<'a>,
        (home, allowance): (&'a Home, &'a mut Allowance),
        plan: Plan,
        planner: Planner<'a>,
        total: &RunTotal,
        sink: Sink<'a>,
    ) -> Result<(Schedule<'a>, Vec<(StageId, Work)>), EngineError> {
        let (sender, messages) = unbounded();
        let (cache, options) = (run.cache, run.options);
        let shared =
            SharedState::new(run.engine, planner.store.clone(), sender.clone(), &options.stop);
        let precedence = Precedence::of(run.pipeline, |id| plan.stage(id).work.is_open());
        let (board, works) = Board::new(run.pipeline, run.wanted, plan);
        let schedule = Schedule {
            run,
            home,
            planner,
            board,
            precedence,
            tasks: Tasks::default(),
            duplicates: Duplicates::default(),
            threads: Threads::new(shared).map_err(EngineError::Thread)?,
            messages,
            sink,
            committer: Committer::new(cache.clone(), sender, options.commit_every),
            budget: Budget::new(allowance, cache, &options.stop),
            meter: Meter::new(cache),
            watchdog: Watchdog::default(),
            obstacles: Obstacles::default(),
            jobs: RemoteJobs::new(run.pipeline, total.expected.as_ref()),
            others: None,
        };
        Ok((schedule, works))
    }

    /// Ends the threads, and adds what was done to the total of the run.
    pub fn end(self, has_failed: bool, total: &mut RunTotal) -> Rest {
        total.is_unable |= self.obstacles.has(Obstacle::MachineFault);
        for id in self.board.done() {
            total.take_cost(self.run.stage(id), self.taken(id));
        }
        total.add(&self.board.counts());
        let Schedule { threads, planner, board, mut committer, meter, jobs, .. } = self;
        if has_failed {
            // Their tasks are not waited for.
            threads.leave_workers();
        }
        threads.dismiss();
        // A running commit moves the files that exports are made from.
        committer.join();
        committer.hold(jobs.into_claims());
        total.probed = meter.into_probed();
        Rest { board, store: planner.store, committer }
    }
}

impl Schedule<'_> {
    /// Works until nothing more can be done.
    pub fn drive(&mut self, works: Vec<(StageId, Work)>) -> Result<Ending, EngineError> {
        self.watch_budget()?;
        self.activate_all(works)?;
        let mut last_tick = Instant::now();
        loop {
            if self.may_start() {
                self.dispatch()?;
            }
            let awaits_devices = self.may_start() && self.threads.awaits_devices();
            if self.tasks.is_empty() && !awaits_devices {
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
        self.jobs.join();
        self.handle_waiting()?;
        self.close_batches()?;
        self.count_failures()?;
        self.require_trials()?;
        self.note_devices()?;
        let waits = |id| self.board[id].has_pending_work() && self.is_barred(id);
        let waits = self.budget.bars_gpus() && self.run.pipeline.ids().any(waits);
        let effects = self.budget.end_pass(waits)?;
        self.apply(effects);
        self.end_measures()?;
        self.board.leave_unfinished()?;
        if self.ending() != Ending::Done && !self.run.is_probe() {
            let committed = self.committer.finish();
            self.report_commit(committed)?;
        }
        Ok(self.ending())
    }

    fn ending(&self) -> Ending {
        self.obstacles.ending(&self.board, self.run.options.stop.is_requested())
    }

    fn store(&self) -> &Store {
        &self.planner.store
    }

    /// Nothing new starts after a request to stop, or after a failure that ends the run.
    fn may_start(&self) -> bool {
        self.obstacles.is_empty() && (!self.run.options.stop.is_requested() || self.owes_task())
    }

    /// A run that reaches its time limit while its worker starts still hands out its first task:
    /// runs as short as that start would make no progress. It does not wait for another run like that.
    fn owes_task(&self) -> bool {
        let is_first = self.tasks.is_untouched() && self.threads.has_asked() && !self.has_done();
        is_first && self.budget.has_just_ended() && !self.board.any(StageState::AwaitsClaim)
    }

    /// True if the run has executed anything.
    fn has_done(&self) -> bool {
        self.board.runs().iter().any(|run| run.counts.executed > 0)
    }

    fn tell(&mut self, event: Event) {
        (self.sink)(event);
    }

    /// Applies what the budget asks for.
    fn apply(&mut self, effects: Effects) {
        if effects.has_recorded {
            self.committer.mark();
        }
        effects.events.into_iter().for_each(|event| self.tell(event));
    }

    /// The name of a stage, for an event.
    fn name(&self, id: StageId) -> String {
        self.run.stage(id).name.clone()
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
        self.handle_waiting()?;
        self.finish_complete().map(drop)
    }

    fn handle_waiting(&mut self) -> Result<(), EngineError> {
        while let Ok(message) = self.messages.try_recv() {
            self.handle(message)?;
        }
        Ok(())
    }

    fn handle(&mut self, message: Message) -> Result<(), EngineError> {
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
                let stage = self.tasks.stage(ticket).map(|id| self.name(id));
                self.pause(format!("stage `{}`: {why}", stage.unwrap_or_default()));
            }
            Message::Note { ticket, message } => {
                let stage = self.tasks.stage(ticket).map(|id| self.name(id));
                self.tell(Event::Note { stage, message });
            }
            Message::Committed(result) => self.report_commit(result)?,
            Message::BatchEnded(id) => self.close_batch(&id)?,
            Message::Found(devices) => self.threads.learn(devices),
            Message::Report { ticket, report } => {
                // A task that was given up on may still report.
                if let Some(id) = self.tasks.stage(ticket) {
                    self.report(id, report)?;
                }
            }
        }
        self.committer.start_if_due();
        Ok(())
    }

    /// A full disk pauses the run: finished work stays, and the rest continues later.
    fn report_commit(&mut self, result: Result<(), CacheError>) -> Result<(), EngineError> {
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
    fn pause(&mut self, why: String) {
        if self.obstacles.add(Obstacle::MachineFault) {
            self.tell(Event::Stopping { why });
        }
    }

    fn pause_at(&mut self, id: StageId, error: &StageError) {
        let stage = self.name(id);
        self.pause(format!("stage `{stage}`: {error}"));
    }

    /// The same for a fault that one item met again and again.
    fn pause_at_item(&mut self, id: StageId, item: &str, error: &StageError) {
        let (stage, item) = (self.name(id), cleaned(item.to_owned()));
        self.pause(format!("stage `{stage}`, item `{item}`: {error}"));
    }

    /// Periodic work: progress, time limits, commits.
    fn tick(&mut self) -> Result<(), EngineError> {
        if !self.may_start() {
            self.jobs.stop().request();
        }
        self.tell_progress();
        self.watch_budget()?;
        self.watch_memory();
        if self.run.options.stop.is_requested() || self.obstacles.has(Obstacle::MachineFault) {
            for message in self.watchdog.watch(&self.run.options.stop, &self.threads) {
                self.tell(Event::Note { stage: None, message });
            }
        }
        self.note_devices()?;
        self.committer.start_if_due();
        self.end_overdue()
    }

    fn watch_budget(&mut self) -> Result<(), EngineError> {
        let effects = self.budget.watch(&self.threads)?;
        self.apply(effects);
        Ok(())
    }

    /// An object lost during planning ends the pass; any other error ends the run.
    fn or_lost<T>(
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

    fn note_lost(&mut self, id: StageId, lost: &[Digest]) {
        self.obstacles.add(Obstacle::Loss);
        for digest in lost {
            if let Some(event) = self.store().lost(&self.name(id), digest) {
                self.tell(event);
            }
        }
    }
}
