//! Unusable steps: one is skipped, and many in a row lead back to the best state.
//!
//! The best state is part of every checkpoint and depends on the data alone, while the moment of
//! the last checkpoint depends on the clock: so an interrupted training returns to the same state
//! as one that was not.

use stage_core::StageError;

use super::data::Purpose;
use super::{Run, count};
use crate::error::caught;
use crate::train::losses::Means;
use crate::train::order::Row;
use crate::train::precision::{Precision, Scaler};
use crate::train::replicas::{self, MicroBatch};
use crate::train::state::Return;
use crate::train::trainee::Trainee;

/// The number of clips named in a message.
const NAMED: usize = 5;

impl<T: Trainee> Run<'_, T> {
    /// The learning rate of the step, which warms up again after a return.
    pub(super) fn rate(&self) -> f64 {
        let (schedule, step) = (&self.job.settings.schedule, self.state.step);
        match self.state.went_back {
            Some(back) => schedule.rate_again(step, step - back.after),
            None => schedule.rate(step),
        }
    }

    /// Notes if a step was usable. One bad step is skipped: a single clip may cause it, and so does
    /// a loss scale that has become too large. True if there were too many in a row, so that the
    /// weights are probably lost.
    pub(super) fn is_lost(&mut self, is_good: bool, means: &Means) -> bool {
        let is_overflow = means.total().is_finite() && self.state.scaler.can_shrink();
        self.state.scaler.update(is_good);
        if is_good {
            self.state.bad = 0;
            return false;
        }
        self.state.skipped += 1;
        if is_overflow {
            return false;
        }
        self.state.bad += 1;
        self.state.bad >= self.job.settings.bad_steps.max(1)
    }

    /// Returns to the best state with a new optimiser, once. Data and schedule continue from the
    /// current step: everything is determined by the seed, and the same clips in the same order
    /// would lead to the same failure.
    pub(super) fn rescue(&mut self, rows: &[Row]) -> Result<(), StageError> {
        let place = self.state.ranking.places().first().copied();
        let (Some(place), None) = (place, self.state.went_back) else {
            return Err(self.give_up(rows));
        };
        let weights = self.best.iter().find(|(step, _)| *step == place.step);
        let weights = weights.map(|(_, weights)| weights.as_slice()).unwrap_or_default();
        self.optimisers.restart(|name| {
            let kept = weights.iter().find(|(own, _)| own == name).map(|(_, kept)| kept);
            let kept =
                kept.ok_or_else(|| StageError::failed(format!("the best state has no `{name}`")))?;
            self.host.recall(kept)
        })?;
        replicas::share_weights(self.job.replicas);
        self.state.bad = 0;
        // The bad steps have halved it repeatedly, and its growth takes thousands of good ones.
        self.state.scaler = Scaler::new(self.job.settings.precision);
        let after = self.state.step + 1;
        self.state.went_back = Some(Return { after, to: place.step });
        let to = ("went_back_to_step", place.step as f64);
        self.record.push(after, to.0, to.1);
        self.host.report(after, &[to]);
        Ok(())
    }

    /// A training without a single usable step has learned nothing: its result would be its initial
    /// weights.
    pub(super) fn check_learnt(&self) -> Result<(), StageError> {
        if self.state.skipped < self.state.step {
            return Ok(());
        }
        let precision = self.job.settings.precision;
        let help = match precision {
            Precision::Fp16 => {
                "fp16 halves its loss scale at every skipped step until gradients fit: train for \
                 more steps, set `precision` to `\"bf16\"` or `\"f32\"`, or lower `learning_rate`"
            }
            Precision::F32 | Precision::Tf32 | Precision::Bf16 => {
                "check the clips and the losses in `log`; a lower `learning_rate`, a smaller \
                 `clip` or another base may help"
            }
        };
        let all = match self.state.step {
            1 => "the only step was skipped".to_owned(),
            steps => format!("all {steps} steps were skipped"),
        };
        Err(StageError::with_help(
            format!(
                "{all}, since losses or gradients were not finite in {}: nothing was learned, and \
                    the weights are the initial ones",
                precision.name()
            ),
            help,
        ))
    }

    fn give_up(&mut self, rows: &[Row]) -> StageError {
        let step = self.state.step + 1;
        let before = match self.state.went_back {
            Some(back) => format!(
                "training had already returned to step {} after step {}",
                back.to, back.after
            ),
            None => {
                "there is no earlier state to return to, since none was kept by its held-out loss"
                    .to_owned()
            }
        };
        let bad = self.state.bad;
        StageError::with_help(
            format!(
                "the loss or its gradients were not finite for {bad} steps in a row, up to step \
                 {step}; {before}; {}",
                self.accused(rows)
            ),
            "check these clips; a lower `learning_rate`, more `warm_up` or `precision = \"f32\"` \
             may help; the last checkpoint is older than these steps",
        )
    }

    /// The clips of a step with a NaN loss, each by itself.
    fn accused(&mut self, rows: &[Row]) -> String {
        let clips: Vec<usize> = rows.iter().flatten().copied().collect();
        let bad: Vec<usize> =
            clips.iter().copied().filter(|clip| self.is_finite(*clip) == Some(false)).collect();
        match bad.len() {
            0 => format!(
                "each clip of the last step has a finite loss by itself: {}",
                self.names(&clips)
            ),
            count if count == clips.len() => {
                format!("no clip of the last step has a finite loss: {}", self.names(&bad))
            }
            _ => format!("clips of the last step without a finite loss: {}", self.names(&bad)),
        }
    }

    /// None if the clip cannot be tried.
    pub(super) fn is_finite(&mut self, clip: usize) -> Option<bool> {
        let batch = caught(|| self.job.data.batch(&[vec![clip]], Purpose::HeldOut)).ok()?;
        let micro = [MicroBatch { batch: &batch, seed: 0 }];
        let losses = replicas::evaluate(&mut self.job.replicas[..1], &micro).ok()?;
        let totals = count::<T>(std::slice::from_ref(&batch));
        Some(losses.means(&totals).total().is_finite())
    }

    fn names(&self, clips: &[usize]) -> String {
        let mut names: Vec<String> = clips
            .iter()
            .take(NAMED)
            .map(|clip| format!("`{}`", self.job.data.name(*clip)))
            .collect();
        if clips.len() > NAMED {
            names.push(format!("{} more", clips.len() - NAMED));
        }
        names.join(", ")
    }
}
