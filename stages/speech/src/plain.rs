//! The stages that are a description and a function that opens a job.

use std::sync::Arc;

use stage_core::{Context, Job, Kind, Setup, Stage, StageError};

type Open = fn(Setup, &mut dyn Context) -> Result<Job, StageError>;

struct Plain {
    kind: &'static Kind,
    open: Open,
}

impl Stage for Plain {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
        (self.open)(setup, context)
    }
}

pub(crate) fn stage(kind: &'static Kind, open: Open) -> Arc<dyn Stage> {
    Arc::new(Plain { kind, open })
}

/// A value that the manifest allows and this version does not know: the catalogue and the
/// implementation disagree.
pub(crate) fn unknown_choice(name: &str, value: &str) -> StageError {
    StageError::failed(format!("parameter `{name}` has the unknown value `{value}`"))
}

/// JSON is written with sorted keys and a line end, so that equal content is equal bytes.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>, StageError> {
    let failed =
        |error: serde_json::Error| StageError::failed(format!("cannot write JSON: {error}"));
    let mut json = serde_json::to_vec_pretty(value).map_err(failed)?;
    json.push(b'\n');
    Ok(json)
}

/// The kind of blobs that hold JSON.
pub(crate) const JSON: &str = "application/json";
