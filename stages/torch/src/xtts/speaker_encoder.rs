//! The speaker encoder: a ResNet with squeeze and excitation over log-mel frames, and attentive
//! statistics pooling (Heo et al., arXiv 2009.14153).

use stage_families::xtts::SpeakerEncoderConfig;
use tch::{Device, Kind, Tensor};

use super::mel::MelSpectrogram;
use super::resample::resample;
use crate::error::TorchError;
use crate::nn::convolution::Geometry;
use crate::nn::layers::{Linear, Pass};
use crate::nn::weights::{Scope, Weights};

/// The reduction of squeeze and excitation.
const REDUCTION: i64 = 8;
/// Channels within the attention.
const ATTENTION: i64 = 128;

const NORM_EPS: f64 = 1e-5;
/// Added before the logarithm.
const LOG_FLOOR: f64 = 1e-6;
/// The smallest variance of the pooled frames.
const LEAST_VARIANCE: f64 = 1e-5;
/// The smallest norm to divide a vector by.
const LEAST_LENGTH: f64 = 1e-12;

/// Batch norm in evaluation: a factor and a shift for each channel.
#[derive(Debug)]
struct BatchNorm {
    factor: Tensor,
    shift: Tensor,
}

/// A 2D convolution.
#[derive(Debug)]
struct Conv2d {
    weight: Tensor,
    bias: Option<Tensor>,
    geometry: Geometry,
}

/// Squeeze and excitation: weighs channels by their means.
#[derive(Debug)]
struct SqueezeExcitation {
    fc: [Linear; 2],
}

#[derive(Debug)]
struct SeBasicBlock {
    conv1: Conv2d,
    bn1: BatchNorm,
    conv2: Conv2d,
    bn2: BatchNorm,
    se: SqueezeExcitation,
    downsample: Option<(Conv2d, BatchNorm)>,
}

/// The attention weights of frames, channel by channel.
#[derive(Debug)]
struct AttentivePooling {
    down: Linear,
    norm: BatchNorm,
    up: Linear,
}

#[derive(Debug)]
pub struct SpeakerEncoder {
    config: SpeakerEncoderConfig,
    mel: MelSpectrogram,
    conv1: Conv2d,
    bn1: BatchNorm,
    blocks: Vec<SeBasicBlock>,
    attention: AttentivePooling,
    fc: Linear,
}

impl BatchNorm {
    fn load(mut scope: Scope, channels: i64) -> Result<BatchNorm, TorchError> {
        let mut take = |name: &str| scope.take(name, &[channels]);
        let (weight, bias) = (take("weight")?, take("bias")?);
        let (mean, variance) = (take("running_mean")?, take("running_var")?);
        if variance.min().double_value(&[]) < 0.0 {
            let name = scope.full_name("running_var");
            return Err(TorchError::Model(format!("`{name}` holds a negative variance")));
        }
        let factor = weight / (variance + NORM_EPS).sqrt();
        let shift = bias - mean * &factor;
        Ok(BatchNorm { factor, shift })
    }

    /// [B, C, ..].
    fn forward(&self, x: &Tensor) -> Tensor {
        let shape: Vec<i64> = (0..x.dim()).map(|axis| if axis == 1 { -1 } else { 1 }).collect();
        let along = |tensor: &Tensor| tensor.view(shape.as_slice());
        x * along(&self.factor) + along(&self.shift)
    }
}

impl Conv2d {
    fn load(
        mut scope: Scope,
        [inputs, outputs]: [i64; 2],
        (kernel, stride): (i64, i64),
        has_bias: bool,
    ) -> Result<Conv2d, TorchError> {
        let weight = scope.take("weight", &[outputs, inputs, kernel, kernel])?;
        let bias = has_bias.then(|| scope.take("bias", &[outputs])).transpose()?;
        let geometry = Geometry { stride, padding: kernel / 2, ..Geometry::default() };
        Ok(Conv2d { weight, bias, geometry })
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        self.geometry.convolve_planes(x, &self.weight, self.bias.as_ref())
    }
}

impl SqueezeExcitation {
    fn load(mut scope: Scope, channels: i64) -> Result<SqueezeExcitation, TorchError> {
        let inner = channels / REDUCTION;
        let down = Linear::load(&mut scope.under("fc.0"), channels, inner, true)?;
        let up = Linear::load(&mut scope.under("fc.2"), inner, channels, true)?;
        Ok(SqueezeExcitation { fc: [down, up] })
    }

    /// [B, C, H, W].
    fn forward(&self, x: &Tensor) -> Tensor {
        let [down, up] = &self.fc;
        let average = x.mean_dim([2i64, 3].as_slice(), false, Kind::Float); // [B, C]
        let inner = down.forward(&average, Pass::Evaluate).relu();
        let weight = up.forward(&inner, Pass::Evaluate).sigmoid();
        x * weight.unsqueeze(2).unsqueeze(3)
    }
}

impl SeBasicBlock {
    fn load(mut scope: Scope, channels: [i64; 2], stride: i64) -> Result<SeBasicBlock, TorchError> {
        let wide = [channels[1]; 2];
        let downsample = if stride == 1 && channels[0] == channels[1] {
            None
        } else {
            let conv = Conv2d::load(scope.under("downsample.0"), channels, (1, stride), false)?;
            Some((conv, BatchNorm::load(scope.under("downsample.1"), channels[1])?))
        };
        Ok(SeBasicBlock {
            conv1: Conv2d::load(scope.under("conv1"), channels, (3, stride), false)?,
            bn1: BatchNorm::load(scope.under("bn1"), channels[1])?,
            conv2: Conv2d::load(scope.under("conv2"), wide, (3, 1), false)?,
            bn2: BatchNorm::load(scope.under("bn2"), channels[1])?,
            se: SqueezeExcitation::load(scope.under("se"), channels[1])?,
            downsample,
        })
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        // The norm comes after the activation, unlike in most networks of this kind.
        let inner = self.bn1.forward(&self.conv1.forward(x).relu());
        let inner = self.se.forward(&self.bn2.forward(&self.conv2.forward(&inner)));
        let beside = match &self.downsample {
            Some((conv, norm)) => norm.forward(&conv.forward(x)),
            None => x.shallow_clone(),
        };
        (inner + beside).relu()
    }
}

