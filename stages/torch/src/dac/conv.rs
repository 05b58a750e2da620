//! The causal convolutions of the codec and the layers built from them.
//!
//! A wave may be processed in chunks: [`Past`] keeps the end of each convolution's input, so that
//! the chunks give the same result as the whole. That bounds the memory of a long clip and keeps
//! the chunks in the processor's caches.

use tch::Tensor;

use crate::error::TorchError;
use crate::nn::convolution::Geometry;
use crate::nn::weights::Weights;

/// The ends of the previous inputs, in the order in which the convolutions run.
#[derive(Debug, Default)]
pub struct Past {
    ends: Vec<Tensor>,
    next: usize,
}

impl Past {
    /// Must be called before each chunk.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// The input with this number of previous columns, zeros at first: [B, C, width + L]. Rows of
    /// the batch may drop out from chunk to chunk, the last ones first.
    fn extend(&mut self, input: &Tensor, width: i64, right: i64) -> Tensor {
        let at = self.next;
        self.next += 1;
        let rows = input.size()[0];
        let extended = match self.ends.get(at) {
            None => input.constant_pad_nd([width, right]),
            Some(end) => {
                let joined = Tensor::cat(&[&end.narrow(0, 0, rows), input], 2);
                if right > 0 { joined.constant_pad_nd([0, right]) } else { joined }
            }
        };
        let end = extended.narrow(2, extended.size()[2] - right - width, width).contiguous();
        match self.ends.get_mut(at) {
            Some(slot) => *slot = end,
            None => self.ends.push(end),
        }
        extended
    }
}

/// A causal convolution.
#[derive(Debug)]
pub struct DacConv {
    weight: Tensor,
    bias: Tensor,
    stride: i64,
    dilation: i64,
    groups: i64,
}

impl DacConv {
    pub fn new(weights: &Weights, name: &str) -> Result<DacConv, TorchError> {
        let weight = take(weights, &format!("{name}.weight"))?;
        let bias = take(weights, &format!("{name}.bias"))?;
        Ok(DacConv { weight, bias, stride: 1, dilation: 1, groups: 1 })
    }

    pub fn with_stride(self, stride: i64) -> DacConv {
        DacConv { stride, ..self }
    }

    pub fn with_dilation(self, dilation: i64) -> DacConv {
        DacConv { dilation, ..self }
    }

    /// One filter per channel.
    fn depthwise(self) -> DacConv {
        DacConv { groups: self.weight.size()[0], ..self }
    }

    /// [B, C, L] to [B, D, ceil(L / stride)].
    pub fn forward(&self, input: &Tensor, past: &mut Past) -> Tensor {
        let reach = (self.weight.size()[2] - 1) * self.dilation + 1;
        let left = reach - self.stride;
        let right = (self.stride - input.size()[2] % self.stride) % self.stride;
        if left == 0 && right == 0 {
            self.apply(input)
        } else {
            self.apply(&past.extend(input, left, right))
        }
    }

    fn apply(&self, input: &Tensor) -> Tensor {
        let DacConv { stride, dilation, groups, .. } = *self;
        let geometry = Geometry { stride, dilation, groups, ..Geometry::default() };
        geometry.convolve(input, &self.weight, Some(&self.bias))
    }
}

/// A causal transposed convolution.
#[derive(Debug)]
pub struct TransposedConv {
    weight: Tensor,
    bias: Tensor,
    stride: i64,
}

impl TransposedConv {
    pub fn new(weights: &Weights, name: &str, stride: i64) -> Result<TransposedConv, TorchError> {
        let weight = take(weights, &format!("{name}.weight"))?;
        let bias = take(weights, &format!("{name}.bias"))?;
        Ok(TransposedConv { weight, bias, stride })
    }

    /// [B, C, L] to [B, D, L * stride].
    pub fn forward(&self, input: &Tensor, past: &mut Past) -> Tensor {
        // The overlap of an input with the outputs of later inputs.
        let reach = (self.weight.size()[2] - 1) / self.stride;
        let length = input.size()[2] * self.stride;
        let widened = match reach {
            0 => input.shallow_clone(),
            _ => past.extend(input, reach, 0),
        };
        let geometry = Geometry { stride: self.stride, transposed: true, ..Geometry::default() };
        let output = geometry.convolve(&widened, &self.weight, Some(&self.bias));
        output.narrow(2, reach * self.stride, length)
    }
}

/// x + sin(a x)^2 / a, with an a for each channel.
#[derive(Debug)]
pub struct Snake {
    alpha: Tensor,
    reciprocal: Tensor,
}

