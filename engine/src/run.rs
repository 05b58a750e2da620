//! Runs a plan: passes of planning and working until nothing is left to do.

pub(crate) mod arrived;
mod aside;
pub(crate) mod away;
mod batch;
mod before;
mod board;
mod commit;
mod context;
mod cost;
pub(crate) mod crew;
mod device;
mod dispatch;
mod export_paths;
mod finish;
mod gather;
mod hands;
mod home;
mod item_stage;
mod measured;
pub(crate) mod message;
mod meter;
mod pool;
mod program_check;
mod queue;
pub mod replay;
mod schedule;
mod scratch;
mod settle;
mod share;
mod shared;
pub mod standing;
mod total;
pub mod training;
mod trial;
mod trials;
mod watchdog;
mod worker;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use cache::{Cache, CacheError, Claim};
use crossbeam_channel::unbounded;
use stage_core::event::{Event, StageCounts, Status};

use crate::allowance::Allowance;
use crate::engine::{Engine, EngineError, RunOptions, Sink, StopFlag};
use crate::estimate::{Estimate, estimate_here};
use crate::export::{self, Exported};
use crate::history;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::mirror::{self, Pusher, tell_notes};
use crate::pipeline::{Pipeline, StageId};
use crate::plan::Plan;
use crate::plan::planner::Planner;
use crate::record::{BEGUN, BegunRecord, RUN, RunRecord, decode, encode, run_key};
use crate::sweep::halving::Part;

pub use away::require_remote;

use board::Board;
use commit::Committer;
use hands::Hands;
use home::Home;
use meter::Meter;
use schedule::{Ending, Schedule};
use scratch::Scratch;
use shared::Shared;
use total::Total;
use watchdog::Watchdog;
use worker::Spare;

/// The number of times that a run is planned again because something turned out to be lost.
const PASSES: usize = 16;
/// The number of losses that are handled one by one; after that the whole cache is verified.
const PATIENCE: usize = 2;
const RUNS_AT_ONCE: u64 = 64;

pub fn run(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    options: &RunOptions,
    sink: Sink,
) -> Result<Status, EngineError> {
    let started = Instant::now();
    let mut total = Total::new(pipeline);
    let wanted: BTreeSet<StageId> = match options.targets.as_slice() {
        [] => pipeline.ids().collect(),
        targets => pipeline.with_upstream(targets),
    };
    let ended = run_wanted(engine, pipeline, cache, options, &wanted, &mut total, sink);
    let status = ended.or_else(|error| pause_for(error, &mut total, sink))?;
    let seconds = started.elapsed().as_secs_f64();
    sink(Event::Finished { status, stages: total.named(pipeline, &wanted), seconds });
    Ok(status)
}

/// A machine fault pauses a run wherever it occurs: finished work stays, and the rest continues
/// once the machine can. Only the first fault is reported, since the others follow from it.
fn pause_for(error: EngineError, total: &mut Total, sink: Sink) -> Result<Status, EngineError> {
    match error.machine_fault() {
        Some(why) => {
            if !std::mem::replace(&mut total.is_unable, true) {
                sink(Event::Stopping { why });
            }
            Ok(Status::Paused)
        }
        None => Err(error),
    }
}

fn run_wanted(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    options: &RunOptions,
    wanted: &BTreeSet<StageId>,
    total: &mut Total,
    sink: Sink,
) -> Result<Status, EngineError> {
    let (number, _claim) = next_run(cache)?;
    let ended = run_numbered(engine, pipeline, cache, options, (number, wanted), total, sink);
    if let Err(error) = &ended {
        let status = if error.machine_fault().is_some() { Status::Paused } else { Status::Failed };
        // The error itself explains why it cannot be recorded.
        let _ = record_broken_off(pipeline, cache, number, status);
    }
    ended
}

