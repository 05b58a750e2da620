//! The tensors of modules by the names of the checkpoint.

use tch::Tensor;

use crate::layers::{Adapter, Conv1D, Embedding, LayerNorm, Linear};

/// The suffixes of an adapter's tensors.
const ADAPTER_TENSORS: [&str; 2] = [".lora_A", ".lora_B"];

/// Tests if a name is that of an adapter's tensor.
pub fn is_adapter(name: &str) -> bool {
    ADAPTER_TENSORS.iter().any(|suffix| name.ends_with(suffix))
}

/// Tensors with their names; they share their memory with the model.
pub type Listed = Vec<(String, Tensor)>;

/// A module that lists its tensors, those of its adapters included.
pub trait Named {
    fn list(&self, name: &str, into: &mut Listed);
}

/// True if any tensor of a module is trained.
pub fn is_trained(module: &dyn Named) -> bool {
    let mut tensors = Vec::new();
    module.list("", &mut tensors);
    tensors.iter().any(|(_, tensor)| tensor.requires_grad())
}

pub fn add(name: &str, part: &str, tensor: &Tensor, into: &mut Listed) {
    into.push((format!("{name}.{part}"), tensor.shallow_clone()));
}

impl Named for Option<Adapter> {
    fn list(&self, name: &str, into: &mut Listed) {
        if let Some(adapter) = self {
            for (suffix, tensor) in ADAPTER_TENSORS.iter().zip([&adapter.a, &adapter.b]) {
                into.push((format!("{name}{suffix}"), tensor.shallow_clone()));
            }
        }
    }
}

impl Named for Linear {
    fn list(&self, name: &str, into: &mut Listed) {
        add(name, "weight", &self.weight, into);
        if let Some(bias) = &self.bias {
            add(name, "bias", bias, into);
        }
        self.adapter.list(name, into);
    }
}

impl Named for Conv1D {
    fn list(&self, name: &str, into: &mut Listed) {
        add(name, "weight", &self.weight, into);
        add(name, "bias", &self.bias, into);
        self.adapter.list(name, into);
    }
}

impl Named for Embedding {
    fn list(&self, name: &str, into: &mut Listed) {
        add(name, "weight", &self.weight, into);
        self.adapter.list(name, into);
    }
}

impl Named for LayerNorm {
    fn list(&self, name: &str, into: &mut Listed) {
        add(name, "weight", &self.weight, into);
        add(name, "bias", &self.bias, into);
    }
}

impl<M: Named> Named for Vec<M> {
    fn list(&self, name: &str, into: &mut Listed) {
        for (at, module) in self.iter().enumerate() {
            module.list(&format!("{name}.{at}"), into);
        }
    }
}