impl Snake {
    pub fn new(weights: &Weights, name: &str) -> Result<Snake, TorchError> {
        let alpha = take(weights, &format!("{name}.alpha"))?;
        let reciprocal = (&alpha + 1e-9).reciprocal();
        Ok(Snake { alpha, reciprocal })
    }

    /// Keeps the input.
    pub fn forward(&self, input: &Tensor) -> Tensor {
        input.addcmul(&self.bend(input), &self.reciprocal)
    }

    /// Overwrites the input, which saves memory where tensors are largest.
    fn forward_into(&self, mut input: Tensor) -> Tensor {
        let bend = self.bend(&input);
        input.addcmul_(&bend, &self.reciprocal)
    }

    fn bend(&self, input: &Tensor) -> Tensor {
        (input * &self.alpha).sin_().square_()
    }
}

/// Snake, a dilated convolution, snake, a convolution of kernel size one; added to the input.
#[derive(Debug)]
pub struct ResidualUnit {
    first: (Snake, DacConv),
    second: (Snake, DacConv),
}

impl ResidualUnit {
    pub fn new(weights: &Weights, name: &str, dilation: i64) -> Result<ResidualUnit, TorchError> {
        let snake = |at: usize| Snake::new(weights, &format!("{name}.block.{at}"));
        let conv = |at: usize| DacConv::new(weights, &format!("{name}.block.{at}.conv"));
        Ok(ResidualUnit {
            first: (snake(0)?, conv(1)?.with_dilation(dilation)),
            second: (snake(2)?, conv(3)?),
        })
    }

    fn forward(&self, mut input: Tensor, past: &mut Past) -> Tensor {
        let inner = self.first.1.forward(&self.first.0.forward(&input), past);
        let inner = self.second.1.forward(&self.second.0.forward_into(inner), past);
        input.g_add_(&inner)
    }
}

/// A part of the encoder or the decoder that works on chunks.
#[derive(Debug)]
pub enum DacLayer {
    Conv(DacConv),
    Transposed(TransposedConv),
    Snake(Snake),
    Unit(ResidualUnit),
}

impl DacLayer {
    /// The input may be overwritten.
    pub fn forward(&self, input: Tensor, past: &mut Past) -> Tensor {
        match self {
            DacLayer::Conv(conv) => conv.forward(&input, past),
            DacLayer::Transposed(conv) => conv.forward(&input, past),
            DacLayer::Snake(snake) => snake.forward_into(input),
            DacLayer::Unit(unit) => unit.forward(input, past),
        }
    }
}

/// A depthwise convolution and two linear layers on the channels; added to the input.
#[derive(Debug)]
pub struct ConvNext {
    depthwise: DacConv,
    norm: (Tensor, Tensor),
    widen: (Tensor, Tensor),
    narrow: (Tensor, Tensor),
    gamma: Tensor,
}

impl ConvNext {
    pub fn new(weights: &Weights, name: &str) -> Result<ConvNext, TorchError> {
        let pair = |part: &str| -> Result<(Tensor, Tensor), TorchError> {
            let weight = take(weights, &format!("{name}.{part}.weight"))?;
            Ok((weight, take(weights, &format!("{name}.{part}.bias"))?))
        };
        Ok(ConvNext {
            depthwise: DacConv::new(weights, &format!("{name}.dwconv.conv"))?.depthwise(),
            norm: pair("norm")?,
            widen: pair("pwconv1")?,
            narrow: pair("pwconv2")?,
            gamma: take(weights, &format!("{name}.gamma"))?,
        })
    }

    /// [B, C, T] to [B, C, T].
    pub fn forward(&self, input: &Tensor) -> Tensor {
        let columns = self.depthwise.forward(input, &mut Past::default());
        let rows = columns.transpose(1, 2); // [B, T, C]
        let (weight, bias) = &self.norm;
        let rows = rows.layer_norm(weight.size(), Some(weight), Some(bias), 1e-6, true);
        let rows = rows.linear(&self.widen.0, Some(&self.widen.1)).gelu("none");
        let rows = rows.linear(&self.narrow.0, Some(&self.narrow.1)) * &self.gamma;
        input + rows.transpose(1, 2)
    }
}

/// A tensor by its name, sharing its storage.
pub fn take(weights: &Weights, name: &str) -> Result<Tensor, TorchError> {
    let tensor = weights.get(name).map(Tensor::shallow_clone);
    tensor.ok_or_else(|| TorchError::Model(format!("`{name}` is missing")))
}