fn run_numbered(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    options: &RunOptions,
    (number, wanted): (u64, &BTreeSet<StageId>),
    total: &mut Total,
    sink: Sink,
) -> Result<Status, EngineError> {
    let started = Instant::now();
    let begun = cache.fs().now() / 1_000_000_000;
    let names = wanted.iter().map(|id| pipeline.stage(*id).name.clone()).collect();
    sink(Event::Started { run: number, pipeline: pipeline.name.clone(), stages: names });
    let mut ending = Ending::Again;
    let (mut held, mut allowance) = (Vec::new(), None);
    let mut home = None;
    let mut pusher = None;
    for at in 0..PASSES {
        if at == PATIENCE {
            options.stop.while_reading(|| crate::plan::planner::look_through(cache, sink))?;
        }
        let mut pass = Pass {
            engine,
            pipeline,
            cache,
            options,
            wanted,
            number,
            deep: at > 0,
            held: &mut held,
            allowance: &mut allowance,
            home: &mut home,
            pusher: &mut pusher,
        };
        let ended = pass.run(total, sink).and_then(|ending| {
            // The next pass may work on the same items: their claims are released first.
            if ending == Ending::Again {
                commit_rest(cache, std::mem::take(&mut held))?;
            }
            Ok(ending)
        });
        ending = match ended {
            Err(moved @ EngineError::Moved { .. }) => {
                commit_rest(cache, held)?;
                return Err(moved);
            }
            Err(error) => {
                pause_for(error, total, sink)?;
                Ending::Paused
            }
            Ok(ending) => ending,
        };
        if ending != Ending::Again {
            break;
        }
    }
    let mut status = match ending {
        Ending::Done => Status::Done,
        Ending::Paused => Status::Paused,
        Ending::Failed => Status::Failed,
        Ending::Again => {
            let message = "data written to the cache keeps disappearing: check the disk";
            sink(Event::Note { stage: None, message: message.to_owned() });
            Status::Failed
        }
    };
    if status == Status::Done && options.targets.is_empty() && cache.has_losses() {
        // Everything that this pipeline wants exists; other pipelines detect their losses on use.
        clear_losses(cache)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let stages = total.named(pipeline, wanted);
    let total_did_something = total.did_something();
    let outcome = total.outcome(seconds);
    // A complete run marks work that an earlier run left open as finished.
    let ends_another = || {
        Ok::<_, CacheError>(
            options.targets.is_empty() && history::is_unfinished(cache, &pipeline.name)?,
        )
    };
    if total_did_something || status != Status::Done || ends_another()? {
        let record = RunRecord {
            run: number,
            pipeline: pipeline.name.clone(),
            started: begun,
            seconds,
            status,
            stages,
            keys: std::mem::take(&mut total.keys),
            licenses: pipeline.stages.iter().flat_map(|s| s.licenses.clone()).collect(),
            pinned: false,
        };
        record_run(cache, &record)?;
        if let (Some(outcome), false) = (outcome, cache.is_read_only()) {
            outcome.keep(cache, number)?;
        }
    }
    end_run(cache, number)?;
    if let Err(error) = commit_rest(cache, held) {
        status = pause_for(error.into(), total, sink)?;
    }
    if total_did_something && !total.is_unable {
        tidy(cache)?;
    }
    if let Some(Err(error)) = allowance.as_mut().map(|allowance| allowance.end_run(cache)) {
        status = pause_for(error.into(), total, sink)?;
    }
    drop(pusher);
    if let Some(remote) = &engine.remote {
        // A training that was stopped has executed nothing, and has kept a checkpoint.
        if (total_did_something || status != Status::Done) && !total.is_unable {
            mirror::push_run(cache, remote, sink)?;
        }
        tell_notes(Some(remote), sink);
    }
    Ok(status)
}

/// Runs a few items of each stage, and a few steps of each training with known inputs, and returns
/// the measures. Outputs are in the memory of this handle of the cache: they are dropped with it,
/// since nothing commits them.
pub fn probe(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    options: &RunOptions,
    sink: Sink,
) -> Result<Vec<(StageId, Measure)>, EngineError> {
    let options = RunOptions { commit_every: Some(commit::NEVER), ..options.clone() };
    let wanted = pipeline.ids().collect();
    let (number, _claim) = next_run(cache)?;
    let pipeline = &trial::shortened(pipeline);
    let mut total = Total::new(pipeline);
    let held = &mut Vec::new();
    let (options, wanted, home) = (&options, &wanted, &mut None);
    let allowance = &mut None;
    let deep = false;
    let pusher = &mut None;
    let mut pass = Pass {
        engine,
        pipeline,
        cache,
        options,
        wanted,
        number,
        deep,
        held,
        allowance,
        home,
        pusher,
    };
    pass.run(&mut total, sink)?;
    Ok(total.probed)
}

struct Pass<'a> {
    engine: &'a Engine,
    pipeline: &'a Pipeline,
    cache: &'a Cache,
    options: &'a RunOptions,
    wanted: &'a BTreeSet<StageId>,
    number: u64,
    held: &'a mut Vec<Committer>,
    /// Set by the first pass with work.
    allowance: &'a mut Option<Allowance>,
    /// The place of the project when the work began.
    home: &'a mut Option<Home>,
    /// An object is known to be lost: check the objects of every record.
    deep: bool,
    /// Set by the first pass with work.
    pusher: &'a mut Option<Pusher>,
}

