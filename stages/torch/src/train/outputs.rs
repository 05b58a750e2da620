//! The common outputs of all trainings: the result, its log, and the kept states.

use stage_core::{Blob, Context, GatherOutput, NewValue, PortOutput, StageError};
use stage_families::artifact::stored_tensors;

use super::run::Trained;
use super::{kept, log};

/// The results of a training.
pub struct Outcome<'a> {
    /// The fields of the result without its trained tensors.
    pub port: &'a str,
    pub common: Vec<(String, NewValue)>,
    pub weights: &'a [(String, Blob)],
    pub trained: &'a Trained<Blob>,
    pub notes: Vec<(String, u64)>,
}

impl Outcome<'_> {
    pub fn output(
        self,
        how: &log::LogContext<'_>,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let Outcome { port, common, weights, trained, notes } = self;
        let with = |weights: &[(String, Blob)]| [common.clone(), stored_tensors(weights)].concat();
        let log = log::fields(trained, how, context)?;
        let output = GatherOutput::default()
            .with(port, PortOutput::Artifact(with(weights)))
            .with("log", PortOutput::Artifact(log))
            .with("checkpoints", PortOutput::Dataset(kept::items(trained, with)?));
        Ok(GatherOutput { notes, ..output })
    }
}
