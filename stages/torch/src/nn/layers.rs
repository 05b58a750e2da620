//! Small layers that transformers share; fields are named like the tensors in model files.

use tch::{Device, Kind, Tensor};

use crate::error::{InTch, TorchError};
use crate::nn::random::scramble;
use crate::nn::weights::Scope;
use crate::runtime::shim::{self, Mask};

/// The mode of a forward pass: dropout on or off, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Evaluate,
    /// The same seed drops the same entries, so that a pass can be recomputed.
    Train {
        seed: u64,
    },
}

/// y = W x + b, plus the output of an adapter.
#[derive(Debug)]
pub struct Linear {
    pub weight: Tensor,
    pub bias: Option<Tensor>,
    pub adapter: Option<Adapter>,
}

/// y = x W + b, plus the output of an adapter: a linear layer with its weight stored as [inputs,
/// outputs], as in GPT-2.
#[derive(Debug)]
pub struct Conv1D {
    /// [inputs, outputs].
    pub weight: Tensor,
    pub bias: Tensor,
    pub adapter: Option<Adapter>,
}

/// Rows of a table, plus those of an adapter.
#[derive(Debug)]
pub struct Embedding {
    pub weight: Tensor,
    pub adapter: Option<Adapter>,
}

/// A low-rank update: `scaling * B A`, with dropout before A if it adapts a [`Linear`] or a
/// [`Conv1D`].
#[derive(Debug)]
pub struct Adapter {
    /// [rank, inputs].
    pub a: Tensor,
    /// [outputs, rank].
    pub b: Tensor,
    pub scaling: f64,
    pub dropout: f64,
    /// Separates the dropout of adapters in the same pass.
    pub stream: u64,
}

/// RMSNorm: divides by the root of the mean square in single precision, then casts back and
/// multiplies by the weight.
#[derive(Debug)]
pub struct RmsNorm {
    pub weight: Tensor,
    pub eps: f64,
}

/// Layer norm: normalises a row to mean 0 and variance 1, then scales and shifts it.
#[derive(Debug)]
pub struct LayerNorm {
    pub weight: Tensor,
    pub bias: Tensor,
    pub eps: f64,
}

/// The feed-forward layer of a block: w2(silu(w1 x) * w3 x).
#[derive(Debug)]
pub struct SwiGlu {
    pub w1: Linear,
    pub w2: Linear,
    pub w3: Linear,
}

/// LayerScale: a weight for each channel of a branch.
#[derive(Debug)]
pub struct LayerScale {
    pub gamma: Tensor,
}

impl Linear {
    pub fn load(
        scope: &mut Scope,
        inputs: i64,
        outputs: i64,
        bias: bool,
    ) -> Result<Linear, TorchError> {
        let weight = scope.take("weight", &[outputs, inputs])?;
        let bias = bias.then(|| scope.take("bias", &[outputs])).transpose()?;
        Ok(Linear { weight, bias, adapter: None })
    }

    pub fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        let y = x.linear(&self.weight, self.bias.as_ref());
        match &self.adapter {
            Some(adapter) => y + adapter.of_input(x, pass),
            None => y,
        }
    }
}

impl Linear {
    /// The layer for only some of the outputs; it shares its memory with this one.
    pub fn rows(&self, start: i64, length: i64) -> Linear {
        let narrow = |tensor: &Tensor| tensor.narrow(0, start, length);
        let adapter = self.adapter.as_ref().map(|adapter| Adapter {
            a: adapter.a.shallow_clone(),
            b: narrow(&adapter.b),
            ..*adapter
        });
        Linear { weight: narrow(&self.weight), bias: self.bias.as_ref().map(narrow), adapter }
    }
}

impl Conv1D {
    pub fn load(scope: &mut Scope, inputs: i64, outputs: i64) -> Result<Conv1D, TorchError> {
        let weight = scope.take("weight", &[inputs, outputs])?;
        Ok(Conv1D { weight, bias: scope.take("bias", &[outputs])?, adapter: None })
    }

    pub fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        let y = x.linear(&self.weight.tr(), Some(&self.bias));
        match &self.adapter {
            Some(adapter) => y + adapter.of_input(x, pass),
            None => y,
        }
    }
}

impl Embedding {
    pub fn load(scope: &mut Scope, rows: i64, width: i64) -> Result<Embedding, TorchError> {
        Ok(Embedding { weight: scope.take("weight", &[rows, width])?, adapter: None })
    }

    /// Any shape of row indices; the width is appended to it.
    pub fn forward(&self, rows: &Tensor) -> Tensor {
        let y = Tensor::embedding(&self.weight, rows, -1, false, false);
        match &self.adapter {
            Some(adapter) => adapter.of_rows(rows).to_kind(y.kind()) + y,
            None => y,
        }
    }
}

