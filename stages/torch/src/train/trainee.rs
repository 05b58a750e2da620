//! What the trainer asks of a model: its parameters, and gradients for a micro-batch.

use tch::Tensor;

use super::losses::{Losses, Totals};
use crate::error::TorchError;

/// A model that can be trained. Copies on several devices make one data-parallel trainee.
pub trait Trainee: Send {
    /// The data of one micro-batch, held on the CPU until the model takes it.
    type Batch: Send + Sync;

    /// The tensors to train: leaves that require gradients, sorted by name, the same ones in
    /// the same order at every call. Frozen tensors are not among them.
    fn parameters(&self) -> Vec<(String, Tensor)>;

    /// Forward and backward of one micro-batch; adds to the gradients. What is derived is the
    /// sum of each loss times [`Totals::weight`], so that the micro-batches of a step add up to
    /// the mean over all labels of the step. All randomness comes from the seed.
    fn accumulate(
        &mut self,
        batch: &Self::Batch,
        totals: &Totals,
        seed: u64,
    ) -> Result<Losses, TorchError>;

    /// The losses alone: no gradients, no dropout.
    fn evaluate(&self, batch: &Self::Batch) -> Result<Losses, TorchError>;

    /// How many labels of each loss a micro-batch has, from the data alone.
    fn count(batch: &Self::Batch) -> Totals;
}
