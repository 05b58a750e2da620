//! The discrete VAE: mel spectrograms to codes, and codes back to mel spectrograms.

use stage_families::xtts::DvaeConfig;
use tch::{Device, Tensor};

use crate::error::TorchError;
use crate::nn::conv::{Conv, Shape};
use crate::nn::weights::{Scope, Weights, is_finite};

/// The kernel size of the strided convolutions.
const KERNEL: i64 = 3;
/// More levels would reduce a clip to nothing.
const MOST_LAYERS: i64 = 8;

#[derive(Debug)]
enum DvaeLayer {
    /// Halves the frames.
    Down(Conv),
    Residual([Conv; 3]),
    /// Doubles the frames.
    Up(Conv),
    Plain(Conv),
}

#[derive(Debug)]
pub struct Dvae {
    encoder: Vec<DvaeLayer>,
    decoder: Vec<DvaeLayer>,
    /// [codebook width, codes].
    embed: Tensor,
}

impl DvaeLayer {
    fn residual(mut scope: Scope, channels: i64) -> Result<DvaeLayer, TorchError> {
        let mut conv = |at: usize, kernel: i64| {
            let shape = Shape::new(channels, channels, kernel);
            Conv::load(scope.under(&format!("net.{at}")), shape)
        };
        Ok(DvaeLayer::Residual([conv(0, KERNEL)?, conv(2, KERNEL)?, conv(4, 1)?]))
    }

    /// [B, C, T].
    fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            DvaeLayer::Down(conv) => conv.forward(x).relu(),
            DvaeLayer::Residual([first, second, third]) => {
                let y = second.forward(&first.forward(x).relu()).relu();
                third.forward(&y) + x
            }
            DvaeLayer::Up(conv) => conv.forward(&x.repeat_interleave_self_int(2, 2, None)).relu(),
            DvaeLayer::Plain(conv) => conv.forward(x),
        }
    }
}

/// Layers from [B, mels, T] to [B, codebook width, T / 2^layers, rounded up].
fn encoder(
    weights: &mut Weights,
    config: &DvaeConfig,
    mels: i64,
) -> Result<Vec<DvaeLayer>, TorchError> {
    let (mut layers, mut inputs) = (Vec::new(), mels);
    for level in 0..config.layers {
        let outputs = config.hidden << level;
        let shape = Shape::new(inputs, outputs, KERNEL).strided(2);
        layers.push(DvaeLayer::Down(Conv::load(
            weights.under(&format!("encoder.{level}.0")),
            shape,
        )?));
        inputs = outputs;
    }
    for _ in 0..config.residual_blocks {
        let scope = weights.under(&format!("encoder.{}", layers.len()));
        layers.push(DvaeLayer::residual(scope, inputs)?);
    }
    let scope = weights.under(&format!("encoder.{}", layers.len()));
    let project = Shape::new(inputs, config.codebook_width, 1);
    layers.push(DvaeLayer::Plain(Conv::load(scope, project)?));
    Ok(layers)
}

/// Layers from [B, codebook width, N] to [B, mels, N * 2^layers].
fn decoder(
    weights: &mut Weights,
    config: &DvaeConfig,
    mels: i64,
) -> Result<Vec<DvaeLayer>, TorchError> {
    let mut inputs = config.hidden << (config.layers - 1);
    let project = Shape::new(config.codebook_width, inputs, 1);
    let mut layers = vec![DvaeLayer::Plain(Conv::load(weights.under("decoder.0"), project)?)];
    for _ in 0..config.residual_blocks {
        let scope = weights.under(&format!("decoder.{}", layers.len()));
        layers.push(DvaeLayer::residual(scope, inputs)?);
    }
    for level in (0..config.layers).rev() {
        let outputs = config.hidden << level;
        let scope = weights.under(&format!("decoder.{}.0.conv", layers.len()));
        layers.push(DvaeLayer::Up(Conv::load(scope, Shape::new(inputs, outputs, KERNEL))?));
        inputs = outputs;
    }
    let scope = weights.under(&format!("decoder.{}", layers.len()));
    layers.push(DvaeLayer::Plain(Conv::load(scope, Shape::new(inputs, mels, 1))?));
    Ok(layers)
}

fn through(layers: &[DvaeLayer], x: &Tensor) -> Tensor {
    layers.iter().fold(x.shallow_clone(), |x, layer| layer.forward(&x))
}

impl Dvae {
    /// Takes the tensors of `dvae.pth`: those for its training are ignored, the others become
    /// floats of 32 bits on the device.
    pub fn prepare(weights: Weights, device: Device) -> Result<Weights, TorchError> {
        weights.filtered(|name| !is_of_training(name)).usable(device)
    }

    /// Weights from [`Dvae::prepare`].
    pub fn load(config: &DvaeConfig, mels: i64, mut weights: Weights) -> Result<Dvae, TorchError> {
        if !(1..=MOST_LAYERS).contains(&config.layers) || config.residual_blocks < 0 {
            let layers = config.layers;
            let text = format!("a DVAE of {layers} layers, expected 1 to {MOST_LAYERS}");
            return Err(TorchError::Model(text));
        }
        let dvae = Dvae {
            encoder: encoder(&mut weights, config, mels)?,
            decoder: decoder(&mut weights, config, mels)?,
            embed: weights.take("codebook.embed", &[config.codebook_width, config.codes])?,
        };
        weights.finish()?;
        Ok(dvae)
    }

    /// Log-mel frames [B, mels, T] to codes [B, T / 2^layers, rounded up].
    pub fn encode(&self, mel: &Tensor) -> Result<Tensor, TorchError> {
        let x = through(&self.encoder, mel).transpose(1, 2); // [B, N, width]
        // The norm of `x` does not change the minimum, but it makes distances round as in the
        // original.
        let length = x.square().sum_dim_intlist(2i64, true, x.kind());
        let lengths = self.embed.square().sum_dim_intlist(0i64, true, x.kind());
        let distances = (length - x.matmul(&self.embed) * 2.0) + lengths;
        if is_finite(&distances) {
            Ok(distances.argmin(2, false))
        } else {
            Err(TorchError::Model(
                "the output of its DVAE for a clip is not finite: check the DVAE and `mel_stats`"
                    .into(),
            ))
        }
    }

    /// Codes [B, N] to log-mel frames [B, mels, N * 2^layers].
    pub fn decode(&self, codes: &Tensor) -> Tensor {
        let rows = Tensor::embedding(&self.embed.transpose(0, 1), codes, -1, false, false);
        through(&self.decoder, &rows.transpose(1, 2))
    }
}

fn is_of_training(name: &str) -> bool {
    name.starts_with("discrete_loss.")
        || ["codebook.cluster_size", "codebook.embed_avg"].contains(&name)
}
