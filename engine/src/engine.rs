//! The engine: the catalogue, the implementations and the settings. `entry` plans and runs with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use camino::Utf8PathBuf;
use stage_core::{Catalogue, Context, Job, Kind, ParameterValue, Role, Setup, Stage, StageError};

use crate::pipeline::{Pipeline, StageSpec};
use remote::Remote;

pub use crate::error::EngineError;
pub use crate::options::{Mode, RunOptions, Sink, StopFlag};

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
    /// Results are read from it on a miss, and written to it after a run.
    pub remote: Option<Arc<Remote>>,
}

/// The command that starts a worker.
#[derive(Clone, Debug, Default)]
pub struct WorkerCommand {
    /// `None`: there is no worker program, and stages that need one fail with this message.
    pub program: Option<Utf8PathBuf>,
    pub arguments: Vec<String>,
    /// The whole environment of the worker: it gets nothing of this process.
    pub environment: Vec<(String, String)>,
    /// A message about a missing requirement of the program: stages that need a worker fail with it.
    pub lacks: Option<String>,
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
        for file in files.filter(|parameter| parameter.is_of_files()) {
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
        stage_worker::shielded(|| stage.open(setup, context))
    }
}

fn no_secret(variable: &str) -> StageError {
    StageError::with_help(
        format!("the environment variable `{variable}` is not set"),
        "set it to the secret that the manifest refers to",
    )
}
