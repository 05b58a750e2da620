//! Adapters added to the weights of their base, one tensor in memory at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use stage_core::{Blob, Context, StageError};
use tch::Kind;

use crate::nn::lora::{Adaptable, AdaptableLayer};
use crate::stored;

pub struct MergedModel {
    pub tensors: Vec<(String, Blob)>,
    /// Modules that had an adapter.
    pub modules: usize,
}

/// The stored tensors with the changes of a model's adapters. Each is computed in f32 and rounded
/// once, to `kind` or to what it was kept in. The model's own weights may be shapes alone.
pub fn merged<'a>(
    base: impl Iterator<Item = (&'a str, &'a Arc<Blob>)>,
    model: &mut impl Adaptable,
    kind: Option<Kind>,
    context: &mut dyn Context,
) -> Result<MergedModel, StageError> {
    let _guard = tch::no_grad_guard();
    let layers = model.layers().into_iter();
    let mut layers: BTreeMap<String, AdaptableLayer> =
        layers.map(|(name, layer)| (format!("{name}.weight"), layer)).collect();
    let mut merged = MergedModel { tensors: Vec::new(), modules: 0 };
    for (name, blob) in base {
        let tensor = stored::recall(blob, context)?;
        let kind = kind.unwrap_or(tensor.kind());
        let changed = match layers.remove(name) {
            Some(mut layer) => layer.merged(&tensor, kind),
            None => None,
        };
        merged.modules += usize::from(changed.is_some());
        let changed = match changed {
            None if tensor.kind() == kind => None,
            None => Some(tensor.to_kind(kind)),
            changed => changed,
        };
        drop(tensor);
        let kept = match changed {
            None => blob.as_ref().clone(),
            Some(changed) => stored::keep(&changed, context)?,
        };
        merged.tensors.push((name.to_owned(), kept));
    }
    match layers.into_iter().find_map(|(name, mut layer)| layer.is_adapted().then_some(name)) {
        None => Ok(merged),
        Some(name) => Err(StageError::failed(format!("the base has no tensor `{name}`"))),
    }
}
