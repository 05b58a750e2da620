//! `xtts.init`: an XTTS model with random weights.

use stage_core::{Context, GatherInput, GatherOutput, Parameters, StageError};
use stage_families::artifact;
use stage_families::xtts::{fresh_config, kinds};

use super::fresh::{self, Init};
use crate::xtts::fresh::weights;

pub const STAGE: Init = Init { kind: &kinds::INIT, draw };

fn draw(
    parameters: &Parameters,
    _: &GatherInput,
    context: &mut dyn Context,
) -> Result<GatherOutput, StageError> {
    let (config, vocabulary) = fresh_config(parameters)?;
    let files =
        vec![(artifact::CONFIG, config.to_json()?), (artifact::VOCABULARY, vocabulary.to_json()?)];
    let tensors = weights(&config, parameters.integer("seed")? as u64)?;
    fresh::output((&kinds::INIT, artifact::XTTS), files, tensors, context)
}
