//! The layers of the flows, of the posterior encoder and of the duration predictors.
//!
//! `WaveNet` and `DilatedDepthSeparableConv` compute; `ResidualCoupling`, `ElementwiseAffine` and
//! `ConvFlow` are invertible.

use tch::Tensor;

use super::VitsConfig;
use super::commons::{halves, summed};
use super::transforms::{Spline, from_numbers};
use crate::error::TorchError;
use crate::nn::conv::{Conv, Shape, over_channels};
use crate::nn::layers::{LayerNorm, Pass, dropout};
use crate::nn::random::scramble;
use crate::nn::weights::Scope;

/// A dropout layer; each has its own random stream.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    probability: f64,
    stream: u64,
}

impl Dropout {
    pub fn new(probability: f64, stream: u64) -> Dropout {
        Dropout { probability, stream }
    }

    pub fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        match pass {
            Pass::Train { seed } if self.probability > 0.0 => {
                dropout(x, self.probability, scramble(seed ^ scramble(self.stream)))
            }
            _ => x.shallow_clone(),
        }
    }
}

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
        config: &VitsConfig,
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
    ) -> Tensor {
        let cond = match (&self.cond_layer, speaker) {
            (Some(layer), Some(speaker)) => Some(layer.forward(speaker)),
            _ => None,
        };
        let (mut x, mut outputs) = (x.shallow_clone(), x.zeros_like());
        let last = self.in_layers.len() - 1;
        for (at, layer) in self.in_layers.iter().enumerate() {
            let mut inner = layer.forward(&x);
            if let Some(cond) = &cond {
                inner += cond.narrow(1, at as i64 * 2 * self.width, 2 * self.width);
            }
            let [wave, gate] = halves(&inner);
            let dropout = Dropout::new(self.dropout, self.stream + at as u64);
            let gated = dropout.forward(&(wave.tanh() * gate.sigmoid()), pass);
            let both = self.res_skip_layers[at].forward(&gated);
            if at == last {
                outputs += both;
            } else {
                let [through, past] = halves(&both);
                x = (x + through) * mask;
                outputs += past;
            }
        }
        outputs * mask
    }
}

/// The epsilon of the original's norms, regardless of the configuration.
const EPSILON: f64 = 1e-5;

#[derive(Debug)]
struct DdsLayer {
    dilated: Conv,
    pointwise: Conv,
    norm_1: LayerNorm,
    norm_2: LayerNorm,
    dropout: Dropout,
}

#[derive(Debug)]
pub struct DilatedDepthSeparableConv {
    layers: Vec<DdsLayer>,
}

impl DilatedDepthSeparableConv {
    pub fn load(
        mut scope: Scope,
        config: &VitsConfig,
        dropout: f64,
        stream: u64,
    ) -> Result<DilatedDepthSeparableConv, TorchError> {
        let (width, kernel) = (config.hidden_size, config.duration_predictor_kernel_size);
        let mut layers = Vec::new();
        for at in 0..config.depth_separable_num_layers {
            let dilated =
                Shape::new(width, width, kernel).dilated(kernel.pow(at as u32)).grouped(width);
            let pointwise = Shape::new(width, width, 1);
            let norm = |scope: &mut Scope, name: &str| {
                LayerNorm::load(&mut scope.under(&format!("{name}.{at}")), width, EPSILON)
            };
            layers.push(DdsLayer {
                dilated: Conv::load(scope.under(&format!("convs_dilated.{at}")), dilated)?,
                pointwise: Conv::load(scope.under(&format!("convs_pointwise.{at}")), pointwise)?,
                norm_1: norm(&mut scope, "norms_1")?,
                norm_2: norm(&mut scope, "norms_2")?,
                dropout: Dropout::new(dropout, stream + at as u64),
            });
        }
        Ok(DilatedDepthSeparableConv { layers })
    }

    /// [B, C, N] to [B, C, N]; the conditioning has the same shape.
    pub fn forward(&self, x: &Tensor, mask: &Tensor, cond: Option<&Tensor>, pass: Pass) -> Tensor {
        let mut x = match cond {
            Some(cond) => x + cond,
            None => x.shallow_clone(),
        };
        for layer in &self.layers {
            let inner = layer.dilated.forward(&(&x * mask));
            let inner = over_channels(&layer.norm_1, &inner).gelu("none");
            let inner = layer.pointwise.forward(&inner);
            let inner = over_channels(&layer.norm_2, &inner).gelu("none");
            // Not in place: at first it belongs to the caller.
            x = &x + layer.dropout.forward(&inner, pass);
        }
        x * mask
    }
}

