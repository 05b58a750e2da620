//! The common parts of the stages that make a model without training. Random numbers come from a
//! seed.

use serde::Serialize;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, Parameters, PortOutput,
    Setup, Stage, StageError,
};
use stage_families::artifact::{self, CONFIG, CONFIG_KIND, TOKENIZER_KIND};
use tch::Tensor;

use crate::lineage::{self, ModelLineage};
use crate::stored;

/// Makes a model.
type MakeModel =
    fn(&Parameters, &GatherInput, &mut dyn Context) -> Result<GatherOutput, StageError>;

/// A stage that makes a model without training.
pub struct Init {
    pub kind: &'static Kind,
    pub draw: MakeModel,
}

impl Stage for Init {
    fn kind(&self) -> &'static Kind {
        self.kind
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(InitJob { parameters: setup.parameters, draw: self.draw })))
    }
}

struct InitJob {
    parameters: Parameters,
    draw: MakeModel,
}

impl GatherJob for InitJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        (self.draw)(&self.parameters, &input, context)
    }
}

/// A `config.json`.
pub fn config_file(config: &impl Serialize) -> Result<Vec<u8>, StageError> {
    serde_json::to_vec_pretty(config)
        .map_err(|error| StageError::failed(format!("the configuration: {error}")))
}

/// The output `model`, from a configuration, the files of a tokenizer by their names, and tensors.
pub fn output(
    (kind, family): (&Kind, &str),
    files: Vec<(&str, Vec<u8>)>,
    tensors: impl IntoIterator<Item = (String, Tensor)>,
    context: &mut dyn Context,
) -> Result<GatherOutput, StageError> {
    let lineage =
        ModelLineage { made_by: kind.name.to_owned(), random: true, ..ModelLineage::default() };
    let file = |(name, bytes): (&str, Vec<u8>)| {
        let kind = if name == CONFIG { CONFIG_KIND } else { TOKENIZER_KIND };
        (name.to_owned(), NewValue::bytes(kind, bytes))
    };
    let mut values: Vec<(String, NewValue)> = files.into_iter().map(file).collect();
    values.push((artifact::FAMILY.to_owned(), NewValue::Text(family.to_owned())));
    values.push((artifact::LINEAGE.to_owned(), NewValue::Text(lineage::to_text(&lineage))));
    for (name, tensor) in tensors {
        let kept = stored::keep(&tensor, context)?;
        values.push((artifact::tensor_field(&name), NewValue::blob(kept)));
    }
    Ok(GatherOutput::default().with("model", PortOutput::Artifact(values)))
}
