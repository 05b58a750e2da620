//! What the trainer asks of a model: its parameters, and gradients for a micro-batch.

use tch::Tensor;

use super::adamw;
use super::losses::{Losses, Means, Totals};
use super::samples::Made;
use crate::error::TorchError;

/// A model that can be trained. Copies on several devices make one data-parallel trainee.
pub trait Trainee: Send {
    /// The data of one micro-batch, held on the CPU until the model takes it.
    type Batch: Send + Sync;

    /// The turns of a step by name. Nets that learn from each other have one each: a turn goes
    /// over all micro-batches of the step, and its parameters are updated by an optimiser of
    /// their own before the next turn begins.
    const TURNS: &'static [&'static str] = &["all"];

    /// The number of the turn that trains a parameter.
    fn turn_of(_parameter: &str) -> usize {
        0
    }

    /// The tensors to train: leaves that require gradients, sorted by name, the same ones in
    /// the same order at every call. Frozen tensors are not among them.
    fn parameters(&self) -> Vec<(String, Tensor)>;

    /// Whether weight decay is on a parameter, where it is not on all. A model with matrices that
    /// have no directions to shrink, such as embeddings, leaves these out.
    fn decays(_name: &str, parameter: &Tensor) -> bool {
        adamw::decays(parameter)
    }

    /// Forward and backward of one micro-batch; adds to the gradients of the turn's parameters,
    /// and to no others. What is derived is the sum of each loss times [`Totals::weight`], so that
    /// the micro-batches of a step add up to the mean over all labels of the step. All
    /// randomness comes from the seeds.
    fn accumulate(&mut self, batch: &Self::Batch, turn: &Turn<'_>) -> Result<Losses, TorchError>;

    /// The losses alone: no gradients, no dropout. The same batch has the same losses as long as
    /// the weights stay.
    fn evaluate(&self, batch: &Self::Batch) -> Result<Losses, TorchError>;

    /// What the log shows of a held-out clip, which is alone in its batch; `number` counts these
    /// clips from 0. The same weights show the same. Nothing, unless a model has something to show.
    fn show(&self, _batch: &Self::Batch, _number: usize) -> Result<Made, TorchError> {
        Ok(Made::new())
    }

    /// How many labels of each loss a micro-batch has, from the data alone.
    fn count(batch: &Self::Batch) -> Totals;

    /// What the losses of a step come to.
    fn total(&self, means: &Means) -> f64 {
        means.total()
    }

    /// What states are ranked by on held-out clips: the lower, the better.
    fn score(&self, means: &Means) -> f64 {
        self.total(means)
    }
}

/// What a model is to do with a micro-batch.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    pub number: usize,
    /// The labels of all micro-batches of the step.
    pub totals: &'a Totals,
    /// Of the micro-batch: a matter of its place alone, not of the device that it is on.
    pub seed: u64,
    /// Of the step: the same in all its micro-batches and turns.
    pub step_seed: u64,
    /// The next turn begins with this micro-batch, so that what was made of it may be kept.
    pub is_followed: bool,
}

impl<'a> Turn<'a> {
    /// The only one of a step that has a single micro-batch.
    pub fn only(totals: &'a Totals, seed: u64) -> Turn<'a> {
        Turn { number: 0, totals, seed, step_seed: seed, is_followed: false }
    }
}
