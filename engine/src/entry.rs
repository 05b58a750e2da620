//! The entry points: planning, running and probing with an engine.

use crate::event::Status;
use cache::{Cache, CacheError};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::options::{Mode, RunOptions, Sink};
use crate::pipeline::{Pipeline, StageId};
use crate::plan::Plan;
use crate::plan::planner::Planner;

impl Engine {
    /// Plans what would run and why. Reads sources, and executes nothing.
    pub fn plan(
        &self,
        pipeline: &Pipeline,
        cache: &Cache,
        targets: &[StageId],
        sink: Sink,
    ) -> Result<Plan, EngineError> {
        let plan = Planner::new(self, pipeline, cache)?.plan(targets, sink)?;
        if !cache.is_read_only() {
            match cache.commit() {
                // The next scan repeats these reads.
                Err(error) if error.machine_fault().is_some() => {}
                other => drop(other?),
            }
        }
        Ok(plan)
    }

    /// Executes until all targets are done or failed, or until a stop is requested. The last event
    /// is `Finished`.
    pub fn run(
        &self,
        pipeline: &Pipeline,
        cache: &Cache,
        options: &RunOptions,
        sink: Sink,
    ) -> Result<Status, EngineError> {
        crate::run::run(self, pipeline, cache, options, sink)
    }

    /// Runs a few items of stages that were never measured on this machine, and keeps only the
    /// measures. `open` opens the cache each time it is called.
    pub fn probe<E: From<EngineError> + From<CacheError>>(
        &self,
        pipeline: &Pipeline,
        items: u64,
        open: &dyn Fn() -> Result<Cache, E>,
        sink: Sink,
    ) -> Result<(), E> {
        let options = RunOptions { mode: Mode::Probe { items }, ..RunOptions::default() };
        // The outputs are dropped with this handle of the cache.
        let measured = crate::run::probe(self, pipeline, &open()?, &options, sink)?;
        let cache = open()?;
        for (id, measure) in &measured {
            crate::measure::add(&cache, pipeline.stage(*id), measure)?;
        }
        cache.commit()?;
        Ok(())
    }
}
