//! Convolutions in this project: the same bits each time, and in TF32 only in trainings that ask
//! for it, since its ten bits change codes and make gradients noisy.

use tch::Tensor;

use crate::error::TorchError;
use crate::shim;

/// The geometry of a kernel along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub stride: i64,
    pub padding: i64,
    pub dilation: i64,
    pub groups: i64,
    /// Transposed convolution.
    pub transposed: bool,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { stride: 1, padding: 0, dilation: 1, groups: 1, transposed: false }
    }
}

impl Geometry {
    /// [B, C, L] to [B, D, output length]; the weight is [D, C / groups, K], and [C, D, K] if
    /// transposed. Rows of planes, [B, C, L, P], with a weight of one more axis of length 1, are
    /// processed independently.
    pub fn convolve(
        self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TorchError> {
        let axes = input.dim().saturating_sub(2).clamp(1, 2);
        let along = |first: i64, beside: i64| [first, beside][..axes].to_vec();
        let moves = [along(self.stride, 1), along(self.padding, 0), along(self.dilation, 1)];
        self.run(input, weight, bias, moves)
    }

    /// Planes [B, C, H, W] to [B, D, H', W'], with the same geometry along both axes; the weight
    /// is [D, C / groups, K, K].
    pub fn convolve_planes(
        self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TorchError> {
        let moves = [self.stride, self.padding, self.dilation].map(|figure| vec![figure; 2]);
        self.run(input, weight, bias, moves)
    }

    /// `moves` are stride, padding and dilation for each axis.
    fn run(
        self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        [stride, padding, dilation]: [Vec<i64>; 3],
    ) -> Result<Tensor, TorchError> {
        let (benchmark, deterministic, cudnn) = (false, true, true);
        // The backward pass reads the switch of the process.
        let tf32 = shim::tf32().convolutions;
        let output_padding = vec![0; stride.len()];
        Ok(input.f_internal_convolution(
            weight,
            bias,
            stride,
            padding,
            dilation,
            self.transposed,
            output_padding,
            self.groups,
            benchmark,
            deterministic,
            cudnn,
            tf32,
        )?)
    }
}
