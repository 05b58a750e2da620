//! Gated convolutions with residual and skip connections (WaveNet, arXiv 1609.03499).

use tch::Tensor;

use super::config::Config;
use super::dropout::Dropout;
use super::text_encoder::halves;
use crate::conv::{Conv, Shape};
use crate::error::TorchError;
use crate::layers::Pass;
use crate::weights::Scope;

#[derive(Debug)]
pub struct WaveNet {
    in_layers: Vec<Conv>,
    res_skip_layers: Vec<Conv>,
    /// The speaker conditioning of all layers.
    cond_layer: Option<Conv>,
    width: i64,
    dropout: f64,
    stream: u64,
}

impl WaveNet {
    pub fn load(
        mut scope: Scope,
        config: &Config,
        layers: i64,
        stream: u64,
    ) -> Result<WaveNet, TorchError> {
        let (width, speaker) = (config.hidden_size, config.speaker_embedding_size);
        let cond = Shape::new(speaker, 2 * width * layers, 1);
        let cond_layer =
            (speaker > 0).then(|| Conv::load(scope.under("cond_layer"), cond)).transpose()?;
        let (mut in_layers, mut res_skip_layers) = (Vec::new(), Vec::new());
        for at in 0..layers {
            let dilation = config.wavenet_dilation_rate.pow(at as u32);
            let shape = Shape::new(width, 2 * width, config.wavenet_kernel_size).dilated(dilation);
            in_layers.push(Conv::load(scope.under(&format!("in_layers.{at}")), shape)?);
            let outputs = if at + 1 < layers { 2 * width } else { width };
            let shape = Shape::new(width, outputs, 1);
            res_skip_layers.push(Conv::load(scope.under(&format!("res_skip_layers.{at}")), shape)?);
        }
        let dropout = config.wavenet_dropout;
        Ok(WaveNet { in_layers, res_skip_layers, cond_layer, width, dropout, stream })
    }

    /// [B, C, T] to [B, C, T]; the speaker is [B, E, 1].
    pub fn forward(
        &self,
        x: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        pass: Pass,
    ) -> Result<Tensor, TorchError> {
        let cond = match (&self.cond_layer, speaker) {
            (Some(layer), Some(speaker)) => Some(layer.forward(speaker)?),
            _ => None,
        };
        let (mut x, mut outputs) = (x.shallow_clone(), x.zeros_like());
        let last = self.in_layers.len() - 1;
        for (at, layer) in self.in_layers.iter().enumerate() {
            let mut inner = layer.forward(&x)?;
            if let Some(cond) = &cond {
                inner += cond.narrow(1, at as i64 * 2 * self.width, 2 * self.width);
            }
            let [wave, gate] = halves(&inner);
            let dropout = Dropout::new(self.dropout, self.stream + at as u64);
            let gated = dropout.forward(&(wave.tanh() * gate.sigmoid()), pass);
            let both = self.res_skip_layers[at].forward(&gated)?;
            if at == last {
                outputs += both;
            } else {
                let [through, past] = halves(&both);
                x = (x + through) * mask;
                outputs += past;
            }
        }
        Ok(outputs * mask)
    }
}
