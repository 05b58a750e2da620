//! The tensors of a model by their names in its file, taken one by one while it is built.

use std::collections::BTreeMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use stage_formats::shapes::{self, Expected, listed};
use tch::{Device, Kind, Tensor};

use crate::error::TorchError;

/// Tensors by name, in the order of the names.
#[derive(Debug, Default)]
pub struct Weights(BTreeMap<String, Tensor>);

impl Weights {
    pub fn from_safetensors(bytes: &[u8]) -> Result<Weights, TorchError> {
        let file = SafeTensors::deserialize(bytes);
        let file = file.map_err(|error| TorchError::Model(error.to_string()))?;
        let mut weights = Weights::default();
        for (name, view) in file.tensors() {
            let tensor = read(&view)?;
            weights.insert(name, tensor);
        }
        Ok(weights)
    }

    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.0.insert(name.into(), tensor);
    }

    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The tensors that `keep` accepts; they share their memory with the originals.
    pub fn shared(&self, keep: impl Fn(&str, &Tensor) -> bool) -> Vec<(String, Tensor)> {
        let kept = self.iter().filter(|(name, tensor)| keep(name, tensor));
        kept.map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone())).collect()
    }

    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        self.0.remove(name)
    }

    /// Compares with the tensors that a model needs; reports all missing, unknown and misshapen
    /// ones at once.
    pub fn check(&self, expected: &[Expected]) -> Result<(), TorchError> {
        let found = self.iter().map(|(name, tensor)| (name, tensor.size())).collect();
        shapes::compare(&found, expected).map_err(TorchError::Model)
    }

    /// Takes a tensor, which must exist in this shape.
    pub fn take(&mut self, name: &str, shape: &[i64]) -> Result<Tensor, TorchError> {
        let tensor = self.0.remove(name);
        let tensor =
            tensor.ok_or_else(|| TorchError::Model(format!("there is no tensor `{name}`")))?;
        if tensor.size() == shape {
            Ok(tensor)
        } else {
            Err(TorchError::Model(format!(
                "`{name}` has the shape {:?}, expected {shape:?}",
                tensor.size()
            )))
        }
    }

    /// A view of all tensors.
    pub fn all(&mut self) -> Scope<'_> {
        Scope { weights: self, prefix: String::new() }
    }

    /// Takes the tensors of one module, under their names within it.
    pub fn take_module(&mut self, module: &str) -> Weights {
        let prefix = format!("{module}.");
        let names: Vec<String> =
            self.names().filter(|name| name.starts_with(&prefix)).map(str::to_owned).collect();
        let taken = names.into_iter().filter_map(|name| {
            let tensor = self.0.remove(&name)?;
            Some((name[prefix.len()..].to_owned(), tensor))
        });
        taken.collect()
    }

    /// A view of the names that begin with `prefix` and a dot.
    pub fn under(&mut self, prefix: &str) -> Scope<'_> {
        Scope { weights: self, prefix: format!("{prefix}.") }
    }

    /// Finishes: tensors that were not taken are an error.
    pub fn finish(self) -> Result<(), TorchError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(TorchError::Model(format!("unexpected: {}", listed(self.names()))))
        }
    }

    /// The tensors with a name that `keep` accepts.
    pub fn filtered(mut self, keep: impl Fn(&str) -> bool) -> Weights {
        self.0.retain(|name, _| keep(name));
        self
    }

    /// The tensors for computing: floats of 32 bits on the device, all finite.
    pub fn usable(self, device: Device) -> Result<Weights, TorchError> {
        let usable = |(name, tensor): (String, Tensor)| {
            let tensor = usable(&name, tensor, device)?;
            Ok((name, tensor))
        };
        self.into_iter().map(usable).collect()
    }

    /// The same on a device; floating-point tensors also in another precision if one is given.
    pub fn moved(self, device: Device, kind: Option<Kind>) -> Weights {
        let mut moved = Weights::default();
        for (name, tensor) in self.0 {
            let kind = kind.filter(|_| tensor.is_floating_point()).unwrap_or(tensor.kind());
            moved.insert(name, tensor.to_device(device).to_kind(kind));
        }
        moved
    }
}

impl Extend<(String, Tensor)> for Weights {
    fn extend<I: IntoIterator<Item = (String, Tensor)>>(&mut self, tensors: I) {
        self.0.extend(tensors);
    }
}

impl FromIterator<(String, Tensor)> for Weights {
    fn from_iter<I: IntoIterator<Item = (String, Tensor)>>(tensors: I) -> Weights {
        Weights(tensors.into_iter().collect())
    }
}

impl IntoIterator for Weights {
    type Item = (String, Tensor);
    type IntoIter = std::collections::btree_map::IntoIter<String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// A part of the tensors: those of one module.
#[derive(Debug)]
pub struct Scope<'a> {
    weights: &'a mut Weights,
    prefix: String,
}