impl AttentivePooling {
    fn load(mut scope: Scope, channels: i64) -> Result<AttentivePooling, TorchError> {
        Ok(AttentivePooling {
            down: pointwise(scope.under("0"), channels, ATTENTION)?,
            norm: BatchNorm::load(scope.under("2"), ATTENTION)?,
            up: pointwise(scope.under("3"), ATTENTION, channels)?,
        })
    }

    /// [B, C, T] to weights of the same shape that sum to 1 over the frames.
    fn forward(&self, x: &Tensor) -> Tensor {
        let inner = self.down.forward(&x.transpose(1, 2), Pass::Evaluate).relu();
        let inner = self.norm.forward(&inner.transpose(1, 2)).transpose(1, 2);
        let scores = self.up.forward(&inner, Pass::Evaluate).transpose(1, 2);
        scores.softmax(2, Kind::Float)
    }
}

/// A convolution of kernel size one.
fn pointwise(mut scope: Scope, inputs: i64, outputs: i64) -> Result<Linear, TorchError> {
    let weight = scope.take("weight", &[outputs, inputs, 1])?.squeeze_dim(2);
    Ok(Linear { weight, bias: Some(scope.take("bias", &[outputs])?), adapter: None })
}

impl SpeakerEncoder {
    /// Weights under the names below `speaker_encoder`; tables that follow from the configuration
    /// are ignored.
    pub fn load(
        config: &SpeakerEncoderConfig,
        weights: Weights,
        device: Device,
    ) -> Result<SpeakerEncoder, TorchError> {
        let mut weights = weights.filtered(|name| !is_derived(name)).usable(device)?;
        let mut blocks = Vec::new();
        let mut inputs = config.channels[0];
        for (stage, (count, channels)) in config.blocks.iter().zip(config.channels).enumerate() {
            for at in 0..*count {
                let stride = if stage > 0 && at == 0 { 2 } else { 1 };
                let scope = weights.under(&format!("layer{}.{at}", stage + 1));
                blocks.push(SeBasicBlock::load(scope, [inputs, channels], stride)?);
                inputs = channels;
            }
        }
        let pooled = config.pooled();
        let (window, filters) = (config.hamming_window(), config.mel_filters());
        let mel = MelSpectrogram::new([config.n_fft, config.hop], &window, &filters, device);
        let encoder = SpeakerEncoder {
            mel,
            conv1: Conv2d::load(weights.under("conv1"), [1, config.channels[0]], (3, 1), true)?,
            bn1: BatchNorm::load(weights.under("bn1"), config.channels[0])?,
            blocks,
            attention: AttentivePooling::load(weights.under("attention"), pooled)?,
            fc: Linear::load(&mut weights.under("fc"), 2 * pooled, config.width, true)?,
            config: config.clone(),
        };
        weights.finish()?;
        Ok(encoder)
    }

    /// Waves [B, L] at any rate to vectors [B, width] of length 1.
    pub fn forward(&self, waves: &Tensor, sample_rate: i64) -> Result<Tensor, TorchError> {
        let waves = resample(waves, sample_rate, self.config.sample_rate);
        let mel = self.mel.forward(&self.emphasised(&waves)?)?;
        let mel = (mel + LOG_FLOOR).log(); // [B, mels, T]
        let none = None::<&Tensor>;
        let normal = mel.instance_norm(none, none, none, none, true, 0.0, NORM_EPS, true);
        let mut x = self.conv1.forward(&normal.unsqueeze(1)).relu();
        x = self.bn1.forward(&x); // [B, C, mels, T]
        for block in &self.blocks {
            x = block.forward(&x);
        }
        let pooled = self.pooled(&x.flatten(1, 2));
        let vector = self.fc.forward(&pooled, Pass::Evaluate);
        let length = vector.square().sum_dim_intlist(1i64, true, Kind::Float).sqrt();
        Ok(vector / length.clamp_min(LEAST_LENGTH))
    }

    /// Pre-emphasis: each sample minus a part of the previous one.
    fn emphasised(&self, waves: &Tensor) -> Result<Tensor, TorchError> {
        let length = waves.size2()?.1;
        if length < 2 {
            return Err(TorchError::Input(format!(
                "a wave of {length} samples is too short for a speaker embedding"
            )));
        }
        // The sample before the first one is the second one: the wave is reflected.
        let second = waves.narrow(1, 1, 1);
        let before = Tensor::cat(&[&second, &waves.narrow(1, 0, length - 1)], 1);
        Ok(waves - before * self.config.preemphasis)
    }

    /// Weighted mean and deviation of the frames: [B, C, T] to [B, 2 C].
    fn pooled(&self, x: &Tensor) -> Tensor {
        let weight = self.attention.forward(x);
        let sum = |x: Tensor| x.sum_dim_intlist(2i64, false, Kind::Float);
        let mean = sum(x * &weight);
        let square = sum(x.square() * &weight);
        let variance = (square - mean.square()).clamp_min(LEAST_VARIANCE);
        Tensor::cat(&[mean, variance.sqrt()], 1)
    }
}

fn is_derived(name: &str) -> bool {
    name.starts_with("torch_spec.") || name.ends_with(".num_batches_tracked")
}
