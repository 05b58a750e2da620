//! Models: import of published weight files as artifacts, and export.

mod arrived;
mod audition;
mod card;
mod export;
mod family;
mod graph;
mod import;

use std::sync::Arc;

use stage_core::{Parameters, Stage, StageError};
use stage_formats::Dtype;

use crate::plain::unknown_choice;
pub use family::{PublishedModel, published_model};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![import::stage(), export::stage(), audition::stage()]
}

/// The requested `dtype`; None keeps that of each tensor.
fn dtype(parameters: &Parameters) -> Result<Option<Dtype>, StageError> {
    let name = parameters.text("dtype")?;
    match Dtype::from_name(name) {
        None if name != "keep" => Err(unknown_choice("dtype", name)),
        dtype => Ok(dtype),
    }
}
