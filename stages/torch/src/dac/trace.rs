//! What comes by inside the model, for whoever compares it with a reference.

use std::collections::BTreeMap;

use tch::Tensor;

/// Tensors by place and number.
pub type Seen = BTreeMap<String, Tensor>;

/// Keeps what it sees; the usual one sees nothing.
#[derive(Debug, Default)]
pub struct Trace(Option<Seen>);

impl Trace {
    pub fn keeping() -> Trace {
        Trace(Some(Seen::new()))
    }

    pub fn kept(self) -> Seen {
        self.0.unwrap_or_default()
    }

    /// A copy is kept: what comes by may be overwritten later.
    pub fn see(&mut self, place: &str, number: usize, tensor: &Tensor) {
        if let Some(kept) = &mut self.0 {
            kept.insert(format!("{place}.{number}"), tensor.copy());
        }
    }
}
