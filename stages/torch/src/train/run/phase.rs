//! The phases of a step: each accumulates gradients over all rows and updates its parameters, so
//! that the next one uses the result.
//!
//! A phase with a non-finite loss or gradient updates nothing and ends the step; the updates of
//! previous phases stay, since they were good. After the first update the step is completed: half a
//! step is never saved, and a request to stop waits for it.

use stage_core::StageError;

use super::data::Purpose;
use super::{Run, count};
use crate::error::guarded;
use crate::nn::random::scramble;
use crate::train::gradients::{clip_factor, norm};
use crate::train::losses::{Losses, Means, Totals};
use crate::train::optimisers::of_phase;
use crate::train::order::Row;
use crate::train::replicas::{self, MicroBatch};
use crate::train::trainee::{Phase, Trainee};

/// The results of a step.
pub(super) struct StepResult {
    pub is_good: bool,
    /// Of the completed phases.
    pub means: Means,
    /// Gradient norms of these phases by name, before clipping.
    pub norms: Vec<(&'static str, f64)>,
    pub labels: u64,
}

impl<T: Trainee> Run<'_, T> {
    /// None if training should stop; then nothing has changed.
    pub(super) fn phases(
        &mut self,
        rows: &[Row],
        mut batches: Vec<T::Batch>,
        rate: f64,
    ) -> Result<Option<StepResult>, StageError> {
        let (means, norms) = (Means(Vec::new()), Vec::new());
        let mut done = StepResult { is_good: true, means, norms, labels: 0 };
        let trainee = &self.job.replicas[0];
        let phases: Vec<usize> =
            (0..T::PHASES.len()).filter(|phase| trainee.has_phase(*phase)).collect();
        for (at, phase) in phases.into_iter().enumerate() {
            let accumulated = self.accumulate((phase, at == 0), rows, &mut batches)?;
            let Some((losses, totals)) = accumulated else {
                return Ok(None);
            };
            let means = losses.means(&totals);
            let norm = self.update(phase, &means, rate)?;
            done.is_good = norm.is_finite() && means.total().is_finite();
            done.means.0.extend(means.0);
            done.norms.push((T::PHASES[phase], norm));
            done.labels = totals.labels();
            if !done.is_good {
                break;
            }
        }
        Ok(Some(done))
    }

    /// Updates from the accumulated gradients if they are finite; returns their norm.
    fn update(&mut self, phase: usize, means: &Means, rate: f64) -> Result<f64, StageError> {
        let mut gradients = replicas::gradients(self.job.replicas, phase);
        let settings = self.job.settings;
        let learns = |name: &str| settings.learns(name, self.state.step);
        let parameters = of_phase(&self.job.replicas[0], phase);
        for ((name, _), gradient) in parameters.iter().zip(&mut gradients) {
            gradient.take_if(|_| !learns(name));
        }
        let norm = norm(&gradients) / self.state.scaler.scale();
        if norm.is_finite() && means.total().is_finite() {
            let factor = clip_factor(norm, self.job.settings.clip) / self.state.scaler.scale();
            self.optimisers.step_where(phase, &gradients, rate, factor, learns)?;
            replicas::share_phase(self.job.replicas, phase);
        }
        drop(gradients);
        replicas::clear_gradients(self.job.replicas);
        Ok(norm)
    }

    /// The gradients of a step's rows, in micro-batches that fit into memory; None if training
    /// should stop, which only the first phase asks.
    fn accumulate(
        &mut self,
        phase: (usize, bool),
        rows: &[Row],
        batches: &mut Vec<T::Batch>,
    ) -> Result<Option<(Losses, Totals)>, StageError> {
        let seed = seed_of_step(self.job.settings.seed, self.state.step);
        loop {
            match guarded(|| self.accumulate_once(phase, seed, batches)) {
                Err(StageError::OutOfMemory { .. }) if self.state.rows > 1 => self.halve(),
                result => return result,
            }
            let wanted = self.divided(rows.to_vec(), Purpose::Step { seed });
            *batches = self.loader.make(&wanted)?;
        }
    }

    fn accumulate_once(
        &mut self,
        (number, is_first): (usize, bool),
        step_seed: u64,
        batches: &[T::Batch],
    ) -> Result<Option<(Losses, Totals)>, StageError> {
        let totals = count::<T>(batches).scaled(self.state.scaler.scale());
        let seeds = (0..).map(|at| seed(step_seed, at));
        let micro: Vec<MicroBatch<'_, T::Batch>> =
            batches.iter().zip(seeds).map(|(batch, seed)| MicroBatch { batch, seed }).collect();
        let is_followed = number + 1 < T::PHASES.len() && micro.len() <= self.job.replicas.len();
        let step = self.state.step;
        let phase = Phase { number, step, step_seed, is_followed, ..Phase::only(&totals, 0) };
        let mut losses = Losses::default();
        for round in micro.chunks(self.job.replicas.len()) {
            if is_first && self.host.stopping() {
                replicas::clear_gradients(self.job.replicas);
                return Ok(None);
            }
            losses.add(replicas::accumulate(self.job.replicas, round, &phase)?);
        }
        Ok(Some((losses, totals)))
    }
}

pub(super) fn seed_of_step(run: u64, step: u64) -> u64 {
    scramble(scramble(run).wrapping_add(step))
}

fn seed(step_seed: u64, micro_batch: u64) -> u64 {
    scramble(step_seed.wrapping_add(micro_batch))
}