impl Scope<'_> {
    pub fn under(&mut self, name: &str) -> Scope<'_> {
        let prefix = format!("{}{name}.", self.prefix);
        Scope { weights: self.weights, prefix }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.weights.contains(&self.full_name(name))
    }

    pub fn take(&mut self, name: &str, shape: &[i64]) -> Result<Tensor, TorchError> {
        self.weights.take(&self.full_name(name), shape)
    }

    /// The name of a tensor among all tensors.
    pub fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// A copy of a tensor in a file.
pub fn read(view: &TensorView) -> Result<Tensor, TorchError> {
    let shape: Vec<i64> = view.shape().iter().map(|size| *size as i64).collect();
    let kind = kind_of(view.dtype())
        .ok_or_else(|| TorchError::Model(format!("a tensor is of type {:?}", view.dtype())))?;
    Ok(Tensor::from_data_size(view.data(), &shape, kind))
}

/// A tensor for computing: floats of 32 bits on the device, all finite.
pub fn usable(name: &str, tensor: Tensor, device: Device) -> Result<Tensor, TorchError> {
    if !tensor.is_floating_point() {
        return Err(TorchError::Model(format!("`{name}` is {:?}, expected floats", tensor.kind())));
    }
    let tensor = tensor.to_device(device).to_kind(Kind::Float).contiguous();
    check_finite(name, &tensor)?;
    Ok(tensor.set_requires_grad(false))
}

/// Refuses a tensor with a value that is not finite.
pub fn check_finite(name: &str, tensor: &Tensor) -> Result<(), TorchError> {
    if is_finite(tensor) {
        return Ok(());
    }
    let advice = match tensor.kind() {
        Kind::Half => " in fp16: use another `precision` if the weights are good",
        _ => "",
    };
    Err(TorchError::Model(format!("`{name}` has values that are not finite{advice}")))
}

/// The number of values that are added up at a time.
const ADDED: i64 = 1 << 20;

/// True if all values of a tensor are finite.
pub fn is_finite(tensor: &Tensor) -> bool {
    // A sum is not finite if one of its terms is not. The CPU copies to f64 what it adds up.
    let count = tensor.numel() as i64;
    let piece = if tensor.device().is_cuda() { count } else { ADDED };
    let values = tensor.reshape([-1]);
    for start in (0..count).step_by(piece.max(1) as usize) {
        let part = values.narrow(0, start, piece.min(count - start));
        if !part.sum(Kind::Double).double_value(&[]).is_finite() {
            return false;
        }
    }
    true
}

/// The type with this name in parameters; None for other words, such as `auto`.
pub fn kind_named(name: &str) -> Option<Kind> {
    match name {
        "f32" => Some(Kind::Float),
        "bf16" => Some(Kind::BFloat16),
        "fp16" => Some(Kind::Half),
        _ => None,
    }
}

/// The libtorch type for a type in a file, if there is one.
pub fn kind_of(dtype: Dtype) -> Option<Kind> {
    match dtype {
        Dtype::F64 => Some(Kind::Double),
        Dtype::F32 => Some(Kind::Float),
        Dtype::F16 => Some(Kind::Half),
        Dtype::BF16 => Some(Kind::BFloat16),
        Dtype::I64 => Some(Kind::Int64),
        Dtype::I32 => Some(Kind::Int),
        Dtype::I16 => Some(Kind::Int16),
        Dtype::I8 => Some(Kind::Int8),
        Dtype::U8 => Some(Kind::Uint8),
        Dtype::BOOL => Some(Kind::Bool),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn weights(names: &[(&str, &[i64])]) -> Weights {
        let zeros = |shape: &&[i64]| Tensor::zeros(*shape, (Kind::Float, Device::Cpu));
        names.iter().map(|(name, shape)| (name.to_string(), zeros(shape))).collect()
    }

    #[test]
    fn all_that_does_not_fit_is_told_at_once() {
        let there = weights(&[("a", &[2, 3]), ("b", &[1]), ("x", &[1])]);
        there
            .check(&[("a".into(), vec![2, 3]), ("b".into(), vec![1]), ("x".into(), vec![1])])
            .unwrap();
        let expected = [("a".into(), vec![3, 2]), ("b".into(), vec![1]), ("c".into(), vec![1])];
        let error = there.check(&expected).unwrap_err().to_string();
        assert_eq!(
            error,
            "the model cannot be used: missing: `c`; unexpected: `x`; \
             wrong shape: `a` [2, 3] instead of [3, 2]"
        );
    }

    #[test]
    fn a_scope_takes_by_the_whole_name_and_what_is_left_is_an_error() {
        let mut there = weights(&[("layers.0.w", &[2]), ("y", &[1])]);
        let mut layers = there.under("layers");
        let mut layer = layers.under("0");
        assert!(layer.contains("w"));
        assert_eq!(layer.take("w", &[2]).unwrap().size(), [2]);
        let error = layer.take("w", &[2]).unwrap_err().to_string();
        assert!(error.ends_with("there is no tensor `layers.0.w`"), "{error}");
        assert!(there.finish().unwrap_err().to_string().ends_with("unexpected: `y`"));
    }
}
