//! From the tensors of a file to those that the model computes with.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::config::Config;
use super::layout::Layout;
use crate::error::TorchError;

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// The most names that a message lists.
const LISTED: usize = 3;

/// Takes the tensors of a file: names made one, checked against the config, in 32-bit floats
/// on the device, and each pair of weight norm folded into one weight.
pub fn prepare(config: &Config, given: Tensors, device: Device) -> Result<Tensors, TorchError> {
    let _guard = tch::no_grad_guard();
    let mut given = canonical(given);
    let layout = Layout::of(config).0;
    let lacking: Vec<&str> = layout.iter().map(|(name, _)| name.as_str()).collect();
    let lacking = lacking.into_iter().filter(|name| !given.contains_key(*name));
    refuse("it lacks", lacking.collect())?;
    let mut tensors = Tensors::new();
    for (name, shape) in layout {
        let Some(tensor) = given.remove(&name) else { continue };
        tensors.insert(name.clone(), checked(&name, &shape, tensor, device)?);
    }
    refuse("it has what the codec knows nothing of:", given.keys().map(String::as_str).collect())?;
    fold(tensors)
}

/// One spelling for all files: no prefix of a training run, no buffers, the older names of
/// weight norm.
fn canonical(given: Tensors) -> Tensors {
    let wrapped = given.keys().any(|name| name.contains("generator."));
    let mut tensors = Tensors::new();
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
        tensors.insert(name.replace("parametrizations.weight.original1", "weight_v"), tensor);
    }
    tensors
}

fn checked(
    name: &str,
    shape: &[i64],
    tensor: Tensor,
    device: Device,
) -> Result<Tensor, TorchError> {
    if tensor.size() != shape {
        let text = format!("`{name}` has shape {:?}, expected {shape:?}", tensor.size());
        return Err(TorchError::Model(text));
    }
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

fn fold(mut tensors: Tensors) -> Result<Tensors, TorchError> {
    let lengths: Vec<String> = tensors
        .keys()
        .filter_map(|name| name.strip_suffix("weight_g"))
        .map(str::to_owned)
        .collect();
    for name in lengths {
        let length = tensors.remove(&format!("{name}weight_g"));
        let direction = tensors.remove(&format!("{name}weight_v"));
        if let (Some(length), Some(direction)) = (length, direction) {
            let weight = Tensor::f_internal_weight_norm(&direction, &length, 0)?;
            tensors.insert(format!("{name}weight"), weight);
        }
    }
    Ok(tensors)
}

fn refuse(what: &str, names: Vec<&str>) -> Result<(), TorchError> {
    if names.is_empty() {
        return Ok(());
    }
    let listed: Vec<String> = names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let mut text = format!("{what} {}", listed.join(", "));
    if names.len() > LISTED {
        text.push_str(&format!(" and {} more", names.len() - LISTED));
    }
    Err(TorchError::Model(text))
}