impl Pass<'_> {
    fn run(&mut self, total: &mut Total, sink: Sink) -> Result<Ending, EngineError> {
        self.require_home()?;
        let mut planner = Planner::new(self.engine, self.pipeline, self.cache)?;
        planner.is_run = self.options.probe.is_none();
        planner.deep |= self.deep;
        let stop = &self.options.stop;
        let plan = stop.while_reading(|| match &self.options.share {
            Some(share) => share::plan(&mut planner, share, &self.options.targets, sink),
            None => planner.plan(&self.options.targets, sink),
        })?;
        if is_settled(&plan, self.wanted) {
            return self.take_over(plan, planner, total, sink);
        }
        let is_whole = self.options.probe.is_none() && self.options.share.is_none();
        let is_first = total.expected.is_none() && is_whole;
        if is_first {
            total.expected = self.estimate(&plan, sink)?;
            away::require_remote(self.engine, self.pipeline, &plan)?;
        }
        begin_run(self.pipeline, self.cache, self.options, self.number)?;
        let allowance = match &mut *self.allowance {
            Some(allowance) => allowance,
            none => {
                let began = self.options.began.unwrap_or_else(Instant::now);
                let (run, until) = (self.number, self.options.deadline);
                none.insert(Allowance::begin(self.cache, self.pipeline, run, began, until)?)
            }
        };
        let home =
            &*self.home.get_or_insert_with(|| Home::of(self.cache.fs().as_ref(), self.pipeline));
        if self.options.probe.is_none() && self.pusher.is_none() {
            *self.pusher = Pusher::start(self.cache, self.engine.remote.as_ref());
        }
        let (messages, received) = unbounded();
        let shared = Shared {
            engine: Arc::new(self.engine.clone()),
            store: planner.store.clone(),
            messages: messages.clone(),
            stop: self.options.stop.clone(),
            gpu_stop: StopFlag::default(),
            scratch: Scratch::default(),
            spare: Spare::default(),
            kept: None,
        };
        let hands = Hands::new(shared).map_err(EngineError::Thread)?;
        if is_first && let Some(event) = allowance.event() {
            sink(event);
        }
        let (board, works) = Board::new(self.pipeline, self.wanted, plan);
        let mut schedule = Schedule {
            engine: self.engine,
            pipeline: self.pipeline,
            store: planner.store.clone(),
            home,
            planner,
            board,
            in_flight: HashMap::new(),
            followers: HashMap::new(),
            options: self.options,
            sink: &mut *sink,
            hands,
            meter: Meter::new(Machine::known(self.cache), self.cache.fs().is_direct()),
            messages: received,
            committer: Committer::new(messages, self.options.commit_every),
            run: self.number,
            allowance,
            watchdog: Watchdog::default(),
            halted: false,
            lost: false,
            unable: false,
            is_hopeless: false,
            next_ticket: 0,
            away: StopFlag::default(),
            crews: Vec::new(),
            claims_away: HashMap::new(),
            seconds_away: seconds_away(self.pipeline, total.expected.as_ref()),
            queue: Arc::default(),
        };
        let driven = schedule.drive(works);
        total.is_unable |= schedule.unable;
        let done = schedule.board.done();
        for id in &done {
            total.take_cost(self.pipeline.stage(*id), schedule.taken(*id));
        }
        let Schedule { hands, store, board, mut committer, meter, .. } = schedule;
        if driven.is_err() {
            // Their tasks are not waited for.
            hands.leave_workers();
        }
        hands.dismiss();
        // A running commit moves the files that exports are made from.
        committer.join();
        self.held.push(committer);
        total.add(&board.counts());
        let ending = driven?;
        if self.options.probe.is_some() {
            total.probed = meter.probed;
            return Ok(Ending::Paused);
        }
        total.take_keys(self.pipeline, board.runs());
        self.require_home()?;
        if ending != Ending::Again {
            let (known, exported) = (board.runs(), &mut total.exported);
            let failed = board.failed();
            let exported =
                export::export(&store, self.pipeline, known, &done, &failed, exported, sink)?;
            return Ok(self.with_exports(ending, exported));
        }
        Ok(ending)
    }

    /// Fails if the project has moved since the work began.
    fn require_home(&self) -> Result<(), EngineError> {
        match &*self.home {
            Some(home) => home.require(self.cache.fs().as_ref()),
            None => Ok(()),
        }
    }

    /// Reports the estimate of the run.
    fn estimate(&self, plan: &Plan, sink: Sink) -> Result<Option<Estimate>, EngineError> {
        let threads = self.engine.threads;
        let estimate = estimate_here(self.pipeline, plan, self.cache, threads)?;
        let (stages, seconds) = (estimate.stages.clone(), estimate.total.seconds);
        sink(Event::Estimated { stages, seconds });
        Ok(Some(estimate))
    }

    /// Without work: only counts and exports, and no thread.
    fn take_over(
        &mut self,
        plan: Plan,
        planner: Planner,
        total: &mut Total,
        sink: Sink,
    ) -> Result<Ending, EngineError> {
        let count = |plan: &crate::plan::StagePlan| StageCounts {
            executed: 0,
            reused: plan.reused,
            quarantined: plan.quarantined,
            seconds: 0.0,
        };
        let counts: Vec<StageCounts> = plan.stages.iter().map(count).collect();
        total.add(&counts);
        total.take_keys(self.pipeline, &plan.stages);
        let takes_part = |id: &StageId| plan.stage(*id).known.part == Part::In;
        let done: Vec<StageId> = self.wanted.iter().copied().filter(takes_part).collect();
        let hopeless = planner.hopeless(&plan.stages).map_err(|error| error.at(String::new()))?;
        let ending = match hopeless.map(trials::no_trial_left) {
            Some(event) => {
                sink(event);
                Ending::Failed
            }
            None => Ending::Done,
        };
        let store = planner.store.clone();
        let exported = export::export(
            &store,
            self.pipeline,
            &plan.stages,
            &done,
            &[],
            &mut total.exported,
            sink,
        )?;
        Ok(self.with_exports(ending, exported))
    }

    fn with_exports(&self, ending: Ending, exported: Exported) -> Ending {
        match exported {
            Exported { lost: true, .. } if !self.options.stop.is_requested() => Ending::Again,
            Exported { failed: false, lost: false } => ending,
            _ => Ending::Failed,
        }
    }
}

