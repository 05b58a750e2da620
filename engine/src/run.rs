//! Runs a plan: passes of planning and working until nothing is left to do.

pub(crate) mod arrived;
mod board;
mod budget;
mod candidates;
mod checks;
mod commit;
mod context;
mod cost;
mod export_paths;
mod gather;
mod home;
mod items;
pub(crate) mod jobs;
mod losses;
pub(crate) mod message;
mod meter;
mod obstacles;
mod pass;
mod pool;
mod precedence;
mod records;
pub mod replay;
mod reservations;
mod schedule;
mod scratch;
mod shared;
mod stage_state;
mod tasks;
mod threads;
mod total;
pub mod training;
mod trial;
mod workers;

use std::collections::BTreeSet;
use std::time::Instant;

use crate::event::{Event, Status};
use cache::{Cache, CacheError};

use crate::engine::{Engine, EngineError, RunOptions, Sink};
use crate::history;
use crate::machine;
use crate::measure::Measure;
use crate::mirror::{self, tell_notes};
use crate::pipeline::{Pipeline, StageId};
use crate::plan::planner::look_through;
use crate::record::RunRecord;

pub use items::before::text_stages;
pub use jobs::remote_jobs::require_remote;
pub use workers::stage_worker;

use commit::Committer;
use obstacles::Ending;
use pass::{Pass, RunState};
use records::{Run, next_run};
use total::RunTotal;

/// The number of times that a run is planned again because something turned out to be lost.
const PASSES: usize = 16;
/// The number of losses that are handled one by one; after that the whole cache is verified.
const PATIENCE: usize = 2;

pub fn run(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    options: &RunOptions,
    sink: Sink,
) -> Result<Status, EngineError> {
    let started = Instant::now();
    let mut total = RunTotal::new(pipeline);
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
fn pause_for(error: EngineError, total: &mut RunTotal, sink: Sink) -> Result<Status, EngineError> {
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
    total: &mut RunTotal,
    sink: Sink,
) -> Result<Status, EngineError> {
    let (number, _claim) = next_run(cache)?;
    let run = Run { engine, pipeline, cache, options, wanted, number };
    let ended = run.run(total, sink);
    if let Err(error) = &ended {
        let status = if error.machine_fault().is_some() { Status::Paused } else { Status::Failed };
        // The error itself explains why it cannot be recorded.
        let _ = run.record_broken_off(status);
    }
    ended
}

impl Run<'_> {
    fn run(&self, total: &mut RunTotal, sink: Sink) -> Result<Status, EngineError> {
        let (pipeline, cache) = (self.pipeline, self.cache);
        let started = Instant::now();
        let begun = cache.fs().now() / 1_000_000_000;
        let names = self.wanted.iter().map(|id| pipeline.stage(*id).name.clone()).collect();
        sink(Event::Started {
            run: self.number,
            pipeline: pipeline.name.clone(),
            stages: names,
            time: Some(begun),
            process: Some(std::process::id()),
            machine: machine::host(),
        });
        let mut kept = RunState::default();
        let mut status = status(self.passes(&mut kept, total, sink)?, sink);
        if status == Status::Done && self.options.targets.is_empty() && cache.has_losses() {
            // Everything that this pipeline wants exists; other pipelines detect their losses on use.
            clear_losses(cache)?;
        }
        let has_done_something = total.did_something();
        self.record((begun, started.elapsed().as_secs_f64()), status, total)?;
        self.forget_beginning()?;
        if let Err(error) = commit_rest(cache, kept.held) {
            status = pause_for(error.into(), total, sink)?;
        }
        if has_done_something && !total.is_unable {
            tidy(cache)?;
        }
        let allowance = kept.allowance.as_mut();
        if let Some(Err(error)) = allowance.map(|allowance| allowance.end_run(cache)) {
            status = pause_for(error.into(), total, sink)?;
        }
        drop(kept.pusher);
        if let Some(remote) = &self.engine.remote {
            // A training that was stopped has executed nothing, and has kept a checkpoint.
            if (has_done_something || status != Status::Done) && !total.is_unable {
                mirror::push_run(cache, remote, sink)?;
            }
            tell_notes(Some(remote), sink);
        }
        if !cache.is_read_only() {
            // Losing the indices costs only time.
            let _ = cache.sync();
        }
        Ok(status)
    }

    /// Plans and works until nothing is left to do, or nothing more can be done.
    fn passes(
        &self,
        kept: &mut RunState,
        total: &mut RunTotal,
        sink: Sink,
    ) -> Result<Ending, EngineError> {
        let (cache, stop) = (self.cache, &self.options.stop);
        for at in 0..PASSES {
            if at == PATIENCE {
                stop.while_reading(|| look_through(cache, sink))?;
            }
            let ended = Pass { run: *self, kept, deep: at > 0 }.run(total, sink);
            let ended = ended.and_then(|ending| {
                // The next pass may work on the same items: their claims are released first.
                if ending == Ending::Again {
                    commit_rest(cache, std::mem::take(&mut kept.held))?;
                }
                Ok(ending)
            });
            match ended {
                Ok(Ending::Again) => {}
                Ok(ending) => return Ok(ending),
                Err(moved @ EngineError::Moved { .. }) => {
                    commit_rest(cache, std::mem::take(&mut kept.held))?;
                    return Err(moved);
                }
                Err(error) => {
                    pause_for(error, total, sink)?;
                    return Ok(Ending::Paused);
                }
            }
        }
        Ok(Ending::Again)
    }

    /// Records the run, unless it has done nothing.
    fn record(
        &self,
        (started, seconds): (i64, f64),
        status: Status,
        total: &mut RunTotal,
    ) -> Result<(), CacheError> {
        let (pipeline, cache) = (self.pipeline, self.cache);
        // A complete run marks work that an earlier run left open as finished.
        let ends_another = || match self.options.targets.as_slice() {
            [] => history::is_unfinished(cache, &pipeline.name),
            _ => Ok(false),
        };
        if !total.did_something() && status == Status::Done && !ends_another()? {
            return Ok(());
        }
        let record = RunRecord {
            run: self.number,
            pipeline: pipeline.name.clone(),
            started,
            seconds,
            status,
            stages: total.named(pipeline, self.wanted),
            keys: std::mem::take(&mut total.keys),
            licenses: self.licenses(),
            pinned: false,
        };
        self.record_end(&record)?;
        match total.outcome(seconds) {
            Some(outcome) if !cache.is_read_only() => outcome.keep(cache, self.number),
            _ => Ok(()),
        }
    }
}

