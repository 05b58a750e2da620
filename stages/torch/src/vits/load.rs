//! Converts the tensors of a file to those of the model.

use stage_families::vits::{DISCRIMINATOR_PREFIX, is_normed, is_projection, plain_name};
use stage_formats::weight_norm::paired;
use tch::Device;

use super::VitsConfig;
use crate::error::TorchError;
use crate::nn::weight_norm::{fold, split};
use crate::nn::weights::Weights;

/// The use of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightForm {
    /// Synthesis: every weight without weight norm.
    Whole,
    /// Training: magnitude and direction if the original trains them so. Existing pairs of a file
    /// are kept, since training depends on them.
    Normed,
}

/// The tensors of a file by network.
#[derive(Debug)]
pub struct NetworkWeights {
    pub generator: Weights,
    /// If the file has one.
    pub discriminator: Option<Weights>,
}

/// Takes files of transformers, of finetune-hf-vits in any state of training, and of the original;
/// each weight whole or as a pair, in either spelling. Tensors must be complete without extra ones;
/// they become floats of 32 bits on the device.
pub fn prepare(
    config: &VitsConfig,
    given: Weights,
    form: WeightForm,
    device: Device,
) -> Result<NetworkWeights, TorchError> {
    let _guard = tch::no_grad_guard();
    let given = renamed(config, given)?;
    let has_discriminator = given.names().any(|name| name.starts_with(DISCRIMINATOR_PREFIX));
    let mut expected = config.generator();
    if has_discriminator {
        expected.extend(config.discriminator());
    }
    given.check(&paired(expected, |name| given.contains(name)))?;
    let weights = given.usable(device)?;
    let weights = match form {
        WeightForm::Whole => fold(weights, |_| true),
        WeightForm::Normed => split(fold(weights, |name| !is_normed(name)), is_normed),
    };
    let is_discriminator = |(name, _): &(String, _)| name.starts_with(DISCRIMINATOR_PREFIX);
    let (discriminator, generator): (Vec<_>, Vec<_>) =
        weights.into_iter().partition(is_discriminator);
    let discriminator = has_discriminator.then(|| discriminator.into_iter().collect());
    Ok(NetworkWeights { generator: generator.into_iter().collect(), discriminator })
}

/// Unifies the names of all files.
fn renamed(config: &VitsConfig, given: Weights) -> Result<Weights, TorchError> {
    let is_stochastic = config.use_stochastic_duration_prediction;
    let mut weights = Weights::default();
    for (name, tensor) in given {
        let name = plain_name(&name, is_stochastic);
        let tensor = match is_projection(&name) {
            true if tensor.dim() == 3 => tensor.squeeze_dim(2),
            _ => tensor,
        };
        if weights.contains(&name) {
            return Err(TorchError::Model(format!("there are two tensors for `{name}`")));
        }
        weights.insert(name, tensor);
    }
    Ok(weights)
}

/// Reads a `config.json`.
pub fn parse(json: &[u8]) -> Result<VitsConfig, TorchError> {
    VitsConfig::parse(json).map_err(|error| TorchError::Model(error.to_string()))
}
