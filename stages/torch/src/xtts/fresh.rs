//! Random initial weights.

use stage_families::xtts::{
    DIRECTION, DVAE_PREFIX, LENGTH, MEL_STATS, SPEAKER_ENCODER_PREFIX, XttsConfig,
};
use tch::{Device, Kind, Tensor};

use crate::error::TorchError;
use crate::nn::random::Random;
use crate::nn::weights::Weights;

/// The deviation of embeddings, that of GPT-2.
const EMBEDDING: f64 = 0.02;
/// The usual size of log-mel bins, their divisor, so that the DVAE distinguishes frames.
const USUAL_MEL: f64 = 4.0;
const FLOATS: (Kind, Device) = (Kind::Float, Device::Cpu);

/// All tensors of a model by their full names. The same seed gives the same weights.
pub fn weights(config: &XttsConfig, seed: u64) -> Result<Weights, TorchError> {
    let mut random = Random::new(seed);
    let mut weights = Weights::default();
    let (lengths, others): (Vec<_>, Vec<_>) =
        config.tensors().into_iter().partition(|(name, _)| name.ends_with(LENGTH));
    for (name, shape) in others {
        let tensor = match table(config, &name, &shape) {
            Some(table) => table,
            None => draw(&mut random, &name, &shape),
        };
        weights.insert(name, tensor);
    }
    for (name, _) in lengths {
        let direction = format!("{}{DIRECTION}", name.trim_end_matches(LENGTH));
        let direction = weights.get(&direction);
        let direction = direction
            .ok_or_else(|| TorchError::Model(format!("`{name}` has no matching direction")))?;
        // Then the weight is the direction itself.
        let length = direction.norm_scalaropt_dim(2.0, [1, 2], true);
        weights.insert(name, length);
    }
    Ok(weights)
}

/// Tables that follow from the sizes.
fn table(config: &XttsConfig, name: &str, shape: &[i64]) -> Option<Tensor> {
    if name == MEL_STATS {
        return Some(Tensor::full(shape, USUAL_MEL, FLOATS));
    }
    let encoder = &config.speaker_encoder;
    let values = match name.strip_prefix(SPEAKER_ENCODER_PREFIX) {
        Some("torch_spec.0.filter") => encoder.emphasis_filter(),
        Some("torch_spec.1.spectrogram.window") => encoder.hamming_window(),
        Some("torch_spec.1.mel_scale.fb") => encoder.mel_filters(),
        _ => return None,
    };
    Some(Tensor::from_slice(&values).view(shape))
}

fn draw(random: &mut Random, name: &str, shape: &[i64]) -> Tensor {
    let last = name.rsplit('.').next().unwrap_or(name);
    match last {
        "bias" | "running_mean" => Tensor::zeros(shape, FLOATS),
        "num_batches_tracked" => Tensor::zeros(shape, (Kind::Int64, Device::Cpu)),
        _ if shape.len() == 1 => Tensor::ones(shape, FLOATS),
        "embed" => random.normal(shape, 1.0),
        "latents" => random.normal(shape, EMBEDDING),
        _ if name.contains("embedding") => random.normal(shape, EMBEDDING),
        // After a ReLU this preserves the scale of the input, and so distinguishes codes.
        _ if name.starts_with(DVAE_PREFIX) => random.normal(shape, spread(name, shape, 2.0)),
        // The deviation of PyTorch's uniform initialisation.
        _ => random.normal(shape, spread(name, shape, 1.0 / 3.0)),
    }
}

fn spread(name: &str, shape: &[i64], gain: f64) -> f64 {
    let is_input_first = name.contains(".c_") && shape.len() == 2;
    let inputs: i64 = if is_input_first { shape[0] } else { shape.iter().skip(1).product() };
    (gain / inputs.max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_seed_gives_all_tensors_and_another_one_others() {
        let config = XttsConfig::small(40);
        let own = weights(&config, 1).unwrap();
        own.check(&config.tensors()).unwrap();
        let table = |seed| {
            let mut weights = weights(&config, seed).unwrap();
            weights.remove("gpt.text_embedding.weight").unwrap()
        };
        assert!(table(1) == table(1) && table(1) != table(2));
        let of = |part: &str| {
            own.get(&format!("hifigan_decoder.waveform_decoder.ups.0.{part}")).unwrap()
        };
        let norm = of(DIRECTION).f_norm_scalaropt_dim(2.0, [1, 2], true).unwrap();
        assert_eq!(*of(LENGTH), norm);
    }
}
