//! Between encoder and codes: downsampling, a transformer, and residual vector quantization, in
//! which each codebook encodes the residual of the previous ones.

use stage_families::dac::codebook_name;
use tch::Tensor;

use super::DacConfig;
use super::conv::{ConvNext, DacConv, Past, TransposedConv, take};
use super::trace::Trace;
use super::transformer::Transformer;
use crate::error::{InTch, TorchError};
use crate::nn::weights::Weights;

#[derive(Debug)]
pub struct Quantizer {
    down: Vec<(DacConv, ConvNext)>,
    before: Transformer,
    codebooks: Vec<Codebook>,
    after: Transformer,
    up: Vec<(TransposedConv, ConvNext)>,
}

impl Quantizer {
    pub fn new(weights: &Weights, config: &DacConfig) -> Result<Quantizer, TorchError> {
        let sizes = &config.quantizer;
        let (mut down, mut up) = (Vec::new(), Vec::new());
        for (at, factor) in sizes.downsample_factor.iter().enumerate() {
            let name = format!("quantizer.downsample.{at}");
            let conv = DacConv::new(weights, &format!("{name}.0.conv"))?.with_stride(*factor);
            down.push((conv, ConvNext::new(weights, &format!("{name}.1"))?));
        }
        for (at, factor) in sizes.downsample_factor.iter().rev().enumerate() {
            let name = format!("quantizer.upsample.{at}");
            let conv = TransposedConv::new(weights, &format!("{name}.0.conv"), *factor)?;
            up.push((conv, ConvNext::new(weights, &format!("{name}.1"))?));
        }
        let module = |name: &str, sizes| {
            Transformer::new(weights, &format!("quantizer.{name}_module"), sizes)
        };
        let codebooks = 0..=sizes.n_codebooks as usize;
        Ok(Quantizer {
            down,
            up,
            before: module("pre", &sizes.pre_module)?,
            after: module("post", &sizes.post_module)?,
            codebooks: codebooks.map(|at| Codebook::new(weights, at)).collect::<Result<_, _>>()?,
        })
    }

    /// Encoder output [B, C, steps * T] to codes [B, codebooks, T].
    pub fn codes(&self, latents: &Tensor, trace: &mut Trace) -> Tensor {
        let mut frames = latents.shallow_clone();
        for (at, (conv, block)) in self.down.iter().enumerate() {
            frames = block.forward(&conv.forward(&frames, &mut Past::default()));
            trace.see("downsample", at, &frames);
        }
        let mut left = self.before.forward(&frames); // [B, C, T]
        trace.see("pre_module", 0, &left);
        let mut codes = Vec::with_capacity(self.codebooks.len());
        for (at, codebook) in self.codebooks.iter().enumerate() {
            let (numbers, value) = codebook.encode(&left, at, trace);
            left = &left - &value;
            codes.push(numbers);
        }
        Tensor::stack(&codes, 1)
    }

    /// Codes [B, codebooks, T] to decoder input [B, C, steps * T].
    pub fn latents(&self, codes: &Tensor, trace: &mut Trace) -> Tensor {
        let value = |at: usize| self.codebooks[at].decode(&codes.select(1, at as i64));
        let mut frames = value(0);
        // The others are summed separately, as in the original: another order rounds differently.
        let mut others: Option<Tensor> = None;
        for at in 1..self.codebooks.len() {
            others = Some(match others {
                Some(sum) => sum.g_add(&value(at)),
                None => value(at),
            });
        }
        if let Some(others) = others {
            frames = &frames + others;
        }
        let mut steps = self.after.forward(&frames);
        trace.see("post_module", 0, &steps);
        for (at, (conv, block)) in self.up.iter().enumerate() {
            steps = block.forward(&conv.forward(&steps, &mut Past::default()));
            trace.see("upsample", at, &steps);
        }
        steps
    }
}

/// A table of short vectors; the one with the smallest angle is selected.
#[derive(Debug)]
struct Codebook {
    into: DacConv,
    out: DacConv,
    entries: Tensor,
    /// The entries normalised to length one, transposed: [dim, entries]; and their squares: [1,
    /// entries].
    directions: Tensor,
    squares: Tensor,
}

impl Codebook {
    fn new(weights: &Weights, at: usize) -> Result<Codebook, TorchError> {
        let name = codebook_name(at);
        let entries = take(weights, &format!("{name}.codebook.weight"))?;
        let directions = normalised(&entries);
        let squares = directions.square().sum_dim_intlist([1i64].as_slice(), true, None);
        Ok(Codebook {
            into: DacConv::new(weights, &format!("{name}.in_proj"))?,
            out: DacConv::new(weights, &format!("{name}.out_proj"))?,
            directions: directions.transpose(0, 1),
            entries,
            squares: squares.transpose(0, 1),
        })
    }

    /// The indices [B, T] of the entries nearest to [B, C, T], and their vectors: [B, C, T].
    fn encode(&self, input: &Tensor, at: usize, trace: &mut Trace) -> (Tensor, Tensor) {
        let short = self.into.forward(input, &mut Past::default()); // [B, D, T]
        trace.see("latent", at, &short);
        let (batch, _, length) = short.size3().in_tch();
        let rows = normalised(&short.transpose(1, 2).flatten(0, 1)); // [B * T, D]
        let distances = self.distances(&rows);
        let numbers = distances.argmin(1, false).reshape([batch, length]);
        let entries = self.entries(&numbers);
        // Not the entry itself: its sum with the rounding of the original's straight-through
        // estimator.
        let value = &short + (entries - &short);
        (numbers, self.out.forward(&value, &mut Past::default()))
    }

    fn distances(&self, rows: &Tensor) -> Tensor {
        let own = rows.square().sum_dim_intlist([1i64].as_slice(), true, None);
        let common = (rows * 2.0).matmul(&self.directions);
        (own - common).g_add_(&self.squares)
    }

    fn decode(&self, numbers: &Tensor) -> Tensor {
        self.out.forward(&self.entries(numbers), &mut Past::default())
    }

    /// [B, T] to [B, D, T].
    fn entries(&self, numbers: &Tensor) -> Tensor {
        let rows = Tensor::embedding(&self.entries, numbers, -1, false, false);
        rows.transpose(1, 2)
    }
}

/// Rows normalised to length one; nearly zero rows do not change.
fn normalised(rows: &Tensor) -> Tensor {
    let length = rows.norm_scalaropt_dim(2.0, [1i64].as_slice(), true).clamp_min(1e-12);
    rows / length
}