/// The expected time of an item of each stage on an executor.
fn seconds_away(pipeline: &Pipeline, expected: Option<&Estimate>) -> HashMap<StageId, f64> {
    let Some(expected) = expected else { return HashMap::new() };
    let away = expected.in_order(pipeline).filter(|(spec, _)| spec.policy.executor.is_some());
    let each = away.filter_map(|(spec, stage)| {
        let seconds = stage.seconds?.likely / stage.items.max(1) as f64;
        Some((spec.id, seconds))
    });
    each.collect()
}

/// Every wanted stage is unchanged since the last run, so there is no state to record either.
fn is_settled(plan: &Plan, wanted: &BTreeSet<StageId>) -> bool {
    wanted.iter().all(|id| plan.stages[id.0].unchanged)
}

/// Everything that this pipeline needs exists again.
fn clear_losses(cache: &Cache) -> Result<(), CacheError> {
    match cache.is_read_only() {
        true => Ok(()),
        false => cache.clear_losses(),
    }
}

/// The number of this run. It is claimed until the run ends, so that two runs at once have
/// different numbers.
fn next_run(cache: &Cache) -> Result<(u64, Option<Claim>), CacheError> {
    let latest = cache.get(RUN, &run_key(0))?;
    let first = latest.and_then(|bytes| decode::<u64>(&bytes)).unwrap_or(0) + 1;
    if cache.is_read_only() {
        return Ok((first, None));
    }
    let (mut number, mut others) = (first, 0);
    while others < RUNS_AT_ONCE {
        // A killed run has left its log, and usually its beginning in the ledger.
        if !history::is_taken(cache, number)? {
            match cache.claim_number(number)? {
                Some(claim) => return Ok((number, Some(claim))),
                None => others += 1,
            }
        }
        number += 1;
    }
    Ok((number, None))
}