/// A residual coupling layer: shifts one half of the channels conditioned on the other; it is
/// volume-preserving.
#[derive(Debug)]
pub struct ResidualCoupling {
    conv_pre: Conv,
    wavenet: WaveNet,
    conv_post: Conv,
}

impl ResidualCoupling {
    pub fn load(
        mut scope: Scope,
        config: &VitsConfig,
        stream: u64,
    ) -> Result<ResidualCoupling, TorchError> {
        let (half, width) = (config.flow_size / 2, config.hidden_size);
        let layers = config.prior_encoder_num_wavenet_layers;
        Ok(ResidualCoupling {
            conv_pre: Conv::load(scope.under("conv_pre"), Shape::new(half, width, 1))?,
            wavenet: WaveNet::load(scope.under("wavenet"), config, layers, stream)?,
            conv_post: Conv::load(scope.under("conv_post"), Shape::new(width, half, 1))?,
        })
    }

    pub fn shift(
        &self,
        half: &Tensor,
        mask: &Tensor,
        speaker: Option<&Tensor>,
        pass: Pass,
    ) -> Tensor {
        let x = self.conv_pre.forward(half) * mask;
        let x = self.wavenet.forward(&x, mask, speaker, pass);
        self.conv_post.forward(&x) * mask
    }
}

/// An affine layer on both channels.
#[derive(Debug)]
pub struct ElementwiseAffine {
    translate: Tensor,
    log_scale: Tensor,
}

impl ElementwiseAffine {
    pub fn load(mut scope: Scope, channels: i64) -> Result<ElementwiseAffine, TorchError> {
        let mut vector = |name: &str| scope.take(name, &[channels, 1]);
        Ok(ElementwiseAffine { translate: vector("translate")?, log_scale: vector("log_scale")? })
    }

    pub fn forward(&self, x: &Tensor, mask: &Tensor) -> (Tensor, Tensor) {
        let y = (&self.translate + self.log_scale.exp() * x) * mask;
        (y, summed(&(&self.log_scale * mask)))
    }

    pub fn reverse(&self, y: &Tensor, mask: &Tensor) -> Tensor {
        (y - &self.translate) * (-&self.log_scale).exp() * mask
    }
}

/// A spline coupling: transforms one channel conditioned on the other.
#[derive(Debug)]
pub struct ConvFlow {
    conv_pre: Conv,
    conv_dds: DilatedDepthSeparableConv,
    conv_proj: Conv,
    bins: i64,
    divisor: f64,
    bound: f64,
}

impl ConvFlow {
    pub fn load(
        mut scope: Scope,
        config: &VitsConfig,
        stream: u64,
    ) -> Result<ConvFlow, TorchError> {
        let (width, bins) = (config.hidden_size, config.duration_predictor_flow_bins);
        Ok(ConvFlow {
            conv_pre: Conv::load(scope.under("conv_pre"), Shape::new(1, width, 1))?,
            conv_dds: DilatedDepthSeparableConv::load(
                scope.under("conv_dds"),
                config,
                0.0,
                stream,
            )?,
            conv_proj: Conv::load(scope.under("conv_proj"), Shape::new(width, 3 * bins - 1, 1))?,
            bins,
            divisor: (width as f64).sqrt(),
            bound: config.duration_predictor_tail_bound,
        })
    }

    /// The spline of each token, from one channel and the text.
    fn spline(&self, first: &Tensor, mask: &Tensor, cond: &Tensor) -> Spline {
        let x = self.conv_pre.forward(first);
        let x = self.conv_dds.forward(&x, mask, Some(cond), Pass::Evaluate);
        let numbers = self.conv_proj.forward(&x) * mask; // [B, 3 K - 1, N]
        from_numbers(&numbers.transpose(1, 2).unsqueeze(1), self.bins, self.divisor, self.bound)
    }

    pub fn forward(&self, x: &Tensor, mask: &Tensor, cond: &Tensor) -> (Tensor, Tensor) {
        let [first, second] = halves(x);
        let (second, slope) = self.spline(&first, mask, cond).forward(&second);
        (Tensor::cat(&[first, second], 1) * mask, summed(&(slope * mask)))
    }

    pub fn reverse(&self, y: &Tensor, mask: &Tensor, cond: &Tensor) -> Tensor {
        let [first, second] = halves(y);
        let second = self.spline(&first, mask, cond).reverse(&second);
        Tensor::cat(&[first, second], 1) * mask
    }
}
