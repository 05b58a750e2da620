//! One pass of a run: it plans, works until nothing more can be done, and exports.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::event::{Event, StageCounts};

use super::board::Board;
use super::commit::Committer;
use super::home::Home;
use super::losses;
use super::obstacles::Ending;
use super::records::Run;
use super::schedule::{Rest, Schedule};
use super::total::RunTotal;
use crate::allowance::Allowance;
use crate::engine::{EngineError, Mode, Sink};
use crate::estimate::{Estimate, estimate_here};
use crate::export::{self, ExportResult, Exporting};
use crate::mirror::Pusher;
use crate::pipeline::StageId;
use crate::plan::planner::Planner;
use crate::plan::{Plan, StagePlan};
use crate::run::jobs::remote_jobs::require_remote;
use crate::run::jobs::share;
use crate::store::Store;
use crate::sweep::halving::Part;

const NO_ITEMS: &str = "warning: the stage has no items; check its files and paths";

/// Shared by the passes of a run; the first pass with work sets the options.
#[derive(Default)]
pub struct RunState {
    /// The last commits of passes, and the claims that they release.
    pub held: Vec<Committer>,
    pub allowance: Option<Allowance>,
    /// The place of the project when the work began.
    pub home: Option<Home>,
    pub pusher: Option<Pusher>,
}

pub struct Pass<'a> {
    pub run: Run<'a>,
    pub kept: &'a mut RunState,
    /// An object is known to be lost: check the objects of every record.
    pub deep: bool,
}

impl<'a> Pass<'a> {
    pub fn run(&mut self, total: &mut RunTotal, sink: Sink) -> Result<Ending, EngineError> {
        self.require_home()?;
        let run = self.run;
        let (planner, plan) = self.plan(sink)?;
        let is_whole = matches!(run.options.mode, Mode::Run);
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
            require_remote(run.engine, run.pipeline, &plan)?;
        }
        run.record_beginning()?;
        let (ending, mut board, store) = self.work(plan, planner, is_first, total, sink)?;
        if run.is_probe() {
            return Ok(Ending::Paused);
        }
        total.take_keys(run.pipeline, board.runs());
        self.require_home()?;
        if ending == Ending::Again {
            return Ok(ending);
        }
        let (done, failed) = ([board.done(), board.judged()].concat(), board.failed());
        let exporting = Exporting {
            stages: &done,
            failed: &failed,
            overwrite: run.options.overwrite,
            named: export::MAX_NAMED_FILES,
        };
        let total = &mut total.exported;
        let exported = export::export(&store, run.pipeline, board.runs(), &exporting, total, sink)?;
        let failed = |id| board[id].failed_items.as_slice();
        let are_lost = is_whole
            && ending != Ending::Paused
            && losses::tell(run.pipeline, board.runs(), &done, failed, sink);
        let ending = if are_lost { Ending::Failed } else { ending };
        let ending = self.with_exports(ending, exported);
        if ending != Ending::Again {
            let is_open = |id: &StageId| !done.contains(id) && board[*id].known.part == Part::In;
            let unfinished: Vec<StageId> = run.wanted.iter().copied().filter(is_open).collect();
            export::tell_outdated(&store, run.pipeline, &unfinished, sink)?;
        }
        Ok(ending)
    }

    fn plan(&self, sink: Sink) -> Result<(Planner<'a>, Plan), EngineError> {
        let Run { engine, pipeline, cache, options, .. } = self.run;
        let mut planner = Planner::new(engine, pipeline, cache)?;
        planner.purpose = (&options.mode).into();
        planner.deep |= self.deep;
        let plan = options.stop.while_reading(|| match &options.mode {
            Mode::Shard(share) => share::plan(&mut planner, share, &options.targets, sink),
            Mode::Run | Mode::Probe { .. } => planner.plan(&options.targets, sink),
        })?;
        Ok((planner, plan))
    }

    /// Works off a plan until nothing more can be done.
    fn work(
        &mut self,
        plan: Plan,
        planner: Planner,
        is_first: bool,
        total: &mut RunTotal,
        sink: Sink,
    ) -> Result<(Ending, Board, Store), EngineError> {
        let run = self.run;
        let (home, allowance) = self.begin()?;
        if is_first && let Some(event) = allowance.event() {
            sink(event);
        }
        let begun = (home, allowance);
        let (mut schedule, works) = Schedule::new(run, begun, plan, planner, total, sink)?;
        let driven = schedule.drive(works);
        let Rest { board, store, committer } = schedule.end(driven.is_err(), total);
        self.kept.held.push(committer);
        Ok((driven?, board, store))
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
        if !options.mode.is_probe() && self.kept.pusher.is_none() {
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
        total: &mut RunTotal,
        sink: Sink,
    ) -> Result<Ending, EngineError> {
        let count = |plan: &StagePlan| StageCounts {
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
        let lost_sweep =
            planner.lost_sweep(&plan.stages).map_err(|error| error.at(String::new()))?;
        let ending = match lost_sweep.map(|lost_sweep| lost_sweep.event()) {
            Some(event) => {
                sink(event);
                Ending::Failed
            }
            None => Ending::Done,
        };
        let store = planner.store.clone();
        let exporting = Exporting {
            stages: &done,
            failed: &[],
            overwrite: self.run.options.overwrite,
            named: export::MAX_NAMED_FILES,
        };
        let (pipeline, total) = (self.run.pipeline, &mut total.exported);
        let exported = export::export(&store, pipeline, &plan.stages, &exporting, total, sink)?;
        let are_lost = matches!(self.run.options.mode, Mode::Run)
            && losses::tell(pipeline, &plan.stages, &done, |_| &[], sink);
        Ok(self.with_exports(if are_lost { Ending::Failed } else { ending }, exported))
    }

    fn with_exports(&self, ending: Ending, exported: ExportResult) -> Ending {
        match exported {
            ExportResult { lost: true, .. } if !self.run.options.stop.is_requested() => {
                Ending::Again
            }
            ExportResult { failed: false, lost: false, denied, .. } => match ending {
                Ending::Done if denied => Ending::Paused,
                ending => ending,
            },
            _ => Ending::Failed,
        }
    }
}

/// Every wanted stage is unchanged since the last run, so there is no state to record either.
fn is_settled(plan: &Plan, wanted: &BTreeSet<StageId>) -> bool {
    wanted.iter().all(|id| plan.stages[id.0].unchanged)
}
