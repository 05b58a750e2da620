//! The engine as the host of a training: tensors are in its store, checkpoints under its key.

use std::time::Instant;

use stage_core::{Blob, Context, Fields, NewValue, Output, StageError};
use stage_families::artifact;
use tch::{Device, Tensor};

use super::frozen::{check_frozen, digests};
use super::host::{Checkpoint, Host};
use super::run::{TrainingJob, TrainingResult, train};
use super::trainee::Trainee;
use super::vram::Vram;
use crate::stored;

/// The field of a checkpoint that is not a tensor.
const STATE: &str = "state";

pub struct ContextHost<'a> {
    context: &'a mut dyn Context,
    begin: Instant,
    /// The number of steps, for the display of progress.
    steps: u64,
    vram: Vram,
    /// The artifact with the initial values of the parameters.
    origin: Fields,
}

impl<'a> ContextHost<'a> {
    pub fn new(context: &'a mut dyn Context, steps: u64) -> ContextHost<'a> {
        let (begin, vram) = (Instant::now(), Vram::default());
        ContextHost { context, begin, steps, vram, origin: Fields::new() }
    }

    /// Starts from the stored tensors of this artifact.
    pub fn from(mut self, origin: &Fields) -> ContextHost<'a> {
        self.origin = origin.clone();
        self
    }

    /// Trains, and reports the used memory of the devices.
    ///
    /// # Errors
    ///
    /// Those of [`train`], or if a frozen tensor has changed.
    pub fn train<T: Trainee>(
        mut self,
        job: TrainingJob<'_, T>,
    ) -> Result<TrainingResult, StageError> {
        let TrainingJob { replicas, data, clips, held_out, settings } = job;
        let device = |replica: &T| Some(replica.parameters().first()?.1.device());
        let devices: Vec<Device> = replicas.iter().filter_map(device).collect();
        self.vram = Vram::new(&devices);
        let before = digests(replicas[0].frozen())?;
        let job = TrainingJob { replicas: &mut *replicas, data, clips, held_out, settings };
        let trained = train(job, &mut self)?;
        check_frozen(&before, &digests(replicas[0].frozen())?)?;
        Ok(trained)
    }
}

impl Host for ContextHost<'_> {
    fn keep(&mut self, tensor: &Tensor) -> Result<Blob, StageError> {
        stored::keep(tensor, self.context)
    }

    fn recall(&mut self, kept: &Blob) -> Result<Tensor, StageError> {
        stored::recall(kept, self.context)
    }

    fn origin(&mut self, name: &str) -> Result<Option<Tensor>, StageError> {
        let blob = self.origin.blob(&artifact::tensor_field(name)).cloned();
        blob.map(|blob| stored::recall(&blob, self.context)).transpose()
    }

    fn commit(&mut self, step: u64, checkpoint: &Checkpoint) -> Result<(), StageError> {
        // The remaining time counts from here.
        self.context.progress(step.min(self.steps), self.steps);
        let mut state = Output::default().with(STATE, NewValue::Text(checkpoint.state.clone()));
        for (name, blob) in &checkpoint.tensors {
            state = state.with(artifact::tensor_field(name), NewValue::blob(blob.clone()));
        }
        self.context.checkpoint(state).map(drop)
    }

    fn last(&mut self) -> Result<Option<Checkpoint>, StageError> {
        Ok(self.context.last_checkpoint()?.as_ref().and_then(checkpoint))
    }

    fn stopping(&mut self) -> bool {
        self.context.stopping()
    }

    fn may_begin_step(&mut self, validates: bool) -> bool {
        self.context.may_begin_step(validates)
    }

    fn report(&mut self, step: u64, values: &[(&str, f64)]) {
        self.context.progress(step.min(self.steps), self.steps);
        let peak = self.vram.peak().map(|bytes| ("vram_peak_bytes", bytes as f64));
        let values: Vec<(&str, f64)> = values.iter().copied().chain(peak).collect();
        self.context.metrics(step, &values);
    }

    fn seconds(&mut self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }
}

/// None if the fields are not a checkpoint: then training starts anew.
fn checkpoint(fields: &Fields) -> Option<Checkpoint> {
    let tensors = artifact::tensors(fields);
    let tensors = tensors.map(|(name, blob)| (name.to_owned(), (**blob).clone())).collect();
    Some(Checkpoint { tensors, state: fields.text(STATE)?.to_owned() })
}
