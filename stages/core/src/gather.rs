//! Work on whole data sets: the job, its inputs and its outputs.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::error::{Reject, StageError};
use crate::item::{Fields, Item};
use crate::output::{NewItem, NewValue};

/// Processes whole data sets.
pub trait GatherJob: Send {
    /// The sum over these items, for a job that adds items up. The engine passes sums that it
    /// remembers, so that a changed item costs a few items and not all: see [`GatherInput::sums`].
    /// The outcome must depend neither on the order of the items nor on how they are divided into
    /// sums. None for a job that needs the items themselves.
    fn sum(&self, _items: &[Item]) -> Option<Bytes> {
        None
    }

    /// Makes all outputs from all inputs. A training calls [`Context::may_begin_step`] before each
    /// step.
    ///
    /// # Errors
    ///
    /// Any [`StageError`]: the stage fails, and nothing downstream starts. Return
    /// [`StageError::Stopped`] soon after [`Context::stopping`] is true.
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError>;
}

/// The data of one reference of a port. The stage name is empty if the port does not read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PortInput {
    /// With all fields and sorted by id if the port reads everything; else with the fields that the
    /// port reads, and if it does not read the id, in an order independent of it and with empty
    /// ids.
    Dataset {
        /// The name of the upstream stage.
        stage: String,
        /// The items that were not quarantined.
        items: Vec<Item>,
        /// Items quarantined by the upstream stage, if the port reads them.
        rejects: Vec<(String, Reject)>,
    },
    /// An artifact, whole.
    Artifact {
        /// The name of the upstream stage.
        stage: String,
        /// Its fields; those with files have a blob.
        fields: Fields,
    },
    /// A data set as [`GatherJob::sum`] has added it up, in parts.
    Sums {
        /// The name of the upstream stage.
        stage: String,
        /// Sums over disjoint parts of the items, in any order.
        sums: Vec<Bytes>,
        /// Items quarantined by the upstream stage with their ids, if the port reads them.
        rejects: Vec<(String, Reject)>,
    },
}

/// The inputs of a gather, by port; several if the port accepts many.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatherInput {
    /// By the names of the kind's input ports. An optional port without a reference is missing.
    pub ports: BTreeMap<String, Vec<PortInput>>,
}

impl GatherInput {
    /// The items on a port that accepts one data set.
    ///
    /// # Errors
    ///
    /// [`StageError::Failed`] if the port has no reference, an artifact, or sums.
    pub fn items(&self, port: &str) -> Result<&[Item], StageError> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Dataset { items, .. }) => Ok(items),
            _ => Err(StageError::failed(format!("no data set arrived on port `{port}`"))),
        }
    }

    /// The sums on a port that takes one data set, for a job that adds items up.
    ///
    /// # Errors
    ///
    /// Those of [`GatherInput::items`].
    pub fn sums(&self, port: &str, job: &dyn GatherJob) -> Result<Vec<Bytes>, StageError> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Sums { sums, .. }) => Ok(sums.clone()),
            _ => Ok(job.sum(self.items(port)?).into_iter().collect()),
        }
    }

    /// The artifact on a port that accepts one, if there is any.
    pub fn artifact(&self, port: &str) -> Option<&Fields> {
        match self.ports.get(port).and_then(|inputs| inputs.first()) {
            Some(PortInput::Artifact { fields, .. }) => Some(fields),
            _ => None,
        }
    }
}

/// The data that a gather or training returns on an output port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PortOutput {
    /// The items of a data set, in any order.
    Dataset(Vec<NewItem>),
    /// The fields of an artifact, by name.
    Artifact(Vec<(String, NewValue)>),
}

/// The result of a gather or a training.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GatherOutput {
    /// By the names of the kind's output ports, each of which must be there.
    pub ports: BTreeMap<String, PortOutput>,
    /// Notes, such as `clips left out`, with their counts; shown in reports.
    pub notes: Vec<(String, u64)>,
    /// Content parameters that were left to the machine, with the selected values. The output is
    /// also recorded under the key with these values.
    pub settled: BTreeMap<String, String>,
    /// The reason why the stage fails all the same: its output is exported and can be listed, but it is no
    /// result, so nothing downstream starts, and the next run does the work again.
    pub failure: Option<StageError>,
}

impl GatherOutput {
    /// Adds what leaves on a port, or replaces it.
    pub fn with(mut self, port: &str, output: PortOutput) -> GatherOutput {
        self.ports.insert(port.to_owned(), output);
        self
    }
}
