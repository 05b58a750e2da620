//! Errors of plans and runs.

use std::io;

use cache::CacheError;
use camino::Utf8PathBuf;
use stage_core::StageError;

use crate::store::ReadError;
use remote::RemoteError;

/// An error that prevents planning or running as a whole. Errors of single stages are events.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(
        "`{path}` was removed or moved during the run: finished work is kept; run again from the \
         new location of the project"
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
    /// The manifest or the machine lacks something that the run needs.
    #[error("{message}")]
    Unready { message: String, help: String },
    #[error(transparent)]
    Remote(RemoteError),
}

impl From<RemoteError> for EngineError {
    fn from(trouble: RemoteError) -> EngineError {
        match trouble {
            RemoteError::Cache(error) => EngineError::Cache(error),
            trouble => EngineError::Remote(trouble),
        }
    }
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
            EngineError::Remote(trouble) => trouble.machine_fault(),
            EngineError::Stage { .. }
            | EngineError::Unready { .. }
            | EngineError::Moved { .. }
            | EngineError::Internal { .. } => None,
        }
    }
}

/// An error that prevents a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Stage(#[from] StageError),
}

impl PlanError {
    pub fn at(self, stage: String) -> EngineError {
        match self {
            PlanError::Cache(error) => EngineError::Cache(error),
            PlanError::Stage(error) => EngineError::Stage { stage, error },
            PlanError::Read(error) => EngineError::Stage { stage, error: error.into() },
        }
    }
}

impl From<PlanError> for StageError {
    fn from(error: PlanError) -> StageError {
        match error {
            PlanError::Cache(error) => StageError::of_cache("", &error),
            PlanError::Read(error) => error.into(),
            PlanError::Stage(error) => error,
        }
    }
}
