//! The flow between latents of sound and latents of text, and the posterior encoder.

use tch::Tensor;

use super::config::Config;
use super::text_encoder::halves;
use super::wavenet::WaveNet;
use crate::conv::{Conv, Shape};
use crate::error::TorchError;
use crate::layers::Pass;
use crate::weights::Scope;

/// Dropout streams, separate from those of the text encoder.
const FLOW_STREAM: u64 = 1 << 20;
const POSTERIOR_STREAM: u64 = 2 << 20;

/// A residual coupling layer: shifts one half of the channels conditioned on the other; it is
/// volume-preserving.
#[derive(Debug)]
struct Coupling {
    conv_pre: Conv,
    wavenet: WaveNet,
    conv_post: Conv,
}

/// Coupling layers, each followed by a flip of the channels.
#[derive(Debug)]
pub struct Flow {
    flows: Vec<Coupling>,
}

/// The posterior of latents given a recording: [B, F, T] each.
#[derive(Debug)]
pub struct Posterior {
    pub mean: Tensor,
    pub log_deviation: Tensor,
    /// Sampled from it.
    pub latents: Tensor,
}

#[derive(Debug)]
pub struct PosteriorEncoder {
    conv_pre: Conv,
    wavenet: WaveNet,
    conv_proj: Conv,
}

impl Coupling {
    fn load(mut scope: Scope, config: &Config, stream: u64) -> Result<Coupling, TorchError> {
        let (half, width) = (config.flow_size / 2, config.hidden_size);
        let layers = config.prior_encoder_num_wavenet_layers;
        Ok(Coupling {
            conv_pre: Conv::load(scope.under("conv_pre"), Shape::new(half, width, 1))?,
            wavenet: WaveNet::load(scope.under("wavenet"), config, layers, stream)?,
            conv_post: Conv::load(scope.under("conv_post"), Shape::new(width, half, 1))?,
        })
    }

    fn shift(
        &self,
        half: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let x = self.conv_pre.forward(half)? * mask;
        let x = self.wavenet.forward(&x, mask, speaker, pass)?;
        Ok(self.conv_post.forward(&x)? * mask)
    }
}

impl Flow {
    pub fn load(mut scope: Scope, config: &Config) -> Result<Flow, TorchError> {
        let mut flows = Vec::new();
        for at in 0..config.prior_encoder_num_flows {
            let stream = FLOW_STREAM + 1024 * at as u64;
            flows.push(Coupling::load(scope.under(&format!("flows.{at}")), config, stream)?);
        }
        Ok(Flow { flows })
    }

    /// From posterior to prior: [B, F, T] to [B, F, T].
    pub fn forward(
        &self,
        latents: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let mut x = latents.shallow_clone();
        for flow in &self.flows {
            let [first, second] = halves(&x);
            let second = flow.shift(&first, mask, speaker, pass)? + second * mask;
            x = Tensor::f_cat(&[first, second], 1)?.f_flip([1])?;
        }
        Ok(x)
    }

    /// From prior to posterior.
    pub fn reverse(
        &self,
        latents: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
    ) -> Result<Tensor, TorchError> {
        let mut x = latents.shallow_clone();
        for flow in self.flows.iter().rev() {
            let [first, second] = halves(&x.f_flip([1])?);
            let second = (second - flow.shift(&first, mask, speaker, Pass::Evaluate)?) * mask;
            x = Tensor::f_cat(&[first, second], 1)?;
        }
        Ok(x)
    }
}

impl PosteriorEncoder {
    pub fn load(mut scope: Scope, config: &Config) -> Result<PosteriorEncoder, TorchError> {
        let (bins, width) = (config.spectrogram_bins, config.hidden_size);
        let layers = config.posterior_encoder_num_wavenet_layers;
        let wavenet = WaveNet::load(scope.under("wavenet"), config, layers, POSTERIOR_STREAM)?;
        let conv_proj = Shape::new(width, 2 * config.flow_size, 1);
        Ok(PosteriorEncoder {
            conv_pre: Conv::load(scope.under("conv_pre"), Shape::new(bins, width, 1))?,
            wavenet,
            conv_proj: Conv::load(scope.under("conv_proj"), conv_proj)?,
        })
    }

    /// A linear spectrogram [B, bins, T] with its mask [B, 1, T], and noise [B, F, T].
    pub fn forward(
        &self,
        spectrogram: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        noise: &Tensor,
        pass: Pass,
    ) -> Result<Posterior, TorchError> {
        let x = self.conv_pre.forward(spectrogram)? * mask;
        let x = self.wavenet.forward(&x, mask, speaker, pass)?;
        let [mean, log_deviation] = halves(&(self.conv_proj.forward(&x)? * mask));
        let latents = (&mean + noise * log_deviation.exp()) * mask;
        Ok(Posterior { mean, log_deviation, latents })
    }
}
