//! Convolutions in this project: the same bits each time, and in TF32 only in trainings that ask
//! for it, since its ten bits change codes and make gradients noisy.
//!
//! On a CPU, those of bf16 and fp16 are computed in f32 and rounded: on processors with AMX, oneDNN
//! of libtorch 2.11 computes bf16 convolutions of few input channels wrongly
//! (<https://github.com/pytorch/pytorch/issues/148973> is one of this kind).
//!
//! On a GPU, groups of few channels are merged in half precision: cuDNN starts a kernel for each
//! group. In f32 it does so too, but the larger products cost more than is saved.

use tch::{Device, Kind, Tensor};

use crate::runtime::shim;

/// The most input channels of a merged group: a GPU computes as many at a time in any case.
const FULL: i64 = 64;

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
    pub fn convolve(self, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let axes = input.dim().saturating_sub(2).clamp(1, 2);
        let along = |first: i64, beside: i64| [first, beside][..axes].to_vec();
        let moves = [along(self.stride, 1), along(self.padding, 0), along(self.dilation, 1)];
        self.run(input, weight, bias, moves)
    }

    /// Planes [B, C, H, W] to [B, D, H', W'], with the same geometry along both axes; the weight
    /// is [D, C / groups, K, K].
    pub fn convolve_planes(self, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        let moves = [self.stride, self.padding, self.dilation].map(|figure| vec![figure; 2]);
        self.run(input, weight, bias, moves)
    }

    /// `moves` are stride, padding and dilation for each axis.
    fn run(
        self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        moves: [Vec<i64>; 3],
    ) -> Tensor {
        let kind = input.kind();
        let is_half = matches!(kind, Kind::BFloat16 | Kind::Half);
        if !is_half {
            return self.run_as_given(input, weight, bias, moves);
        }
        if input.device() != Device::Cpu {
            let (geometry, weight) = self.merged(weight);
            return geometry.run_as_given(input, &weight, bias, moves);
        }
        let [input, weight] = [input, weight].map(|tensor| tensor.to_kind(Kind::Float));
        let bias = bias.map(|bias| bias.to_kind(Kind::Float));
        self.run_as_given(&input, &weight, bias.as_ref(), moves).to_kind(kind)
    }

    /// The same convolution in fewer groups of at most [`FULL`] input channels, with zero weights
    /// between the channels of different groups. Unchanged if it is transposed, if groups have one
    /// channel, for which libtorch has kernels, or if no number of groups fits.
    fn merged(self, weight: &Tensor) -> (Geometry, Tensor) {
        let size = weight.size();
        let [outputs, inputs, lengths @ ..] = size.as_slice() else {
            return (self, weight.shallow_clone());
        };
        let times = (2..=self.groups.min(FULL / inputs)).rev();
        let times = times.into_iter().find(|times| self.groups % times == 0);
        let Some(times) = times.filter(|_| *inputs > 1 && !self.transposed) else {
            return (self, weight.shallow_clone());
        };
        let (groups, length) = (self.groups / times, lengths.iter().product::<i64>());
        let parts = weight.reshape([groups, times, outputs / self.groups, 1, *inputs, length]);
        let own = Tensor::eye(times, (weight.kind(), weight.device()));
        let whole = parts * own.view([1, times, 1, times, 1, 1]);
        let size = [&[*outputs, times * inputs], lengths].concat();
        (Geometry { groups, ..self }, whole.reshape(size))
    }

    fn run_as_given(
        self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        [stride, padding, dilation]: [Vec<i64>; 3],
    ) -> Tensor {
        let (benchmark, deterministic, cudnn) = (false, true, true);
        // The backward pass reads the switch of the process.
        let tf32 = shim::tf32().convolutions;
        let output_padding = vec![0; stride.len()];
        input.internal_convolution(
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
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The output and the gradients of input and weight.
    fn results(geometry: Geometry, input: &Tensor, weight: &Tensor, kind: Kind) -> [Tensor; 3] {
        let leaf = |tensor: &Tensor| tensor.to_kind(kind).detach().set_requires_grad(true);
        let (input, weight) = (leaf(input), leaf(weight));
        let output = geometry.convolve(&input, &weight, None);
        output.square().sum(Kind::Float).backward();
        [output.detach(), input.grad(), weight.grad()]
    }

    #[test]
    fn merged_groups_compute_the_same() {
        let options = (Kind::Float, Device::Cpu);
        // 64 groups of 4 channels, as in the discriminator of VITS; groups that are merged whole;
        // none.
        for (groups, inputs, outputs, expected) in
            [(64, 4, 256, 4), (4, 4, 8, 1), (3, 40, 6, 3), (8, 1, 8, 8), (1, 4, 8, 1)]
        {
            let geometry = Geometry { stride: 4, padding: 20, groups, ..Geometry::default() };
            let weight = Tensor::randn([outputs, inputs, 41], options).set_requires_grad(true);
            let input = Tensor::randn([2, groups * inputs, 100], options);
            let derive = |geometry: Geometry, whole: &Tensor| {
                let output = geometry.convolve(&input, whole, None);
                (&output * output.cos()).sum(Kind::Float).backward();
                let gradient = weight.grad().copy();
                let _ = weight.grad().zero_();
                (output.detach(), gradient)
            };
            let plain = derive(geometry, &weight);
            let (merged, whole) = geometry.merged(&weight);
            assert_eq!(merged.groups, expected);
            let merged = derive(merged, &whole);
            for (one, other) in [(plain.0, merged.0), (plain.1, merged.1)] {
                let far = (&one - other).abs().max() / one.abs().max();
                assert!(far.double_value(&[]) < 1e-4, "{groups} groups: {far}");
            }
        }
    }

    /// Sizes at which libtorch errs by 100 % on processors with AMX.
    #[test]
    fn half_precision_on_a_cpu_is_rounded_f32() {
        let options = (Kind::Float, Device::Cpu);
        let plain = Geometry { padding: 3, ..Geometry::default() };
        let transposed = Geometry { stride: 4, padding: 2, transposed: true, ..plain };
        for kind in [Kind::BFloat16, Kind::Half] {
            let given = |shape: &[i64]| Tensor::randn(shape, options).to_kind(kind);
            let cases = [
                (plain, given(&[2, 8, 20]), given(&[16, 8, 8])),
                (transposed, given(&[2, 16, 20]), given(&[16, 8, 8])),
            ];
            for (geometry, input, weight) in cases {
                let expected = results(geometry, &input, &weight, Kind::Float);
                for (computed, expected) in
                    results(geometry, &input, &weight, kind).iter().zip(expected)
                {
                    assert_eq!(computed.kind(), kind);
                    let far = (computed.to_kind(Kind::Float) - &expected).abs().max()
                        / expected.abs().max();
                    assert!(far.double_value(&[]) < 0.02, "{geometry:?} {kind:?}: {far}");
                }
            }
        }
    }
}
