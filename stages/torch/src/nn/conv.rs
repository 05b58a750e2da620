//! Convolutions over columns, [B, C, L], or over planes with independent rows, [B, C, L, P].

use tch::{Kind, Tensor};

use crate::error::TorchError;
use crate::nn::cast::cast;
use crate::nn::convolution::Geometry;
use crate::nn::layers::LayerNorm;
use crate::nn::weight_norm::Kernel;
use crate::nn::weights::Scope;
use crate::runtime::upload::upload_all;

/// The sizes of a convolution; with stride one, the output is as long as the input.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    inputs: i64,
    outputs: i64,
    kernel: i64,
    dilation: i64,
    stride: i64,
    groups: i64,
    has_bias: bool,
    is_flat: bool,
}

impl Shape {
    pub fn new(inputs: i64, outputs: i64, kernel: i64) -> Shape {
        let (dilation, stride, groups, has_bias, is_flat) = (1, 1, 1, true, false);
        Shape { inputs, outputs, kernel, dilation, stride, groups, has_bias, is_flat }
    }

    pub fn dilated(self, dilation: i64) -> Shape {
        Shape { dilation, ..self }
    }

    pub fn strided(self, stride: i64) -> Shape {
        Shape { stride, ..self }
    }

    pub fn grouped(self, groups: i64) -> Shape {
        Shape { groups, ..self }
    }

    pub fn without_bias(self) -> Shape {
        Shape { has_bias: false, ..self }
    }

    /// For planes, one column wide.
    pub fn flat(self) -> Shape {
        Shape { is_flat: true, ..self }
    }
}

#[derive(Debug)]
pub struct Conv {
    kernel: Kernel,
    bias: Option<Tensor>,
    geometry: Geometry,
}

impl Conv {
    pub fn load(mut scope: Scope, shape: Shape) -> Result<Conv, TorchError> {
        let Shape { inputs, outputs, kernel, dilation, stride, groups, .. } = shape;
        let size = [outputs, inputs / groups, kernel, 1];
        let axes = if shape.is_flat { 4 } else { 3 };
        let bias = shape.has_bias.then(|| scope.take("bias", &[outputs])).transpose()?;
        let kernel = Kernel::load(&mut scope, &size[..axes])?;
        let padding = (shape.kernel - 1) * dilation / 2;
        let geometry = Geometry { stride, padding, dilation, groups, transposed: false };
        Ok(Conv { kernel, bias, geometry })
    }

    pub fn forward(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(cast);
        self.geometry.convolve(&cast(x), &cast(&self.kernel.weight()), bias.as_ref())
    }

    /// The layer with its weight computed once for several passes, without gradients.
    pub fn frozen(&self) -> Conv {
        Conv {
            kernel: Kernel::Whole(tch::no_grad(|| self.kernel.weight()).detach()),
            bias: self.bias.as_ref().map(Tensor::detach),
            geometry: self.geometry,
        }
    }
}

/// Upsampling by this factor.
#[derive(Debug)]
pub struct Upsampler {
    kernel: Kernel,
    bias: Tensor,
    geometry: Geometry,
}

impl Upsampler {
    pub fn load(
        mut scope: Scope,
        [inputs, outputs]: [i64; 2],
        kernel: i64,
        rate: i64,
    ) -> Result<Upsampler, TorchError> {
        let bias = scope.take("bias", &[outputs])?;
        let padding = (kernel - rate) / 2;
        let geometry = Geometry { stride: rate, padding, transposed: true, ..Geometry::default() };
        let kernel = Kernel::load(&mut scope, &[inputs, outputs, kernel])?;
        Ok(Upsampler { kernel, bias, geometry })
    }

    pub fn forward(&self, x: &Tensor) -> Tensor {
        let weight = cast(&self.kernel.weight());
        self.geometry.convolve(&cast(x), &weight, Some(&cast(&self.bias)))
    }
}

/// max(x, slope x), for slopes other than the library's default.
#[derive(Clone, Debug)]
pub struct Leaky(f64);

impl Leaky {
    pub fn new(slope: f64) -> Leaky {
        Leaky(slope)
    }

    pub fn forward(&self, x: &Tensor) -> Tensor {
        // The binding of the function itself has no slope. The binding of its derivative has one,
        // and at x equals the function; libtorch differentiates it correctly if that point is
        // constant. (A slope as a tensor would be learned, which takes five times as long.)
        x.detach().leaky_relu_backward(x, self.0, false)
    }
}

/// Layer norm over the channels of each column: [B, C, L].
pub fn over_channels(norm: &LayerNorm, x: &Tensor) -> Tensor {
    norm.forward(&x.transpose(1, 2)).transpose(1, 2)
}

/// 1 up to each length and 0 after it: [B, 1, longest].
pub fn mask(lengths: &[i64], device: tch::Device) -> Tensor {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let lengths = upload_all(lengths, device).unsqueeze(1);
    let columns = Tensor::arange(longest, (Kind::Int64, device)).unsqueeze(0);
    columns.lt_tensor(&lengths).to_kind(Kind::Float).unsqueeze(1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_leaky_bend_and_its_slope_are_those_of_the_definition() {
        let x = Tensor::from_slice(&[-3.0f32, -0.5, 0.0, 0.25, 7.0]).set_requires_grad(true);
        let bent = Leaky::new(0.125).forward(&x);
        let values = |tensor: &Tensor| Vec::<f32>::try_from(tensor).unwrap();
        assert_eq!(values(&bent), [-0.375, -0.0625, 0.0, 0.25, 7.0]);
        (bent * 2.0).sum(Kind::Float).backward();
        assert_eq!(values(&x.grad()), [0.25, 0.25, 0.25, 2.0, 2.0]);
    }
}
