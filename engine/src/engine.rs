//! The engine: the catalogue, the implementations and the entry points of planning and running.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use cache::{Cache, CacheError};
use camino::Utf8PathBuf;
use stage_core::event::{Event, Status};
use stage_core::{Catalogue, Stage, StageError};

use crate::pipeline::{Pipeline, StageId};
use crate::plan::{Plan, Planner};

/// What the engine works with; made once in `main`.
pub struct Engine {
    pub catalogue: Catalogue,
    pub stages: Vec<Arc<dyn Stage>>,
    pub worker: WorkerCommand,
    /// Threads of the pool for stages in this process.
    pub threads: usize,
}

/// How a worker is started.
#[derive(Clone, Debug, Default)]
pub struct WorkerCommand {
    /// `None`: there is no worker program, and stages that need one fail with that message.
    pub program: Option<Utf8PathBuf>,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

/// What a run needs beside the plan.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Only these and what they need; all when empty.
    pub targets: Vec<StageId>,
    /// Go on with what does not depend on a failed stage.
    pub keep_going: bool,
    pub stop: StopFlag,
}

/// Receives events on the thread that runs the schedule.
pub type Sink<'a> = &'a mut dyn FnMut(Event);

/// Asks a run to stop: once for a clean stop, twice for an immediate one.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicU8>);

impl StopFlag {
    pub fn request(&self) {
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |level| {
            Some(level.saturating_add(1))
        });
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    pub fn is_urgent(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }
}

/// Why planning or running could not go on at all. What happens to a stage is an event.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("stage `{stage}`: {error}")]
    Stage { stage: String, error: StageError },
    #[error("{message}")]
    Internal { message: String },
}

impl Engine {
    pub fn implementation(&self, kind: &str) -> Option<&Arc<dyn Stage>> {
        self.stages.iter().find(|stage| stage.kind().name == kind)
    }

    /// What would happen and why. Reads sources, executes nothing.
    pub fn plan(
        &self,
        pipeline: &Pipeline,
        cache: &Cache,
        targets: &[StageId],
        sink: Sink,
    ) -> Result<Plan, EngineError> {
        Planner::new(self, pipeline, cache).plan(targets, sink)
    }

    /// Executes until everything wanted is done, failed, or a stop is asked for. The last event
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
}
