//! What the trainer needs around it: a place for tensors, a clock, somebody who may say stop.

use stage_core::StageError;
use tch::Tensor;

/// Whoever runs a training: the engine, or a test.
pub trait Host {
    /// A reference to a tensor that was kept.
    type Kept: Clone;

    /// Keeps a tensor for good. One that was kept before costs nothing but the look.
    fn keep(&mut self, tensor: &Tensor) -> Result<Self::Kept, StageError>;

    fn recall(&mut self, kept: &Self::Kept) -> Result<Tensor, StageError>;

    /// Makes a checkpoint durable, in place of the one before.
    fn commit(&mut self, step: u64, checkpoint: &Checkpoint<Self::Kept>) -> Result<(), StageError>;

    /// The checkpoint to go on from.
    fn last(&mut self) -> Result<Option<Checkpoint<Self::Kept>>, StageError>;

    /// The value that a parameter begins with, where the model may have it rounded to what it
    /// computes in and somebody knows it better.
    fn origin(&mut self, _name: &str) -> Result<Option<Tensor>, StageError> {
        Ok(None)
    }

    /// True when training shall save and end soon.
    fn stopping(&mut self) -> bool;

    /// Asked before each step: false when the training must save and end before it.
    fn may_begin_step(&mut self, validates: bool) -> bool {
        let _ = validates;
        !self.stopping()
    }

    /// Figures of a step, to be shown and logged.
    fn report(&mut self, step: u64, values: &[(&str, f64)]);

    /// Seconds since some moment that stays the same.
    fn seconds(&mut self) -> f64;
}

/// All that a training needs to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint<K> {
    /// The tensors by name.
    pub tensors: Vec<(String, K)>,
    /// The rest, as JSON.
    pub state: String,
}

impl<K> Checkpoint<K> {
    pub fn tensor(&self, name: &str) -> Result<&K, StageError> {
        let found = self.tensors.iter().find(|(own, _)| own == name).map(|(_, kept)| kept);
        found.ok_or_else(|| StageError::failed(format!("the checkpoint has no tensor `{name}`")))
    }
}
