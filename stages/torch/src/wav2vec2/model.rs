//! A recogniser (Baevski et al., arXiv 2006.11477): a convolutional feature encoder, a transformer,
//! and a CTC head with logits for each symbol.

use stage_families::wav2vec2::{Preprocessor, Wav2Vec2Config, plain_name};
use tch::{Device, Kind, Tensor};

use super::encoder::Wav2Vec2Encoder;
use super::features::Features;
use crate::error::{InTch, TorchError};
use crate::nn::layers::{LayerNorm, Linear, Pass};
use crate::nn::weights::{Weights, usable};

/// Keeps silence from a division by zero, as in transformers.
const LEAST_VARIANCE: f64 = 1e-7;

#[derive(Debug)]
pub struct Wav2Vec2 {
    features: Features,
    projection_norm: LayerNorm,
    projection: Linear,
    encoder: Wav2Vec2Encoder,
    head: Linear,
    preprocessor: Preprocessor,
    device: Device,
}

impl Wav2Vec2 {
    /// From the tensors of a file, in either spelling of pairs. Tensors must be complete without
    /// extra ones; they become floats of 32 bits on the device.
    pub fn load(
        config: &Wav2Vec2Config,
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
            encoder: Wav2Vec2Encoder::load(body.under("encoder"), config)?,
            head: Linear::load(&mut weights.under("lm_head"), width, config.vocab_size, true)?,
            preprocessor,
            device,
        };
        weights.finish()?;
        Ok(model)
    }

    /// The most likely symbol of each frame of a recording, which must be at least as long as the
    /// receptive field.
    pub fn hear(&self, samples: &[f32]) -> Vec<i64> {
        let _guard = tch::no_grad_guard();
        let logits = self.logits(&self.frames(samples));
        Vec::try_from(logits.argmax(-1, false).view(-1).to_device(Device::Cpu)).in_tch()
    }

    /// The logarithm of the probability of each symbol in each frame of such a recording: rows, and
    /// symbols in a row.
    pub fn emit(&self, samples: &[f32]) -> (Vec<f32>, usize) {
        let _guard = tch::no_grad_guard();
        let logits = self.logits(&self.frames(samples));
        let symbols = logits.size().last().copied().unwrap_or(0) as usize;
        let likely = logits.log_softmax(-1, Kind::Float).to_device(Device::Cpu);
        (Vec::try_from(likely.contiguous().view(-1)).in_tch(), symbols)
    }

    /// The output of the feature encoder for a recording: [1, T, C].
    pub fn frames(&self, samples: &[f32]) -> Tensor {
        let wave = Tensor::from_slice(samples).unsqueeze(0);
        let wave = if self.preprocessor.do_normalize { normalized(&wave) } else { wave };
        self.features.forward(&wave.to_device(self.device))
    }

    /// The logits of the symbols: [B, T, C] to [B, T, V].
    pub fn logits(&self, frames: &Tensor) -> Tensor {
        let frames = self.projection_norm.forward(frames);
        let hidden = self.encoder.forward(&self.projection.forward(&frames, Pass::Evaluate));
        self.head.forward(&hidden, Pass::Evaluate)
    }
}

/// Normalised to mean 0 and variance 1.
fn normalized(wave: &Tensor) -> Tensor {
    let wide = wave.to_kind(Kind::Double);
    let wide = &wide - wide.mean(None);
    let variance = wide.square().mean(None) + LEAST_VARIANCE;
    (wide / variance.sqrt()).to_kind(Kind::Float)
}
