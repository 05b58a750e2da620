//! The interface of a trained model: its parameters, and gradients for a micro-batch.

use tch::Tensor;

use super::adamw;
use super::losses::{Losses, Means, Totals};
use super::samples::NamedSamples;
use crate::error::TorchError;

/// A model that can be trained. Copies on several devices make one data-parallel trainee.
pub trait Trainee: Send {
    /// The data of one micro-batch, on the CPU until the model takes it.
    type Batch: Send + Sync;

    /// The network in training.
    type Network;

    /// The phases of a step by name. Networks that are trained against each other have one each: a
    /// phase processes all micro-batches of the step, and its own optimiser updates its parameters
    /// before the next phase begins.
    const PHASES: &'static [&'static str] = &["all"];

    /// False for a phase that this training leaves out: it has no parameters.
    fn has_phase(&self, _phase: usize) -> bool {
        true
    }

    /// The index of the phase that trains a parameter.
    fn phase_of(_parameter: &str) -> usize {
        0
    }

    fn network(&self) -> &Self::Network;

    fn network_mut(&mut self) -> &mut Self::Network;

    /// The trained tensors: leaves that require gradients, sorted by name, the same ones in the
    /// same order at every call. Frozen tensors are not among them.
    fn parameters(&self) -> Vec<(String, Tensor)>;

    /// The tensors that must stay as they are, sorted by name. None by default.
    fn frozen(&self) -> Vec<(String, Tensor)> {
        Vec::new()
    }

    /// Tests if weight decay applies to a parameter, unless it applies to all. A model excludes
    /// matrices such as embeddings here.
    fn decays(_name: &str, parameter: &Tensor) -> bool {
        adamw::decays(parameter)
    }

    /// Forward and backward pass of one micro-batch; adds to the gradients of the phase's
    /// parameters, and to no others. The backward pass starts from the sum of each loss times
    /// [`Totals::weight`], so that the micro-batches of a step add up to the mean over all labels
    /// of the step. All randomness comes from the seeds.
    fn accumulate(&mut self, batch: &Self::Batch, phase: &Phase<'_>) -> Result<Losses, TorchError>;

    /// The losses alone: no gradients, no dropout. The same batch has the same losses as long as
    /// the weights stay.
    fn evaluate(&self, batch: &Self::Batch) -> Result<Losses, TorchError>;

    /// The samples of a held-out clip, which is alone in its batch, for the log; `number` counts
    /// these clips from 0. The same weights give the same samples. Empty by default.
    fn show(&self, _batch: &Self::Batch, _number: usize) -> Result<NamedSamples, TorchError> {
        Ok(NamedSamples::new())
    }

    /// The number of labels of each loss in a micro-batch, from the data alone.
    fn count(batch: &Self::Batch) -> Totals;

    /// The total of the losses of a step.
    fn total(&self, means: &Means) -> f64 {
        means.total()
    }

    /// The score of states on held-out clips: the lower, the better.
    fn score(&self, means: &Means) -> f64 {
        self.total(means)
    }
}

/// The work of a model on a micro-batch.
#[derive(Clone, Copy, Debug)]
pub struct Phase<'a> {
    pub number: usize,
    /// The labels of all micro-batches of the step.
    pub totals: &'a Totals,
    /// The seed of the micro-batch, which depends on its index alone, not on its device.
    pub seed: u64,
    /// The number of the step, from 0.
    pub step: u64,
    /// The seed of the step: the same in all its micro-batches and phases.
    pub step_seed: u64,
    /// The next phase begins with this micro-batch, so that its intermediate results may be kept.
    pub is_followed: bool,
}

impl<'a> Phase<'a> {
    /// For a step with a single micro-batch.
    pub fn only(totals: &'a Totals, seed: u64) -> Phase<'a> {
        Phase { number: 0, totals, seed, step: 0, step_seed: seed, is_followed: false }
    }
}
