//! Sums of cross entropies, with logits for only a chunk of the positions at a time.

use tch::{Kind, Reduction, Tensor};

use crate::nn::chain::leaf;

/// The sum of a loss over its labels, and the gradient of its inputs.
pub struct LossGradient {
    pub sum: Tensor,
    /// [N, ...], like the inputs.
    pub gradient: Tensor,
}

/// Processes the first axis of `inputs` and `labels` in chunks of at most `most`: `entropy` returns
/// the sum of the loss over a chunk. With a weight, the backward pass of each chunk runs before the
/// next chunk; parameters get their gradients times this weight.
pub fn in_pieces(
    inputs: &Tensor,
    labels: &Tensor,
    most: i64,
    entropy: impl Fn(&Tensor, &Tensor) -> Tensor,
    weight: f64,
) -> LossGradient {
    let mut gradients = Vec::new();
    let sum = over_pieces(inputs, labels, most, |input, labels| {
        let input = leaf(input);
        let sum = entropy(&input, labels);
        (&sum * weight).backward();
        gradients.push(input.grad());
        sum.detach()
    });
    let gradient =
        if gradients.is_empty() { inputs.zeros_like() } else { Tensor::cat(&gradients, 0) };
    LossGradient { sum, gradient }
}

/// The sum of `work` over all chunks.
pub fn over_pieces(
    inputs: &Tensor,
    labels: &Tensor,
    most: i64,
    mut work: impl FnMut(&Tensor, &Tensor) -> Tensor,
) -> Tensor {
    let count = inputs.size()[0];
    let mut sum = Tensor::zeros([], (Kind::Float, inputs.device()));
    let mut start = 0;
    while start < count {
        let length = most.max(1).min(count - start);
        sum += work(&inputs.narrow(0, start, length), &labels.narrow(0, start, length));
        start += length;
    }
    sum
}

/// The sum over all rows: [N, entries] and [N]. In single precision: the sum of thousands of
/// half-precision terms has no accurate digits.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    let logits = logits.to_kind(Kind::Float);
    logits.cross_entropy_loss(labels, None::<&Tensor>, Reduction::Sum, -100, 0.0)
}
