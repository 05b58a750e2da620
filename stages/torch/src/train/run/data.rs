//! The batches of a training.

use crate::error::TorchError;
use crate::train::order::Row;

/// The purpose of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A training step, with the seed of all its random numbers.
    Step { seed: u64 },
    /// Held-out clips: the same every time.
    HeldOut,
}

/// Makes batches of clips: a separate thread makes those of a step while the previous step
/// computes.
pub trait Data<B>: Sync {
    /// The clips of each row share one row of the batch.
    fn batch(&self, rows: &[Row], purpose: Purpose) -> Result<B, TorchError>;

    /// The same batch with its large tensors in memory from which a device copies them quickly.
    fn stage(&self, batch: B, _is_for_gpu: bool) -> Result<B, TorchError> {
        Ok(batch)
    }

    /// The name of a clip for people.
    fn name(&self, clip: usize) -> String;
}