impl Adapter {
    /// The change of a linear layer's output. The adapter may be of higher precision than the
    /// layer; the change has the precision of `x`.
    pub fn of_input(&self, x: &Tensor, pass: Pass) -> Tensor {
        let x = match pass {
            Pass::Train { seed } if self.dropout > 0.0 => {
                &dropout(x, self.dropout, scramble(seed ^ self.stream))
            }
            _ => x,
        };
        let change = x.to_kind(self.a.kind()).linear(&self.a, None::<&Tensor>);
        let change = change.linear(&self.b, None::<&Tensor>) * self.scaling;
        change.to_kind(x.kind())
    }

    /// The change of the rows of an embedding.
    pub fn of_rows(&self, rows: &Tensor) -> Tensor {
        let low = Tensor::embedding(&self.a.tr(), rows, -1, false, false);
        low.linear(&self.b, None::<&Tensor>) * self.scaling
    }
}

impl RmsNorm {
    pub fn load(scope: &mut Scope, width: i64, eps: f64) -> Result<RmsNorm, TorchError> {
        Ok(RmsNorm { weight: scope.take("weight", &[width])?, eps })
    }

    pub fn forward(&self, x: &Tensor) -> Tensor {
        // One kernel in place of seven, and two in place of fifteen for the gradients. It rounds
        // once in half precision, not twice.
        if x.device().is_cuda() {
            return x.rms_norm(self.weight.size(), Some(&self.weight), self.eps);
        }
        let wide = x.to_kind(Kind::Float);
        let square = (&wide * &wide).mean_dim(-1, true, Kind::Float);
        let normal = &wide * (square + self.eps).rsqrt();
        normal.to_kind(x.kind()) * &self.weight
    }
}

impl LayerNorm {
    pub fn load(scope: &mut Scope, width: i64, eps: f64) -> Result<LayerNorm, TorchError> {
        let (weight, bias) = (scope.take("weight", &[width])?, scope.take("bias", &[width])?);
        Ok(LayerNorm { weight, bias, eps })
    }

    /// [.., C], over the last axis.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm(self.weight.size(), Some(&self.weight), Some(&self.bias), self.eps, true)
    }
}

impl SwiGlu {
    pub fn load(scope: &mut Scope, width: i64, inner: i64) -> Result<SwiGlu, TorchError> {
        Ok(SwiGlu {
            w1: Linear::load(&mut scope.under("w1"), width, inner, false)?,
            w2: Linear::load(&mut scope.under("w2"), inner, width, false)?,
            w3: Linear::load(&mut scope.under("w3"), width, inner, false)?,
        })
    }

    pub fn forward(&self, x: &Tensor, pass: Pass) -> Tensor {
        let gate = self.w1.forward(x, pass).silu();
        self.w2.forward(&(gate * self.w3.forward(x, pass)), pass)
    }
}

impl LayerScale {
    pub fn load(scope: &mut Scope, width: i64) -> Result<LayerScale, TorchError> {
        Ok(LayerScale { gamma: scope.take("gamma", &[width])? })
    }

    pub fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.gamma
    }
}

/// Repeats each head, so that key or value heads serve more query heads: `axis` has `times` as
/// many.
pub fn repeat_heads(x: &Tensor, axis: usize, times: i64) -> Tensor {
    if times == 1 {
        return x.shallow_clone();
    }
    let mut size = x.size();
    size.insert(axis + 1, times);
    let axis = axis as i64;
    x.unsqueeze(axis + 1).expand(size, false).flatten(axis, axis + 1)
}

/// Dropout: zeroes entries with a probability and scales the rest. The mask depends only on the
/// seed and the positions, neither on the device nor on other random numbers.
pub fn dropout(x: &Tensor, probability: f64, seed: u64) -> Tensor {
    let threshold = i32::MIN as f64 + probability * 2f64.powi(32);
    let mask = Mask {
        rows: scramble(seed),
        columns: scramble(!seed),
        threshold: threshold as i32,
        rest: 1.0 - probability,
    };
    match shim::dropped(x, mask) {
        Err(TorchError::Library(_)) if x.device() != Device::Cpu => dropped_by_host(x, mask),
        result => result.in_tch(),
    }
}

