//! The codec as one model: encoder, quantizer, decoder.

use tch::{Kind, Tensor};

use super::DacConfig;
use super::conv::{DacConv, DacLayer, Past, ResidualUnit, Snake, TransposedConv};
use super::quantizer::Quantizer;
use super::trace::Trace;
use super::transformer::Transformer;
use crate::error::TorchError;
use crate::nn::weights::Weights;

/// Dilations of the three residual units of a block.
const DILATIONS: [i64; 3] = [1, 3, 9];

#[derive(Debug)]
pub struct DacModel {
    frame: i64,
    steps: i64,
    /// The first parts, up to the first transformer, process waves in chunks.
    encoder: Vec<EncoderPart>,
    quantizer: Quantizer,
    decoder: Vec<Vec<DacLayer>>,
}

/// A part of the encoder: the first convolution, a block, or the last layers.
#[derive(Debug)]
struct EncoderPart {
    layers: Vec<DacLayer>,
    transformer: Option<Transformer>,
}

impl DacModel {
    pub fn new(weights: &Weights, config: &DacConfig) -> Result<DacModel, TorchError> {
        Ok(DacModel {
            frame: config.frame(),
            steps: config.steps(),
            encoder: encoder(weights, config)?,
            quantizer: Quantizer::new(weights, config)?,
            decoder: decoder(weights, config)?,
        })
    }

    /// Encodes waves [B, 1, whole frames], the longest first, to codes [B, codebooks, T]. `frames`
    /// are the valid frames of each; the wave goes through in chunks of at most `piece` frames,
    /// without clips that have ended.
    pub fn encode(
        &self,
        waves: &Tensor,
        frames: &[i64],
        piece: i64,
        trace: &mut Trace,
    ) -> Result<Tensor, TorchError> {
        let whole = self.encoder.iter().position(|part| part.transformer.is_some());
        let (pieces, whole) = self.encoder.split_at(whole.unwrap_or(self.encoder.len()));
        let total = waves.size()[2] / self.frame;
        let mut past = Past::default();
        let mut steps: Option<Tensor> = None;
        for start in (0..total).step_by(piece.max(1) as usize) {
            let count = piece.min(total - start);
            let active = frames.iter().filter(|frames| **frames > start).count() as i64;
            let wave = waves.narrow(0, 0, active);
            let wave = wave.narrow(2, start * self.frame, count * self.frame);
            past.begin();
            let part = run(pieces, 0, wave.contiguous(), &mut past, trace);
            if start == 0 && count == total {
                steps = Some(part);
                break;
            }
            let (_, channels, length) = part.size3()?;
            let scale = length / count;
            let all = match steps.take() {
                Some(all) => all,
                None => {
                    let shape = [frames.len() as i64, channels, total * scale];
                    Tensor::zeros(shape, (Kind::Float, part.device()))
                }
            };
            all.narrow(0, 0, active).narrow(2, start * scale, length).copy_(&part);
            steps = Some(all);
        }
        let steps = steps.ok_or_else(|| TorchError::Input("the audio has no samples".into()))?;
        let latents = run(whole, pieces.len(), steps, &mut Past::default(), trace);
        Ok(self.quantizer.codes(&latents, trace))
    }

    /// Decodes codes [1, codebooks, T] to a wave, passed on in chunks of at most this number of
    /// frames.
    pub fn decode(
        &self,
        codes: &Tensor,
        piece: i64,
        trace: &mut Trace,
        give: &mut dyn FnMut(Tensor),
    ) {
        let latents = self.quantizer.latents(codes, trace);
        let total = latents.size()[2];
        let piece = piece.max(1) * self.steps;
        let mut past = Past::default();
        for start in (0..total).step_by(piece as usize) {
            let mut wave = latents.narrow(2, start, piece.min(total - start));
            past.begin();
            for (at, layers) in self.decoder.iter().enumerate() {
                for layer in layers {
                    wave = layer.forward(wave, &mut past);
                }
                trace.see("decoder", at, &wave);
            }
            give(wave.tanh_());
        }
    }
}

fn run(
    parts: &[EncoderPart],
    first: usize,
    mut steps: Tensor,
    past: &mut Past,
    trace: &mut Trace,
) -> Tensor {
    for (at, part) in parts.iter().enumerate() {
        for layer in &part.layers {
            steps = layer.forward(steps, past);
        }
        if let Some(transformer) = &part.transformer {
            steps = transformer.forward(&steps);
        }
        trace.see("encoder", first + at, &steps);
    }
    steps
}

fn encoder(weights: &Weights, config: &DacConfig) -> Result<Vec<EncoderPart>, TorchError> {
    let first = DacLayer::Conv(DacConv::new(weights, "encoder.block.0.conv")?);
    let mut parts = vec![EncoderPart { layers: vec![first], transformer: None }];
    for (level, rate) in config.encoder_rates.iter().enumerate() {
        let name = format!("encoder.block.{}.block", level + 1);
        let mut layers = units(weights, &name, 0)?;
        layers.push(DacLayer::Snake(Snake::new(weights, &format!("{name}.3"))?));
        let conv = DacConv::new(weights, &format!("{name}.4.conv"))?;
        layers.push(DacLayer::Conv(conv.with_stride(*rate)));
        let transformer = config.encoder_module(level);
        let transformer =
            transformer.map(|config| Transformer::new(weights, &format!("{name}.5"), &config));
        parts.push(EncoderPart { layers, transformer: transformer.transpose()? });
    }
    let last = config.encoder_rates.len() + 1;
    let snake = Snake::new(weights, &format!("encoder.block.{last}"))?;
    let conv = DacConv::new(weights, &format!("encoder.block.{}.conv", last + 1))?;
    parts.push(EncoderPart {
        layers: vec![DacLayer::Snake(snake), DacLayer::Conv(conv)],
        transformer: None,
    });
    Ok(parts)
}

fn decoder(weights: &Weights, config: &DacConfig) -> Result<Vec<Vec<DacLayer>>, TorchError> {
    let mut parts = vec![vec![DacLayer::Conv(DacConv::new(weights, "decoder.model.0.conv")?)]];
    for (level, rate) in config.decoder_rates.iter().enumerate() {
        let name = format!("decoder.model.{}.block", level + 1);
        let conv = TransposedConv::new(weights, &format!("{name}.1.conv"), *rate)?;
        let snake = Snake::new(weights, &format!("{name}.0"))?;
        let mut layers = vec![DacLayer::Snake(snake), DacLayer::Transposed(conv)];
        layers.extend(units(weights, &name, 2)?);
        parts.push(layers);
    }
    let last = config.decoder_rates.len() + 1;
    let snake = Snake::new(weights, &format!("decoder.model.{last}"))?;
    let conv = DacConv::new(weights, &format!("decoder.model.{}.conv", last + 1))?;
    parts.push(vec![DacLayer::Snake(snake), DacLayer::Conv(conv)]);
    Ok(parts)
}

/// The residual units of a block, from this number on.
fn units(weights: &Weights, name: &str, first: usize) -> Result<Vec<DacLayer>, TorchError> {
    let unit = |(at, dilation): (usize, i64)| {
        ResidualUnit::new(weights, &format!("{name}.{}", first + at), dilation).map(DacLayer::Unit)
    };
    DILATIONS.into_iter().enumerate().map(unit).collect()
}
