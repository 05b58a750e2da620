//! A recogniser (Baevski et al., arXiv 2006.11477): a convolutional feature encoder, a transformer,
//! and a CTC head with logits for each symbol.

use stage_families::wav2vec2::{Config, Preprocessor, plain_name};
use tch::{Device, Kind, Tensor};

use super::encoder::Encoder;
use super::features::Features;
use crate::error::TorchError;
use crate::layers::{LayerNorm, Linear, Pass};
use crate::weights::{Weights, usable};

/// Keeps silence from a division by zero, as in transformers.
const LEAST_VARIANCE: f64 = 1e-7;

#[derive(Debug)]
pub struct Wav2Vec2 {
    features: Features,
    projection_norm: LayerNorm,
    projection: Linear,
    encoder: Encoder,
    head: Linear,
    preprocessor: Preprocessor,
    device: Device,
}

impl Wav2Vec2 {
    /// From the tensors of a file, in either spelling of pairs. Tensors must be complete without
    /// extra ones; they become floats of 32 bits on the device.
    pub fn load(
        config: &Config,
        preprocessor: Preprocessor,
        given: Weights,
        device: Device,
    ) -> Result<Wav2Vec2, TorchError> {
        let _guard = tch::no_grad_guard();
        let mut weights = Weights::default();
        for (name, tensor) in given {
            if let Some(name) = plain_name(&name) {
                let tensor = usable(&name, tensor, device)?;
                weights.insert(name, tensor);
            }
        }
        weights.check(&config.tensors())?;
        let (frame, width) = (config.conv_dim.last().copied().unwrap_or(1), config.hidden_size);
        let mut body = weights.under("wav2vec2");
        let mut projection = body.under("feature_projection");
        let projection_norm =
            LayerNorm::load(&mut projection.under("layer_norm"), frame, config.layer_norm_eps)?;
        let projection = Linear::load(&mut projection.under("projection"), frame, width, true)?;
        let model = Wav2Vec2 {
            features: Features::load(body.under("feature_extractor"), config)?,
            projection_norm,
            projection,
            encoder: Encoder::load(body.under("encoder"), config)?,
            head: Linear::load(&mut weights.under("lm_head"), width, config.vocab_size, true)?,
            preprocessor,
            device,
        };
        weights.finish()?;
        Ok(model)
    }

    /// The most likely symbol of each frame of a recording, which must be at least as long as the
    /// receptive field.
    pub fn hear(&self, samples: &[f32]) -> Result<Vec<i64>, TorchError> {
        let _guard = tch::no_grad_guard();
        let logits = self.logits(&self.frames(samples)?)?;
        Ok(Vec::try_from(logits.f_argmax(-1, false)?.f_view(-1)?.f_to_device(Device::Cpu)?)?)
    }

    /// The logarithm of the probability of each symbol in each frame of such a recording: rows, and
    /// symbols in a row.
    pub fn emit(&self, samples: &[f32]) -> Result<(Vec<f32>, usize), TorchError> {
        let _guard = tch::no_grad_guard();
        let logits = self.logits(&self.frames(samples)?)?;
        let symbols = logits.size().last().copied().unwrap_or(0) as usize;
        let likely = logits.f_log_softmax(-1, Kind::Float)?.f_to_device(Device::Cpu)?;
        Ok((Vec::try_from(likely.f_contiguous()?.f_view(-1)?)?, symbols))
    }

    /// The output of the feature encoder for a recording: [1, T, C].
    pub fn frames(&self, samples: &[f32]) -> Result<Tensor, TorchError> {
        let wave = Tensor::f_from_slice(samples)?.f_unsqueeze(0)?;
        let wave = if self.preprocessor.do_normalize { normalized(&wave)? } else { wave };
        self.features.forward(&wave.f_to_device(self.device)?)
    }

    /// The logits of the symbols: [B, T, C] to [B, T, V].
    pub fn logits(&self, frames: &Tensor) -> Result<Tensor, TorchError> {
        let frames = self.projection_norm.forward(frames);
        let hidden = self.encoder.forward(&self.projection.forward(&frames, Pass::Evaluate))?;
        Ok(self.head.forward(&hidden, Pass::Evaluate))
    }
}

/// Normalised to mean 0 and variance 1.
fn normalized(wave: &Tensor) -> Result<Tensor, TorchError> {
    let wide = wave.f_to_kind(Kind::Double)?;
    let wide = wide.f_sub(&wide.f_mean(None)?)?;
    let variance = wide.f_square()?.f_mean(None)?.f_add_scalar(LEAST_VARIANCE)?;
    Ok(wide.f_div(&variance.f_sqrt()?)?.f_to_kind(Kind::Float)?)
}
