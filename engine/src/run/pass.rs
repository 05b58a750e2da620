//! One pass of a run: it plans, works until nothing more can be done, and exports.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use cache::Cache;
use crossbeam_channel::{Sender, unbounded};
use stage_core::event::{Event, StageCounts};

use super::board::Board;
use super::commit::Committer;
use super::hands::Hands;
use super::home::Home;
use super::message::Message;
use super::meter::Meter;
use super::precedence::Precedence;
use super::records::begin_run;
use super::schedule::{Ending, Schedule};
use super::scratch::Scratch;
use super::shared::Shared;
use super::total::Total;
use super::watchdog::Watchdog;
use super::worker::Spare;
use super::{away, share, trials};
use crate::allowance::Allowance;
use crate::engine::{Engine, EngineError, RunOptions, Sink, StopFlag};
use crate::estimate::{Estimate, estimate_here};
use crate::export::{self, Exported, Exporting};
use crate::machine::Machine;
use crate::mirror::Pusher;
use crate::pipeline::{ITEMS, Pipeline, Reference, StageId};
use crate::plan::planner::Planner;
use crate::plan::{Plan, Work};
use crate::store::Store;
use crate::sweep::halving::Part;

const NO_ITEMS: &str = "warning: the stage has no items; check its files and paths";

/// A run with its number.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub engine: &'a Engine,
    pub pipeline: &'a Pipeline,
    pub cache: &'a Cache,
    pub options: &'a RunOptions,
    pub wanted: &'a BTreeSet<StageId>,
    pub number: u64,
}

/// Shared by the passes of a run; the first pass with work sets the options.
#[derive(Default)]
pub struct Kept {
    /// The last commits of passes, and the claims that they release.
    pub held: Vec<Committer>,
    pub allowance: Option<Allowance>,
    /// The place of the project when the work began.
    pub home: Option<Home>,
    pub pusher: Option<Pusher>,
}

pub struct Pass<'a> {
    pub run: Run<'a>,
    pub kept: &'a mut Kept,
    /// An object is known to be lost: check the objects of every record.
    pub deep: bool,
}

/// The end of the work of a pass.
struct Worked {
    ending: Ending,
    board: Board,
    store: Store,
}

impl<'a> Pass<'a> {
    pub fn run(&mut self, total: &mut Total, sink: Sink) -> Result<Ending, EngineError> {
        self.require_home()?;
        let run = self.run;
        let (planner, plan) = self.plan(sink)?;
        let is_whole = run.options.probe.is_none() && run.options.share.is_none();
        if is_whole && !self.deep {
            for spec in plan.empty_sources(run.pipeline) {
                sink(Event::Note { stage: Some(spec.name.clone()), message: NO_ITEMS.to_owned() });
            }
        }
        if is_settled(&plan, run.wanted) {
            return self.take_over(plan, planner, total, sink);
        }
        let is_first = total.expected.is_none() && is_whole;
        if is_first {
            total.expected = self.estimate(&plan, sink)?;
            away::require_remote(run.engine, run.pipeline, &plan)?;
        }
        begin_run(run.pipeline, run.cache, run.options, run.number)?;
        let Worked { ending, mut board, store } =
            self.work(plan, planner, is_first, total, sink)?;
        if run.options.probe.is_some() {
            return Ok(Ending::Paused);
        }
        total.take_keys(run.pipeline, board.runs());
        self.require_home()?;
        if ending == Ending::Again {
            return Ok(ending);
        }
        let (done, failed) = ([board.done(), board.judged()].concat(), board.failed());
        let exporting =
            Exporting { stages: &done, failed: &failed, overwrite: run.options.overwrite };
        let total = &mut total.exported;
        let exported = export::export(&store, run.pipeline, board.runs(), &exporting, total, sink)?;
        Ok(self.with_exports(ending, exported))
    }

    fn plan(&self, sink: Sink) -> Result<(Planner<'a>, Plan), EngineError> {
        let Run { engine, pipeline, cache, options, .. } = self.run;
        let mut planner = Planner::new(engine, pipeline, cache)?;
        planner.is_run = options.probe.is_none();
        planner.deep |= self.deep;
        let plan = options.stop.while_reading(|| match &options.share {
            Some(share) => share::plan(&mut planner, share, &options.targets, sink),
            None => planner.plan(&options.targets, sink),
        })?;
        Ok((planner, plan))
    }

    /// Works off a plan until nothing more can be done.
    fn work(
        &mut self,
        plan: Plan,
        planner: Planner,
        is_first: bool,
        total: &mut Total,
        sink: Sink,
    ) -> Result<Worked, EngineError> {
        let expected = total.expected.as_ref();
        let (mut schedule, works) = self.schedule(plan, planner, is_first, expected, sink)?;
        let driven = schedule.drive(works);
        total.is_unable |= schedule.unable;
        for id in schedule.board.done() {
            total.take_cost(schedule.pipeline.stage(id), schedule.taken(id));
        }
        let Schedule { hands, store, board, mut committer, meter, claims_away, .. } = schedule;
        if driven.is_err() {
            // Their tasks are not waited for.
            hands.leave_workers();
        }
        hands.dismiss();
        // A running commit moves the files that exports are made from.
        committer.join();
        committer.hold(claims_away.into_values());
        self.kept.held.push(committer);
        total.add(&board.counts());
        let ending = driven?;
        if self.run.options.probe.is_some() {
            total.probed = meter.probed;
        }
        Ok(Worked { ending, board, store })
    }

