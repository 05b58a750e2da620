//! The discrete VAE: mel spectrograms to codes, and codes back to mel spectrograms.

use stage_families::xtts::DvaeConfig;
use tch::{Device, Tensor};

use crate::conv::{Conv, Shape};
use crate::error::TorchError;
use crate::weights::{Weights, is_finite, usable};

/// The kernel size of the strided convolutions.
const KERNEL: i64 = 3;
/// More levels would reduce a clip to nothing.
const MOST_LAYERS: i64 = 8;

#[derive(Debug)]
struct ResidualBlock {
    net: [Conv; 3],
}

#[derive(Debug)]
struct Encoder {
    convs: Vec<Conv>,
    blocks: Vec<ResidualBlock>,
    project: Conv,
}

#[derive(Debug)]
struct Decoder {
    project: Conv,
    blocks: Vec<ResidualBlock>,
    /// Each after an upsampling of the frames by two.
    convs: Vec<Conv>,
    last: Conv,
}

#[derive(Debug)]
pub struct Dvae {
    encoder: Encoder,
    decoder: Decoder,
    /// [codebook width, codes].
    embed: Tensor,
}

impl ResidualBlock {
    fn load(weights: &mut Weights, name: &str, channels: i64) -> Result<Self, TorchError> {
        let mut conv = |at: usize, kernel: i64| {
            let shape = Shape::new(channels, channels, kernel);
            Conv::load(weights.under(&format!("{name}.net.{at}")), shape)
        };
        Ok(ResidualBlock { net: [conv(0, KERNEL)?, conv(2, KERNEL)?, conv(4, 1)?] })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor, TorchError> {
        let [first, second, third] = &self.net;
        let y = second.forward(&first.forward(x)?.relu())?.relu();
        Ok(third.forward(&y)? + x)
    }
}

impl Encoder {
    fn load(weights: &mut Weights, config: &DvaeConfig, mels: i64) -> Result<Encoder, TorchError> {
        let (layers, blocks) = (config.layers, config.residual_blocks);
        let mut inputs = mels;
        let convs = (0..layers).map(|level| {
            let outputs = config.hidden << level;
            let shape = Shape::new(inputs, outputs, KERNEL).strided(2);
            inputs = outputs;
            Conv::load(weights.under(&format!("encoder.{level}.0")), shape)
        });
        let convs = convs.collect::<Result<_, TorchError>>()?;
        let block =
            |at: i64| ResidualBlock::load(weights, &format!("encoder.{}", layers + at), inputs);
        let block_list = (0..blocks).map(block).collect::<Result<_, TorchError>>()?;
        let project = Shape::new(inputs, config.codebook_width, 1);
        let scope = weights.under(&format!("encoder.{}", layers + blocks));
        Ok(Encoder { convs, blocks: block_list, project: Conv::load(scope, project)? })
    }

    /// [B, mels, T] to [B, codebook width, T / 2^layers, rounded up].
    fn forward(&self, mel: &Tensor) -> Result<Tensor, TorchError> {
        let mut x = mel.shallow_clone();
        for conv in &self.convs {
            x = conv.forward(&x)?.relu();
        }
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        self.project.forward(&x)
    }
}

impl Decoder {
    fn load(weights: &mut Weights, config: &DvaeConfig, mels: i64) -> Result<Decoder, TorchError> {
        let (layers, blocks) = (config.layers, config.residual_blocks);
        let mut inputs = config.hidden << (layers - 1);
        let project = Shape::new(config.codebook_width, inputs, 1);
        let project = Conv::load(weights.under("decoder.0"), project)?;
        let block = |at: i64| ResidualBlock::load(weights, &format!("decoder.{}", 1 + at), inputs);
        let block_list = (0..blocks).map(block).collect::<Result<_, TorchError>>()?;
        let convs = (0..layers).map(|step| {
            let outputs = config.hidden << (layers - 1 - step);
            let shape = Shape::new(inputs, outputs, KERNEL);
            inputs = outputs;
            Conv::load(weights.under(&format!("decoder.{}.0.conv", 1 + blocks + step)), shape)
        });
        let convs = convs.collect::<Result<_, TorchError>>()?;
        let last = Shape::new(inputs, mels, 1);
        let scope = weights.under(&format!("decoder.{}", 1 + blocks + layers));
        Ok(Decoder { project, blocks: block_list, convs, last: Conv::load(scope, last)? })
    }

    /// [B, codebook width, N] to [B, mels, N * 2^layers].
    fn forward(&self, embedded: &Tensor) -> Result<Tensor, TorchError> {
        let mut x = self.project.forward(embedded)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        for conv in &self.convs {
            let doubled = x.f_repeat_interleave_self_int(2, 2, None)?;
            x = conv.forward(&doubled)?.relu();
        }
        self.last.forward(&x)
    }
}

impl Dvae {
    /// Takes the tensors of `dvae.pth`: those for its training are ignored, the others become
    /// floats of 32 bits on the device.
    pub fn prepare(weights: Weights, device: Device) -> Result<Weights, TorchError> {
        let needed = weights.into_iter().filter(|(name, _)| !is_of_training(name));
        let usable = |(name, tensor): (String, Tensor)| {
            let tensor = usable(&name, tensor, device)?;
            Ok((name, tensor))
        };
        needed.map(usable).collect()
    }

    /// Weights from [`Dvae::prepare`].
    pub fn load(config: &DvaeConfig, mels: i64, mut weights: Weights) -> Result<Dvae, TorchError> {
        if !(1..=MOST_LAYERS).contains(&config.layers) || config.residual_blocks < 0 {
            let layers = config.layers;
            let text = format!("a DVAE of {layers} layers, expected 1 to {MOST_LAYERS}");
            return Err(TorchError::Model(text));
        }
        let dvae = Dvae {
            encoder: Encoder::load(&mut weights, config, mels)?,
            decoder: Decoder::load(&mut weights, config, mels)?,
            embed: weights.take("codebook.embed", &[config.codebook_width, config.codes])?,
        };
        weights.finish()?;
        Ok(dvae)
    }

    pub fn device(&self) -> Device {
        self.embed.device()
    }

    /// Log-mel frames [B, mels, T] to codes [B, T / 2^layers, rounded up].
    pub fn encode(&self, mel: &Tensor) -> Result<Tensor, TorchError> {
        let x = self.encoder.forward(mel)?.f_transpose(1, 2)?; // [B, N, width]
        // The norm of `x` does not change the minimum, but it makes distances round as in the
        // original.
        let length = x.f_square()?.f_sum_dim_intlist(2i64, true, x.kind())?;
        let lengths = self.embed.f_square()?.f_sum_dim_intlist(0i64, true, x.kind())?;
        let distances = (length - x.f_matmul(&self.embed)? * 2.0) + lengths;
        match is_finite(&distances)? {
            true => Ok(distances.f_argmin(2, false)?),
            false => Err(TorchError::Model(
                "the output of its DVAE for a clip is not finite: check the DVAE and `mel_stats`"
                    .into(),
            )),
        }
    }

    /// Codes [B, N] to log-mel frames [B, mels, N * 2^layers].
    pub fn decode(&self, codes: &Tensor) -> Result<Tensor, TorchError> {
        let rows = Tensor::f_embedding(&self.embed.f_transpose(0, 1)?, codes, -1, false, false)?;
        self.decoder.forward(&rows.f_transpose(1, 2)?)
    }
}

fn is_of_training(name: &str) -> bool {
    name.starts_with("discrete_loss.")
        || ["codebook.cluster_size", "codebook.embed_avg"].contains(&name)
}
