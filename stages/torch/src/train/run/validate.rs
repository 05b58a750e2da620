//! The loss on held-out clips, and the decisions based on it.

use stage_core::StageError;

use super::data::Purpose;
use super::{Run, count};
use crate::error::{TorchError, caught, guarded};
use crate::train::early_stop::StepLoss;
use crate::train::losses::{Losses, Means};
use crate::train::replicas::{self, MicroBatch};
use crate::train::samples::{self, Sample};
use crate::train::trainee::Trainee;

impl<T: Trainee> Run<'_, T> {
    pub(super) fn validation_is_due(&self) -> bool {
        self.validates_after(self.state.step)
    }

    /// True if there is a validation after this step.
    pub(super) fn validates_after(&self, step: u64) -> bool {
        let settings = self.job.settings;
        let every = settings.validate_every.max(1);
        step.is_multiple_of(every) || step >= settings.steps
    }

    /// The loss on held-out clips; selects the best states and stops early.
    pub(super) fn validate(&mut self) -> Result<(), StageError> {
        if self.held_out.is_empty() {
            return Ok(());
        }
        let start = self.host.seconds();
        let means = self.held_out_means()?;
        let score = self.job.replicas.first().map(|trainee| trainee.score(&means));
        let (step, loss) = (self.state.step, score.unwrap_or(f64::NAN));
        let mut values: Vec<(String, f64)> = vec![("held_out".into(), loss)];
        if means.0.len() > 1 {
            values.extend(means.0.iter().map(|(name, mean)| (format!("held_out/{name}"), *mean)));
        }
        values.iter().for_each(|(name, value)| self.record.push(step, name, *value));
        self.state.held_out = Some(StepLoss { step, loss });
        let settings = self.job.settings;
        if let Some(early_stop) = &settings.early_stop {
            self.state.ended = self.state.early_stop.update(early_stop, loss);
        }
        if samples::is_due(step, settings, self.state.ended) {
            self.show()?;
        }
        // The state before the first step is no result, and neither is one after only skipped
        // steps.
        if self.state.skipped < step && self.state.ranking.admits(settings.keep_best, loss) {
            let weights = self.keep_weights()?;
            self.best.push((step, weights));
            let place = StepLoss { step, loss };
            if let Some(out) = self.state.ranking.enter(settings.keep_best, place) {
                self.best.retain(|(step, _)| *step != out.step);
            }
        }
        let end = self.host.seconds();
        values.push(("validation_seconds".into(), end - start));
        let shown: Vec<(&str, f64)> =
            values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        self.host.report(step, &shown);
        // The time of a validation does not count as time of steps.
        self.pace.since += end - start;
        Ok(())
    }

    /// Makes samples of a few held-out clips. If they do not fit into memory beside the training,
    /// there are fewer, and the training continues.
    fn show(&mut self) -> Result<(), StageError> {
        let _guard = tch::no_grad_guard();
        let (step, places) = (self.state.step, samples::places(self.held_out.len()));
        for (number, place) in places.into_iter().enumerate() {
            let Some(trainee) = self.job.replicas.first() else { break };
            let batch = self.job.data.batch(&self.held_out[place..=place], Purpose::HeldOut)?;
            let made = match caught(|| trainee.show(&batch, number)) {
                Err(TorchError::OutOfMemory(_)) => continue,
                made => made?,
            };
            for (tag, tensor) in made {
                self.samples.push(Sample { step, tag, kept: self.host.keep(&tensor)? });
            }
        }
        Ok(())
    }

    fn held_out_means(&mut self) -> Result<Means, StageError> {
        loop {
            match guarded(|| self.held_out_once()) {
                Err(StageError::OutOfMemory { .. }) if self.state.rows > 1 => self.halve(),
                result => return result,
            }
        }
    }

    fn held_out_once(&mut self) -> Result<Means, StageError> {
        let wanted = self.divided(self.held_out.clone(), Purpose::HeldOut);
        let batches = self.loader.make(&wanted)?;
        let micro: Vec<MicroBatch<'_, T::Batch>> =
            batches.iter().map(|batch| MicroBatch { batch, seed: 0 }).collect();
        let mut losses = Losses::default();
        for round in micro.chunks(self.job.replicas.len()) {
            losses.add(replicas::evaluate(self.job.replicas, round)?);
        }
        Ok(losses.means(&count::<T>(&batches)))
    }
}
