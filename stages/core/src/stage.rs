//! The stage trait: a description, and a way to open a job. The jobs on items.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::device::DeviceId;
use crate::error::{Reject, StageError};
use crate::gather::GatherJob;
use crate::item::{Blob, Fields, Item};
use crate::kind::Kind;
use crate::output::Output;
use crate::parameter::Parameters;
use crate::source::SourceJob;

/// A stage kind with its implementation.
pub trait Stage: Send + Sync {
    /// The description of the stage. It must be the same in every call, and is read without opening
    /// the stage.
    fn kind(&self) -> &'static Kind;

    /// Prepares for work: makes the checks that need the implementation, and loads models.
    ///
    /// # Errors
    ///
    /// Any [`StageError`]; the stage fails with it before it gets any item.
    fn open(&self, setup: Setup, context: &mut dyn Context) -> Result<Job, StageError>;
}

/// The setup of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Setup {
    /// The name of the stage in the manifest, for messages.
    pub stage: String,
    /// The values of all parameters. File parameters are absent here: [`Setup::files`] has their
    /// content.
    pub parameters: Parameters,
    /// The artifacts on the input ports of item stages, by port; several if the port accepts many.
    pub artifacts: BTreeMap<String, Vec<Fields>>,
    /// The content of `File` parameters, by parameter.
    pub files: BTreeMap<String, Blob>,
    /// The secrets, by parameter. Never stored, never printed.
    pub secrets: BTreeMap<String, String>,
    /// The device of the worker; the processor for stages in the engine's process.
    pub device: DeviceId,
    /// The time limit of one item, or of a gather.
    pub timeout_seconds: Option<f64>,
    /// The environment of programs that the manifest names: the paths of programs and the user's
    /// packages. Workers start no such programs.
    #[serde(skip)]
    pub environment: BTreeMap<String, String>,
    /// The folder of the manifest, for programs with relative paths.
    pub base: String,
}

/// The three types of work.
pub enum Job {
    /// For a kind with [`Work::Source`](crate::Work::Source).
    Source(Box<dyn SourceJob>),
    /// For a kind with [`Work::Item`](crate::Work::Item).
    Item(Box<dyn ItemJob>),
    /// For a kind with [`Work::Gather`](crate::Work::Gather) or
    /// [`Work::Train`](crate::Work::Train).
    Gather(Box<dyn GatherJob>),
}

/// Processes items; shared by the threads of a pool.
pub trait ItemJob: Send + Sync {
    /// One result per item, in order. An error concerns the whole batch.
    ///
    /// # Errors
    ///
    /// Any [`StageError`] concerns all items: none of them gets a result. A result of another
    /// length than `items` is an error too.
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError>;
}

/// Processes items one by one.
pub trait EachItem: Send + Sync {
    /// An output, or the reason to quarantine this item. It depends on the item, the parameters and
    /// the artifacts only.
    ///
    /// # Errors
    ///
    /// The outer error concerns the stage or the whole batch, such as a lost model or a full disk.
    /// It is never recorded. The inner one is the verdict on this item; it is recorded, and the
    /// item is not tried again until its content or the stage changes.
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError>;
}

impl<J: EachItem> ItemJob for J {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        items.iter().map(|item| self.one(item, context)).collect()
    }
}
