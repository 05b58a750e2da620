//! The waveform decoder: hidden states are interpolated to the frames of the wave, then HiFi-GAN
//! decodes them.

use stage_families::xtts::DecoderConfig;
use stage_formats::weight_norm;
use tch::{Device, Tensor};

use crate::error::{InTch, TorchError};
use crate::nn::hifi_gan::{HifiGan, HifiGanConfig};
use crate::nn::weight_norm::fold;
use crate::nn::weights::Weights;

const LEAKY_SLOPE: f64 = 0.1;
/// The lowest allowed speed.
pub const SLOWEST: f64 = 0.05;

#[derive(Debug)]
pub struct WaveformDecoder {
    waveform_decoder: HifiGan,
    /// Frames per code.
    frames: f64,
    /// Output samples per sample of the codes.
    rate: f64,
}

impl WaveformDecoder {
    /// Weights under the names below `waveform_decoder`, with or without weight norm. A code has
    /// `code_stride` samples at `code_rate`.
    pub fn load(
        config: &DecoderConfig,
        (code_stride, code_rate): (f64, f64),
        weights: Weights,
        device: Device,
    ) -> Result<WaveformDecoder, TorchError> {
        let whole: Weights = weights
            .usable(device)?
            .into_iter()
            .map(|(name, tensor)| (weight_norm::plain(&name), tensor))
            .collect();
        let mut whole = fold(whole, |_| true);
        let conds = config.speaker_in_each_layer.then_some("conds");
        let sizes = HifiGanConfig {
            inputs: config.input_width,
            initial_channels: config.initial_channels,
            upsample_rates: &config.upsample_rates,
            upsample_kernels: &config.upsample_kernels,
            resblock_kernels: &config.resblock_kernels,
            resblock_dilations: &config.resblock_dilations,
            has_pairs: true,
            speaker_width: config.speaker_width,
            cond: "cond_layer",
            conds,
            upsampler: "ups",
            leaky_slope: LEAKY_SLOPE,
        };
        let waveform_decoder = HifiGan::load(whole.all(), &sizes)?;
        whole.finish()?;
        Ok(WaveformDecoder {
            waveform_decoder,
            frames: code_stride / config.hop as f64,
            rate: config.sample_rate as f64 / code_rate,
        })
    }

    /// Hidden states [B, N, width] and speaker vectors [B, speaker width, 1] to waves [B, samples]
    /// between -1 and 1. Twice the speed is half the length.
    pub fn forward(&self, hidden: &Tensor, speaker: &Tensor, speed: f64) -> Tensor {
        let mut x = hidden.transpose(1, 2); // [B, width, N]
        for scale in [1.0 / speed.max(SLOWEST), self.frames, self.rate] {
            x = stretched(&x, scale);
        }
        self.waveform_decoder.forward(&x, Some(speaker)).squeeze_dim(1)
    }
}

/// Linear interpolation of columns [B, C, N] to `scale` times as many, rounded down, but at least
/// one.
fn stretched(x: &Tensor, scale: f64) -> Tensor {
    if scale == 1.0 {
        return x.shallow_clone();
    }
    let length = (x.size3().in_tch().2 as f64 * scale).floor() as i64;
    x.upsample_linear1d([length.max(1)], false, scale)
}
