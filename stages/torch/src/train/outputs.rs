//! The common outputs of all trainings: the result, its log, and the kept states.

use std::collections::BTreeMap;

use stage_core::{Blob, Context, GatherOutput, NewValue, Parameters, PortOutput, StageError};
use stage_families::artifact::stored_tensors;

use super::run::TrainingResult;
use super::{kept, log};

const PRECISION: &str = "precision";

/// Values of an artifact by name.
pub type NamedValues = Vec<(String, NewValue)>;

/// The results of a training.
pub struct TrainingOutcome<'a> {
    /// The fields of the result without its trained tensors.
    pub port: &'a str,
    pub common: NamedValues,
    pub weights: &'a [(String, Blob)],
    pub trained: &'a TrainingResult,
    pub notes: Vec<(String, u64)>,
}

impl TrainingOutcome<'_> {
    pub fn output(
        self,
        how: &log::LogContext<'_>,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let TrainingOutcome { port, common, weights, trained, notes } = self;
        let with = |weights: &[(String, Blob)]| [common.clone(), stored_tensors(weights)].concat();
        let log = log::fields(trained, how, context)?;
        let output = GatherOutput::default()
            .with(port, PortOutput::Artifact(with(weights)))
            .with("log", PortOutput::Artifact(log))
            .with("checkpoints", PortOutput::Dataset(kept::items(trained, with)?));
        let settled = settled(how.parameters, trained);
        Ok(GatherOutput { notes, settled, ..output })
    }
}

/// The precision that `auto` selected; none if it changed on the way.
fn settled(parameters: &Parameters, trained: &TrainingResult) -> BTreeMap<String, String> {
    let is_auto = parameters.text(PRECISION).is_ok_and(|precision| precision == "auto");
    let name = trained.precision.name().to_owned();
    let is_whole = trained.switched.is_none();
    (is_auto && is_whole).then(|| (PRECISION.to_owned(), name)).into_iter().collect()
}
