//! The engine: the catalogue, the implementations and the entry points of planning and running.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use cache::{Cache, CacheError};
use camino::Utf8PathBuf;
use stage_core::event::{Event, Status};
use stage_core::{
    Catalogue, Context, Job, Kind, Parameter, ParameterType, ParameterValue, Role, Setup, Stage,
    StageError,
};

use crate::pipeline::{Pipeline, StageId, StageSpec};
use crate::plan::{Plan, Planner};

/// The settings and stages of an engine, made once in `main`. Clones share the stages.
#[derive(Clone)]
pub struct Engine {
    pub catalogue: Catalogue,
    pub stages: Vec<Arc<dyn Stage>>,
    pub worker: WorkerCommand,
    /// Threads of the pool for stages in this process.
    pub threads: usize,
    /// Hash every source file, even if its stat is unchanged.
    pub verify: bool,
    /// The environment variables that programs named by the manifest get.
    pub environment: BTreeMap<String, String>,
    /// The value of an environment variable that a secret parameter names.
    pub secret: fn(&str) -> Option<String>,
}

/// The command that starts a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerCommand {
    /// `None`: there is no worker program, and stages that need one fail with this message.
    pub program: Option<Utf8PathBuf>,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

/// The options of a run.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Only these stages and their upstream stages; all if empty.
    pub targets: Vec<StageId>,
    /// Continue with stages that do not depend on a failed one.
    pub keep_going: bool,
    /// The interval at which finished work is made durable; half a second if `None`. With zero,
    /// work waits until it is durable.
    pub commit_every: Option<Duration>,
    /// The time at which the run will be asked to stop; trainings save before it.
    pub deadline: Option<Instant>,
    /// The start of the process, from which time is paid for; the start of the run if `None`.
    pub began: Option<Instant>,
    pub stop: StopFlag,
    /// Run this number of items of each stage that was never measured here, and keep only the
    /// measures.
    pub probe: Option<u64>,
}

/// Receives events on the thread that runs the schedule.
pub type Sink<'a> = &'a mut dyn FnMut(Event);

/// Asks a run to stop: once for a clean stop, twice for an immediate one. The time limit asks more
/// gently: batches of items may be finished.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<Stop>);

#[derive(Debug, Default)]
struct Stop {
    level: AtomicU8,
    /// The run is only reading, and has no work that must be waited for.
    is_reading: AtomicBool,
}

const AFTER_BATCH: u8 = 1;
const SOON: u8 = 2;
const NOW: u8 = 3;

impl StopFlag {
    pub fn request(&self) {
        let _ = self.0.level.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |level| {
            Some(if level < SOON { SOON } else { NOW })
        });
    }

    /// Starts nothing new, and lets batches finish.
    pub fn request_after_batch(&self) {
        self.0.level.fetch_max(AFTER_BATCH, Ordering::SeqCst);
    }

    pub fn is_requested(&self) -> bool {
        self.0.level.load(Ordering::SeqCst) >= AFTER_BATCH
    }

    /// A person is waiting for the stop.
    pub fn is_pressing(&self) -> bool {
        self.0.level.load(Ordering::SeqCst) >= SOON
    }

    pub fn is_urgent(&self) -> bool {
        self.0.level.load(Ordering::SeqCst) >= NOW
    }

    /// Marks work that only reads: the end of the run need not wait for it.
    pub fn while_reading<T>(&self, read: impl FnOnce() -> T) -> T {
        self.begin_reading();
        let result = read();
        self.0.is_reading.store(false, Ordering::SeqCst);
        result
    }

    pub fn begin_reading(&self) {
        self.0.is_reading.store(true, Ordering::SeqCst);
    }

    pub fn is_reading(&self) -> bool {
        self.0.is_reading.load(Ordering::SeqCst)
    }
}

/// An error that prevents planning or running as a whole. Errors of single stages are events.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(
        "`{path}` was removed or moved during the run: finished work is kept; run again at the new \
         place of the project"
    )]
    Moved { path: Utf8PathBuf },
    #[error("stage `{stage}`: {error}")]
    Stage { stage: String, error: StageError },
    #[error(
        "cannot start a thread: {0}; more processes or memory may be allowed (`ulimit -u`, \
         `ulimit -v`)"
    )]
    Thread(io::Error),
    #[error("{message}")]
    Internal { message: String },
}

impl EngineError {
    /// The machine fault, if it is the cause: running again continues from here.
    pub fn machine_fault(&self) -> Option<String> {
        match self {
            EngineError::Cache(error) => error.machine_fault().map(|_| error.whole()),
            EngineError::Stage { stage, error } if error.is_of_machine() => {
                Some(format!("stage `{stage}`: {error}"))
            }
            EngineError::Thread(_) => Some(self.to_string()),
            EngineError::Stage { .. }
            | EngineError::Moved { .. }
            | EngineError::Internal { .. } => None,
        }
    }
}

impl Engine {
    pub fn implementation(&self, kind: &str) -> Option<&Arc<dyn Stage>> {
        self.stages.iter().find(|stage| stage.kind().name == kind)
    }

    /// The setup of a stage, without its inputs.
    pub fn setup(&self, pipeline: &Pipeline, spec: &StageSpec) -> Result<Setup, StageError> {
        let mut setup = Setup {
            stage: spec.name.clone(),
            parameters: spec.parameters.clone(),
            timeout_seconds: spec.policy.timeout_seconds,
            environment: self.environment.clone(),
            base: pipeline.base.to_string(),
            ..Setup::default()
        };
        // The content of a file stands for its path, which is in no key.
        let files = spec.kind.parameters.iter();
        let is_file =
            |parameter: &&Parameter| matches!(parameter.parameter_type, ParameterType::File);
        for file in files.filter(is_file) {
            setup.parameters.0.insert(file.name.to_owned(), ParameterValue::Absent);
        }
        for parameter in spec.kind.parameters.iter().filter(|p| p.role == Role::Secret) {
            if let ParameterValue::Text(variable) = spec.parameters.get(parameter.name) {
                let value = (self.secret)(variable).ok_or_else(|| no_secret(variable))?;
                setup.secrets.insert(parameter.name.to_owned(), value);
            }
        }
        Ok(setup)
    }

    /// Opens a job in this process.
    pub fn open(
        &self,
        kind: &Kind,
        setup: Setup,
        context: &mut dyn Context,
    ) -> Result<Job, StageError> {
        let stage = self.implementation(kind.name).ok_or_else(|| {
            let message = format!("this program has no implementation of `{}`", kind.name);
            StageError::with_help(message, "use a program that was linked with that stage")
        })?;
        stage_core::worker::shielded(|| stage.open(setup, context))
    }

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
    /// measures. `open` opens the cache anew each time.
    pub fn probe<E: From<EngineError> + From<CacheError>>(
        &self,
        pipeline: &Pipeline,
        items: u64,
        open: &dyn Fn() -> Result<Cache, E>,
        sink: Sink,
    ) -> Result<(), E> {
        let options = RunOptions { probe: Some(items), ..RunOptions::default() };
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

fn no_secret(variable: &str) -> StageError {
    StageError::with_help(
        format!("the environment variable `{variable}` is not set"),
        "set it to the secret that the manifest refers to",
    )
}
