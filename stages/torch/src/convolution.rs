//! Convolutions as this project computes them: the same bits each time, and never in TF32,
//! whose ten bits turn codes into others and gradients into noise.

use tch::Tensor;

use crate::error::TorchError;

/// How a kernel moves, for one axis of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub stride: i64,
    pub padding: i64,
    pub dilation: i64,
    pub groups: i64,
    /// Spreads columns instead of gathering them.
    pub transposed: bool,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { stride: 1, padding: 0, dilation: 1, groups: 1, transposed: false }
    }
}

impl Geometry {
    /// [B, C, L] to [B, D, length that follows]; the weight is [D, C / groups, K], and
    /// [C, D, K] where it is transposed.
    pub fn convolve(
        self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor, TorchError> {
        let (benchmark, deterministic, cudnn, tf32) = (false, true, true, false);
        Ok(input.f_internal_convolution(
            weight,
            bias,
            [self.stride],
            [self.padding],
            [self.dilation],
            self.transposed,
            [0],
            self.groups,
            benchmark,
            deterministic,
            cudnn,
            tf32,
        )?)
    }
}
