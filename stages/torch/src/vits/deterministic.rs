//! The deterministic duration predictor.

use tch::Tensor;

use super::config::Config;
use super::dropout::Dropout;
use super::duration::{STREAM, Said, of_speaker, speaker_conv};
use crate::conv::{Conv, Shape, over_channels};
use crate::error::TorchError;
use crate::layers::{LayerNorm, Pass};
use crate::weights::Scope;

#[derive(Debug)]
pub struct Deterministic {
    conv_1: Conv,
    norm_1: LayerNorm,
    conv_2: Conv,
    norm_2: LayerNorm,
    proj: Conv,
    cond: Option<Conv>,
    dropout: f64,
}

impl Deterministic {
    pub fn load(mut scope: Scope, config: &Config) -> Result<Deterministic, TorchError> {
        let (width, inner) = (config.hidden_size, config.duration_predictor_filter_channels);
        let (kernel, eps) = (config.duration_predictor_kernel_size, config.layer_norm_eps);
        Ok(Deterministic {
            conv_1: Conv::load(scope.under("conv_1"), Shape::new(width, inner, kernel))?,
            norm_1: LayerNorm::load(&mut scope.under("norm_1"), inner, eps)?,
            conv_2: Conv::load(scope.under("conv_2"), Shape::new(inner, inner, kernel))?,
            norm_2: LayerNorm::load(&mut scope.under("norm_2"), inner, eps)?,
            proj: Conv::load(scope.under("proj"), Shape::new(inner, 1, 1))?,
            cond: speaker_conv(&mut scope, config)?,
            dropout: config.duration_predictor_dropout,
        })
    }

    /// Logarithms of durations: [B, 1, N].
    pub fn forward(&self, said: Said, pass: Pass) -> Result<Tensor, TorchError> {
        let Said { mask, .. } = said;
        let mut x = said.hidden.detach();
        if let Some(speaker) = of_speaker(&self.cond, said.speaker)? {
            // Not in place: it belongs to the caller.
            x = &x + speaker;
        }
        let layers = [(&self.conv_1, &self.norm_1), (&self.conv_2, &self.norm_2)];
        for (at, (conv, norm)) in layers.into_iter().enumerate() {
            let inner = over_channels(norm, &conv.forward(&(x * mask))?.relu());
            x = Dropout::new(self.dropout, STREAM + at as u64).forward(&inner, pass);
        }
        Ok(self.proj.forward(&(x * mask))? * mask)
    }
}
