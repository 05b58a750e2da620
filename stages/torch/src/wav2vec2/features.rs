//! The convolutional feature encoder.

use stage_families::wav2vec2::{Norm, Wav2Vec2Config};
use tch::Tensor;

use crate::error::TorchError;
use crate::nn::convolution::Geometry;
use crate::nn::layers::LayerNorm;
use crate::nn::weights::Scope;

/// The epsilon of the norms between the convolutions, which the configuration lacks.
const EPSILON: f64 = 1e-5;

/// Convolutions, each with its activation.
#[derive(Debug)]
pub struct Features(Vec<FeatureLayer>);

#[derive(Debug)]
struct FeatureLayer {
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: Geometry,
    norm: Option<(Norm, LayerNorm)>,
}

impl Features {
    pub fn load(mut scope: Scope, config: &Wav2Vec2Config) -> Result<Features, TorchError> {
        let mut layers = Vec::with_capacity(config.conv_dim.len());
        let mut inputs = 1;
        let shapes = config.conv_dim.iter().zip(&config.conv_kernel).zip(&config.conv_stride);
        for (at, ((outputs, kernel), stride)) in shapes.enumerate() {
            let mut layer = scope.under(&format!("conv_layers.{at}"));
            let mut convolution = layer.under("conv");
            let weight = convolution.take("weight", &[*outputs, inputs, *kernel])?;
            let bias =
                config.conv_bias.then(|| convolution.take("bias", &[*outputs])).transpose()?;
            let is_normed = at == 0 || config.feat_extract_norm == Norm::Layer;
            let mut norm = || LayerNorm::load(&mut layer.under("layer_norm"), *outputs, EPSILON);
            let norm = is_normed.then(&mut norm).transpose()?;
            layers.push(FeatureLayer {
                weight,
                bias,
                geometry: Geometry { stride: *stride, ..Geometry::default() },
                norm: norm.map(|norm| (config.feat_extract_norm, norm)),
            });
            inputs = *outputs;
        }
        Ok(Features(layers))
    }

    /// Samples [B, N] to frames [B, T, C].
    pub fn forward(&self, waves: &Tensor) -> Tensor {
        let mut x = waves.unsqueeze(1);
        for layer in &self.0 {
            x = layer.forward(&x);
        }
        x.transpose(1, 2)
    }
}

impl FeatureLayer {
    /// [B, C, T] to [B, D, output length].
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.geometry.convolve(x, &self.weight, self.bias.as_ref());
        let x = match &self.norm {
            None => x,
            Some((Norm::Layer, norm)) => norm.forward(&x.transpose(1, 2)).transpose(1, 2),
            Some((Norm::Group, LayerNorm { weight, bias, eps })) => {
                x.group_norm(x.size()[1], Some(weight), Some(bias), *eps, true)
            }
        };
        x.gelu("none")
    }
}
