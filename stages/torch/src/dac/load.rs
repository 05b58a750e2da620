//! From the tensors of a file to those that the model computes with.

use tch::{Device, Kind, Tensor};

use super::config::Config;
use super::layout::Layout;
use crate::error::TorchError;
use crate::weights::Weights;

/// Takes the tensors of a file: names made one, checked against the config, in 32-bit floats
/// on the device, and each pair of weight norm folded into one weight.
pub fn prepare(config: &Config, given: Weights, device: Device) -> Result<Weights, TorchError> {
    let _guard = tch::no_grad_guard();
    let given = canonical(given);
    given.check(&Layout::of(config).0)?;
    let mut weights = Weights::default();
    for (name, tensor) in given {
        let tensor = usable(&name, tensor, device)?;
        weights.insert(name, tensor);
    }
    fold(weights)
}

/// One spelling for all files: no prefix of a training run, no buffers, the older names of
/// weight norm.
fn canonical(given: Weights) -> Weights {
    let wrapped = given.names().any(|name| name.contains("generator."));
    let mut weights = Weights::default();
    for (name, tensor) in given {
        if wrapped && !name.contains("generator.") {
            continue;
        }
        let name = name.replace("generator.", "");
        let last = name.rsplit('.').next().unwrap_or_default();
        // Tables that follow from the config and are made anew.
        if last == "freqs_cis" || last == "causal_mask" {
            continue;
        }
        let name = name.replace("parametrizations.weight.original0", "weight_g");
        weights.insert(name.replace("parametrizations.weight.original1", "weight_v"), tensor);
    }
    weights
}

fn usable(name: &str, tensor: Tensor, device: Device) -> Result<Tensor, TorchError> {
    if !tensor.is_floating_point() {
        return Err(TorchError::Model(format!("`{name}` is {:?}, expected floats", tensor.kind())));
    }
    let tensor = tensor.f_to_device(device)?.f_to_kind(Kind::Float)?.f_contiguous()?;
    // A sum is not finite as soon as one of its terms is not.
    match tensor.f_sum(Kind::Double)?.f_double_value(&[])?.is_finite() {
        true => Ok(tensor.set_requires_grad(false)),
        false => Err(TorchError::Model(format!("`{name}` holds what is not a number"))),
    }
}

fn fold(mut weights: Weights) -> Result<Weights, TorchError> {
    let pairs = weights.names().filter_map(|name| name.strip_suffix("weight_g"));
    let pairs: Vec<String> = pairs.map(str::to_owned).collect();
    for name in pairs {
        let length = weights.remove(&format!("{name}weight_g"));
        let direction = weights.remove(&format!("{name}weight_v"));
        if let (Some(length), Some(direction)) = (length, direction) {
            let weight = Tensor::f_internal_weight_norm(&direction, &length, 0)?;
            weights.insert(format!("{name}weight"), weight);
        }
    }
    Ok(weights)
}