    /// A schedule that has handed nothing out yet, and the work.
    fn schedule<'s>(
        &'s mut self,
        plan: Plan,
        planner: Planner<'s>,
        is_first: bool,
        expected: Option<&Estimate>,
        sink: Sink<'s>,
    ) -> Result<(Schedule<'s>, Vec<(StageId, Work)>), EngineError> {
        let Run { engine, pipeline, cache, options, wanted, number } = self.run;
        let (messages, received) = unbounded();
        let (home, allowance) = self.begin()?;
        let hands = hands(engine, options, &planner, &messages)?;
        if is_first && let Some(event) = allowance.event() {
            sink(event);
        }
        let precedence = Precedence::of(pipeline, |id| plan.stage(id).work.is_open());
        let (board, works) = Board::new(pipeline, wanted, plan);
        let schedule = Schedule {
            engine,
            pipeline,
            store: planner.store.clone(),
            home,
            planner,
            board,
            precedence,
            takers: takers(pipeline),
            in_flight: HashMap::new(),
            followers: HashMap::new(),
            options,
            sink,
            hands,
            meter: Meter::new(Machine::known(cache), cache.fs().is_direct()),
            messages: received,
            committer: Committer::new(messages, options.commit_every),
            run: number,
            others: None,
            allowance,
            watchdog: Watchdog::default(),
            halted: false,
            lost: false,
            unable: false,
            is_hopeless: false,
            next_ticket: 0,
            away: StopFlag::default(),
            batch_threads: HashMap::new(),
            claims_away: HashMap::new(),
            seconds_away: seconds_away(pipeline, expected),
            queue: Arc::default(),
        };
        Ok((schedule, works))
    }

    /// The home and the allowance of the run, which begin with its work, as does the pusher.
    fn begin(&mut self) -> Result<(&Home, &mut Allowance), EngineError> {
        let Run { engine, pipeline, cache, options, number, .. } = self.run;
        let allowance = match &mut self.kept.allowance {
            Some(allowance) => allowance,
            none => {
                let began = options.began.unwrap_or_else(Instant::now);
                let until = options.deadline;
                none.insert(Allowance::begin(cache, pipeline, number, began, until)?)
            }
        };
        let home = &*self.kept.home.get_or_insert_with(|| Home::of(cache.fs().as_ref(), pipeline));
        if options.probe.is_none() && self.kept.pusher.is_none() {
            self.kept.pusher = Pusher::start(cache, engine.remote.as_ref());
        }
        Ok((home, allowance))
    }

    /// Fails if the project has moved since the work began.
    fn require_home(&self) -> Result<(), EngineError> {
        match &self.kept.home {
            Some(home) => home.require(self.run.cache.fs().as_ref()),
            None => Ok(()),
        }
    }

    /// Reports the estimate of the run.
    fn estimate(&self, plan: &Plan, sink: Sink) -> Result<Option<Estimate>, EngineError> {
        let threads = self.run.engine.threads;
        let estimate = estimate_here(self.run.pipeline, plan, self.run.cache, threads)?;
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
        total.take_keys(self.run.pipeline, &plan.stages);
        let takes_part = |id: &StageId| plan.stage(*id).known.part == Part::In;
        let done: Vec<StageId> = self.run.wanted.iter().copied().filter(takes_part).collect();
        let hopeless = planner.hopeless(&plan.stages).map_err(|error| error.at(String::new()))?;
        let ending = match hopeless.map(trials::no_trial_left) {
            Some(event) => {
                sink(event);
                Ending::Failed
            }
            None => Ending::Done,
        };
        let store = planner.store.clone();
        let exporting =
            Exporting { stages: &done, failed: &[], overwrite: self.run.options.overwrite };
        let (pipeline, total) = (self.run.pipeline, &mut total.exported);
        let exported = export::export(&store, pipeline, &plan.stages, &exporting, total, sink)?;
        Ok(self.with_exports(ending, exported))
    }

    fn with_exports(&self, ending: Ending, exported: Exported) -> Ending {
        match exported {
            Exported { lost: true, .. } if !self.run.options.stop.is_requested() => Ending::Again,
            Exported { failed: false, lost: false, .. } => ending,
            _ => Ending::Failed,
        }
    }
}

/// The executors of this machine.
fn hands(
    engine: &Engine,
    options: &RunOptions,
    planner: &Planner,
    messages: &Sender<Message>,
) -> Result<Hands, EngineError> {
    let shared = Shared {
        engine: Arc::new(engine.clone()),
        store: planner.store.clone(),
        messages: messages.clone(),
        stop: options.stop.clone(),
        gpu_stop: StopFlag::default(),
        scratch: Scratch::default(),
        spare: Spare::default(),
        kept: None,
    };
    Hands::new(shared).map_err(EngineError::Thread)
}

/// By the position of a stage: the stages that take their items from it.
fn takers(pipeline: &Pipeline) -> Vec<Vec<StageId>> {
    let mut takers = vec![Vec::new(); pipeline.stages.len()];
    for spec in &pipeline.stages {
        let references = spec.inputs.get(ITEMS).into_iter().flat_map(|input| &input.references);
        for reference in references {
            if let Reference::Stage { stage, .. } = reference
                && takers[stage.0].last() != Some(&spec.id)
            {
                takers[stage.0].push(spec.id);
            }
        }
    }
    takers
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