/// The same with the mask from the host: a GPU may lack the compiler for the kernel, and it takes
/// fewer rows and columns.
fn dropped_by_host(x: &Tensor, mask: Mask) -> Tensor {
    let ones = Tensor::ones(x.size(), (Kind::Float, Device::Cpu));
    let keep = shim::dropped(&ones, Mask { rest: 1.0, ..mask }).in_tch();
    x * keep.to_device(x.device()).to_kind(x.kind()) / mask.rest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tch::IndexOp;

    const CPU: (Kind, Device) = (Kind::Float, Device::Cpu);

    #[test]
    fn an_adapter_adds_its_product_to_the_weight() {
        let adapter = || Adapter {
            a: Tensor::from_slice(&[1f32, 2.0, 3.0]).view([1, 3]),
            b: Tensor::from_slice(&[0.5f32, -1.0]).view([2, 1]),
            scaling: 2.0,
            dropout: 0.5,
            stream: 0,
        };
        let weight = Tensor::randn([2, 3], CPU);
        let merged = &weight + adapter().b.matmul(&adapter().a) * 2.0;
        let x = Tensor::randn([4, 3], CPU);
        let linear = Linear { weight, bias: None, adapter: Some(adapter()) };
        let far = (linear.forward(&x, Pass::Evaluate) - x.linear(&merged, None::<&Tensor>)).abs();
        assert!(far.max().double_value(&[]) < 1e-5);

        let (weight, bias) = (merged.tr(), Tensor::randn([2], CPU));
        let expected = x.linear(&merged, Some(&bias));
        let weight = weight - adapter().b.matmul(&adapter().a).tr() * 2.0;
        let conv = Conv1D { weight, bias, adapter: Some(adapter()) };
        let far = (conv.forward(&x, Pass::Evaluate) - expected).abs();
        assert!(far.max().double_value(&[]) < 1e-5);

        let table = Tensor::randn([3, 2], CPU);
        let merged = &table + adapter().b.matmul(&adapter().a).tr() * 2.0;
        let embedding = Embedding { weight: table, adapter: Some(adapter()) };
        let rows = Tensor::from_slice(&[2i64, 0, 2]);
        let far = (embedding.forward(&rows) - merged.index_select(0, &rows)).abs();
        assert!(far.max().double_value(&[]) < 1e-6);
    }

    #[test]
    fn dropout_keeps_the_mean_and_repeats_itself() {
        let ones = Tensor::ones([4, 100, 256], CPU);
        for probability in [0.01, 0.1, 0.5] {
            let dropped = dropout(&ones, probability, 7);
            assert_eq!(dropped, dropout(&ones, probability, 7));
            assert_ne!(dropped, dropout(&ones, probability, 8));
            // Six standard deviations of the mean of 102,400 entries.
            let bound = 6.0 * (probability / (1.0 - probability) / 102_400.0).sqrt();
            assert!((dropped.mean(Kind::Float).double_value(&[]) - 1.0).abs() < bound);
        }
    }

    /// The bits of both devices: a GPU compiles the source that computes doubles on a CPU.
    #[test]
    fn a_device_drops_what_the_host_drops_and_so_does_the_gradient() {
        let kept = |probability: f64, seed: u64| {
            let number = |seed: u64, at: u64| scramble(scramble(seed).wrapping_add(at)) as i32;
            let is_kept = |row, column| {
                let mut mixed = number(seed, row).wrapping_add(number(!seed, column));
                for (shift, factor) in [(16, 0x85EB_CA6B_u32), (13, 0xC2B2_AE35)] {
                    mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor as i32);
                }
                f64::from(mixed) >= (i32::MIN as f64 + probability * 2f64.powi(32)).floor()
            };
            let entries = (0..36).flat_map(|row| (0..50).map(move |column| (row, column)));
            let keep: Vec<f32> =
                entries.map(|(row, column)| f32::from(is_kept(row, column))).collect();
            Tensor::from_slice(&keep).view([4, 9, 50])
        };
        for (probability, seed) in [(0.1, 0), (0.5, 7), (0.3, u64::MAX)] {
            let (kept, rest) = (kept(probability, seed), 1.0 - probability);
            for kind in [Kind::Float, Kind::BFloat16, Kind::Half, Kind::Double] {
                // Neither contiguous nor aligned with the columns.
                let x = Tensor::randn([4, 50, 9], CPU).to_kind(kind).transpose(1, 2);
                let x = x.detach().set_requires_grad(true);
                let dropped = dropout(&x, probability, seed);
                let expected = &x * kept.to_kind(kind) / rest;
                assert_eq!(dropped, expected, "{kind:?}");
                (&dropped * 3.0).sum(kind).backward();
                let gradient = kept.to_kind(kind) * 3.0 / rest;
                assert_eq!(x.grad(), gradient, "{kind:?}");
                let threshold = (i32::MIN as f64 + probability * 2f64.powi(32)) as i32;
                let (rows, columns) = (scramble(seed), scramble(!seed));
                let mask = Mask { rows, columns, threshold, rest };
                assert_eq!(dropped_by_host(&x, mask), expected, "{kind:?}");
            }
        }
        assert_eq!(dropout(&Tensor::zeros([0, 3], CPU), 0.5, 1).size(), [0, 3]);
    }

    #[test]
    fn dropout_is_not_alike_from_row_to_row() {
        let kept = dropout(&Tensor::ones([512, 512], CPU), 0.5, 3) - 1.0;
        for (left, right) in
            [(kept.i(..511), kept.i(1..)), (kept.i((.., ..511)), kept.i((.., 1..)))]
        {
            let alike = (left * right).mean(Kind::Float).double_value(&[]);
            assert!(alike.abs() < 6.0 / 512.0, "{alike}");
        }
    }

    #[test]
    fn heads_are_repeated_one_after_the_other() {
        let heads = Tensor::from_slice(&[1f32, 2.0]).view([1, 2, 1, 1]);
        let repeated = Vec::<f32>::try_from(repeat_heads(&heads, 1, 2).view(-1)).unwrap();
        assert_eq!(repeated, [1.0, 1.0, 2.0, 2.0]);
    }
}
