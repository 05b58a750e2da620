//! An untrained model, initialised as in the original.

use stage_formats::shapes::Expected;
use tch::{Device, Kind, Tensor};

use super::VitsConfig;
use crate::nn::random::Random;
use crate::nn::weights::Weights;

/// Weights that start at zero: flows that are the identity at first.
const NOUGHTS: [&str; 4] = [".translate", ".log_scale", ".conv_post.weight", ".conv_proj.weight"];

/// All weights of the generator, without weight norm. The same seed gives the same weights.
pub fn generator(config: &VitsConfig, seed: u64) -> Weights {
    drawn(config.generator(), seed)
}

/// All weights of the discriminator, without weight norm; its seed differs from the generator's, so
/// that each can be made without the other.
pub fn discriminator(config: &VitsConfig, seed: u64) -> Weights {
    drawn(config.discriminator(), !seed)
}

/// The weights of the posterior encoder alone.
pub fn posterior_encoder(config: &VitsConfig, seed: u64) -> Weights {
    let mut tensors = config.generator();
    tensors.retain(|(name, _)| name.starts_with("posterior_encoder."));
    drawn(tensors, seed)
}

fn drawn(tensors: Vec<Expected>, seed: u64) -> Weights {
    let mut random = Random::new(seed);
    let named = |(name, shape): Expected| {
        let tensor = begin(&mut random, &name, &shape);
        (name, tensor)
    };
    tensors.into_iter().map(named).collect()
}

fn begin(random: &mut Random, name: &str, shape: &[i64]) -> Tensor {
    let options = (Kind::Float, Device::Cpu);
    let width = shape.last().copied().unwrap_or(1) as f64;
    let is_flow = name.contains("flows.");
    match name.rsplit('.').next() {
        Some("bias") => Tensor::zeros(shape, options),
        _ if is_flow && NOUGHTS.iter().any(|end| name.ends_with(end)) => {
            Tensor::zeros(shape, options)
        }
        _ if shape.len() == 1 => Tensor::ones(shape, options),
        _ if name.contains("emb") => random.normal(shape, width.powf(-0.5)),
        // The deviation of PyTorch's uniform initialisation; at the published sizes it is about the
        // 0.01 of the decoder, and smaller decoders stay audible.
        _ => {
            let inputs: i64 = shape.iter().skip(1).product();
            random.normal(shape, (3.0 * inputs as f64).powf(-0.5))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_seed_gives_the_same_weights_and_another_one_others() {
        let config =
            VitsConfig { hidden_size: 4, ffn_dim: 4, vocab_size: 5, ..VitsConfig::default() };
        let table = |seed| {
            let mut weights = generator(&config, seed);
            weights.remove("text_encoder.embed_tokens.weight").unwrap()
        };
        assert!(table(1) == table(1) && table(1) != table(2));
    }
}