/// Written with the first commit of the run.
fn begin_run(
    pipeline: &Pipeline,
    cache: &Cache,
    options: &RunOptions,
    run: u64,
) -> Result<(), CacheError> {
    if cache.is_read_only() || options.probe.is_some() {
        return Ok(());
    }
    let started = cache.fs().now() / 1_000_000_000;
    let record = BegunRecord { run, pipeline: pipeline.name.clone(), started };
    cache.record(BEGUN, &run_key(run), encode(&record))
}

/// A record of the end contains more than the record of the beginning.
fn end_run(cache: &Cache, run: u64) -> Result<(), CacheError> {
    match cache.is_read_only() || cache.get(BEGUN, &run_key(run))?.is_none() {
        true => Ok(()),
        false => cache.forget(BEGUN, &run_key(run)),
    }
}

/// Records the end of a run that cannot continue.
fn record_broken_off(
    pipeline: &Pipeline,
    cache: &Cache,
    run: u64,
    status: Status,
) -> Result<(), CacheError> {
    let begun = cache.get(BEGUN, &run_key(run))?;
    let Some(begun) = begun.and_then(|bytes| decode::<BegunRecord>(&bytes)) else { return Ok(()) };
    let seconds = (cache.fs().now() / 1_000_000_000 - begun.started).max(0) as f64;
    record_run(
        cache,
        &RunRecord {
            run,
            pipeline: begun.pipeline,
            started: begun.started,
            seconds,
            status,
            stages: BTreeMap::new(),
            keys: BTreeMap::new(),
            licenses: pipeline.stages.iter().flat_map(|stage| stage.licenses.clone()).collect(),
            pinned: false,
        },
    )?;
    end_run(cache, run)?;
    cache.commit().map(drop)
}

fn record_run(cache: &Cache, record: &RunRecord) -> Result<(), CacheError> {
    if cache.is_read_only() {
        return Ok(());
    }
    cache.record(RUN, &run_key(record.run), encode(record))?;
    let latest = cache.get(RUN, &run_key(0))?.and_then(|bytes| decode::<u64>(&bytes));
    let latest = latest.unwrap_or(0).max(record.run);
    cache.record(RUN, &run_key(0), encode(&latest))?;
    Ok(())
}

/// One commit for the last pass, the exports and the log of the run. Claims are released after it.
fn commit_rest(cache: &Cache, mut held: Vec<Committer>) -> Result<(), CacheError> {
    held.iter_mut().for_each(Committer::join);
    match cache.is_read_only() || cache.pending_bytes() == 0 {
        true => Ok(()),
        false => cache.commit().map(drop),
    }
}

/// Shrinks the index if that is worth it; a machine fault is no reason to fail.
fn tidy(cache: &Cache) -> Result<(), CacheError> {
    match cache.is_read_only() {
        true => Ok(()),
        false => match cache.tidy() {
            Err(error) if error.machine_fault().is_some() => Ok(()),
            other => other.map(drop),
        },
    }
}
