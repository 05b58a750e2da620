//! Stages that consist of a description and a function that opens a job.

use std::sync::Arc;

use stage_core::{Context, Job, Kind, Setup, Stage, StageError};
pub(crate) use stage_formats::json::{JSON, to_json};

type Open = fn(Setup, &mut dyn Context) -> Result<Job, StageError>;

struct PlainStage {
    kind: &'static Kind,
    open: Open,
}

impl Stage for PlainStage {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        (self.open)(setup, context)
    }
}

pub(crate) fn stage(kind: &'static Kind, open: Open) -> Arc<dyn Stage> {
    Arc::new(PlainStage { kind, open })
}

/// A value that the manifest allows and this version does not support: the catalogue and the
/// implementation disagree.
pub(crate) fn unknown_choice(name: &str, value: &str) -> StageError {
    StageError::failed(format!("parameter `{name}` has the unknown value `{value}`"))
}
