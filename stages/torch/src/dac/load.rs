//! Converts the tensors of a file to those of the model.

use stage_formats::weight_norm;
use tch::Device;

use super::{DacConfig, DacLayout};
use crate::error::TorchError;
use crate::nn::weight_norm::fold;
use crate::nn::weights::Weights;

/// Takes the tensors of a file: names unified, checked against the config, in 32-bit floats on the
/// device, with weight norm removed.
pub fn prepare(config: &DacConfig, given: Weights, device: Device) -> Result<Weights, TorchError> {
    let _guard = tch::no_grad_guard();
    let given = canonical(given);
    given.check(&DacLayout::of(config).0)?;
    Ok(fold(given.usable(device)?, |_| true))
}

/// One spelling for all files: no prefix of a training run, no buffers, the older names of weight
/// norm.
fn canonical(given: Weights) -> Weights {
    let wrapped = given.names().any(|name| name.contains("generator."));
    let mut weights = Weights::default();
    for (name, tensor) in given {
        if wrapped && !name.contains("generator.") {
            continue;
        }
        let name = name.replace("generator.", "");
        let last = name.rsplit('.').next().unwrap_or_default();
        // Tables that follow from the config are computed anew.
        if last == "freqs_cis" || last == "causal_mask" {
            continue;
        }
        weights.insert(weight_norm::plain(&name), tensor);
    }
    weights
}
