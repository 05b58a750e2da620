//! Records intermediate tensors of the model, for comparison with a reference.

use std::collections::BTreeMap;

use tch::Tensor;

/// Tensors by name and index.
pub type TracedTensors = BTreeMap<String, Tensor>;

/// Keeps recorded tensors; the default records nothing.
#[derive(Debug, Default)]
pub struct Trace(Option<TracedTensors>);

impl Trace {
    pub fn keeping() -> Trace {
        Trace(Some(TracedTensors::new()))
    }

    pub fn kept(self) -> TracedTensors {
        self.0.unwrap_or_default()
    }

    /// Keeps a copy, since the tensor may be overwritten later.
    pub fn see(&mut self, place: &str, number: usize, tensor: &Tensor) {
        if let Some(kept) = &mut self.0 {
            kept.insert(format!("{place}.{number}"), tensor.copy());
        }
    }
}
