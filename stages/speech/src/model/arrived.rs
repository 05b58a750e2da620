//! The model on the port of an export.

use stage_core::{Fields, GatherInput, StageError};
use stage_families::artifact::FAMILY;
use stage_families::export::Exporter;
use stage_families::find;

/// The model, and the exporter of its family.
pub fn arrived(input: &GatherInput) -> Result<(&Fields, &'static dyn Exporter), StageError> {
    let model = input
        .artifact("model")
        .ok_or_else(|| StageError::failed("no model arrived on port `model`"))?;
    let family = model.text(FAMILY);
    if let Some(exporter) = family.and_then(find).and_then(|family| family.exporter()) {
        return Ok((model, exporter));
    }
    let why = match family {
        Some(other) => format!("it is `{other}`"),
        None => "its family is unknown".to_owned(),
    };
    Err(StageError::with_help(
        format!("the model on port `model` cannot be exported: {why}"),
        "read from a `model.import` stage, or from one that makes a model or adapters, such as \
         `fish.finetune` or `vits.finetune`",
    ))
}