/// The status of a run that ends so.
fn status(ending: Ending, sink: Sink) -> Status {
    match ending {
        Ending::Done => Status::Done,
        Ending::Paused => Status::Paused,
        Ending::Failed => Status::Failed,
        Ending::Again => {
            let message = "data written to the cache keeps disappearing: check the disk";
            sink(Event::Note { stage: None, message: message.to_owned() });
            Status::Failed
        }
    }
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
    let options = &RunOptions { commit_every: Some(commit::NEVER), ..options.clone() };
    let wanted = &pipeline.ids().collect();
    let (number, _claim) = next_run(cache)?;
    let pipeline = &trial::shortened(pipeline);
    let mut total = RunTotal::new(pipeline);
    let run = Run { engine, pipeline, cache, options, wanted, number };
    Pass { run, kept: &mut RunState::default(), deep: false }.run(&mut total, sink)?;
    Ok(total.probed)
}

/// Everything that this pipeline needs exists again.
fn clear_losses(cache: &Cache) -> Result<(), CacheError> {
    if cache.is_read_only() { Ok(()) } else { cache.clear_losses() }
}

/// One commit for the last pass, the exports and the log of the run. Claims are released after it.
fn commit_rest(cache: &Cache, mut held: Vec<Committer>) -> Result<(), CacheError> {
    held.iter_mut().for_each(Committer::join);
    if cache.is_read_only() || cache.pending_bytes() == 0 {
        Ok(())
    } else {
        cache.commit().map(drop)
    }
}

/// Shrinks the index if that is worth it; a machine fault is no reason to fail.
fn tidy(cache: &Cache) -> Result<(), CacheError> {
    if cache.is_read_only() {
        Ok(())
    } else {
        match cache.tidy() {
            Err(error) if error.machine_fault().is_some() => Ok(()),
            other => other.map(drop),
        }
    }
}
