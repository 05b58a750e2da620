//! The decoder from latents to a waveform: a HiFi-GAN with the names of transformers.

use super::config::Config;
use crate::error::TorchError;
use crate::hifi_gan::{HifiGan, HifiGanConfig};
use crate::weights::Scope;

/// Weights under the decoder's names.
pub fn load(scope: Scope, config: &Config) -> Result<HifiGan, TorchError> {
    let sizes = HifiGanConfig {
        inputs: config.flow_size,
        initial_channels: config.upsample_initial_channel,
        upsample_rates: &config.upsample_rates,
        upsample_kernels: &config.upsample_kernel_sizes,
        resblock_kernels: &config.resblock_kernel_sizes,
        resblock_dilations: &config.resblock_dilation_sizes,
        speaker_width: config.speaker_embedding_size,
        cond: "cond",
        conds: None,
        upsampler: "upsampler",
        leaky_slope: config.leaky_relu_slope,
    };
    HifiGan::load(scope, &sizes)
}
