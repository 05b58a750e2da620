//! The environment of the trainer: a store for tensors, a clock, and requests to stop.

use stage_core::{Blob, StageError};
use tch::Tensor;

/// The environment of a training: the engine, or a test.
pub trait Host {
    /// Stores a tensor permanently. Storing it again only costs the comparison.
    fn keep(&mut self, tensor: &Tensor) -> Result<Blob, StageError>;

    fn recall(&mut self, kept: &Blob) -> Result<Tensor, StageError>;

    /// Makes a checkpoint durable, and replaces the previous one.
    fn commit(&mut self, step: u64, checkpoint: &Checkpoint) -> Result<(), StageError>;

    /// The checkpoint to resume from.
    fn last(&mut self) -> Result<Option<Checkpoint>, StageError>;

    /// The exact initial value of a parameter, if the model may have it rounded to its compute
    /// type.
    fn origin(&mut self, _name: &str) -> Result<Option<Tensor>, StageError> {
        Ok(None)
    }

    /// True when training should save and end soon.
    fn stopping(&mut self) -> bool;

    /// Asked before each step: false if the training must save and end before it.
    fn may_begin_step(&mut self, validates: bool) -> bool {
        let _ = validates;
        !self.stopping()
    }

    /// Reports figures of a step, for display and logs.
    fn report(&mut self, step: u64, values: &[(&str, f64)]);

    /// Seconds since a fixed moment.
    fn seconds(&mut self) -> f64;
}

/// The state for resuming a training.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The tensors by name.
    pub tensors: Vec<(String, Blob)>,
    /// The rest, as JSON.
    pub state: String,
}

impl Checkpoint {
    pub fn tensor(&self, name: &str) -> Result<&Blob, StageError> {
        let found = self.tensors.iter().find(|(own, _)| own == name).map(|(_, kept)| kept);
        found.ok_or_else(|| StageError::failed(format!("the checkpoint has no tensor `{name}`")))
    }
}
