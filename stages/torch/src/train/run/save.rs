//! Checkpoints: their times, their contents, and resuming from one.

use stage_core::{Blob, StageError};
use tch::{Kind, Tensor};

use super::{KeptWeights, Run};
use crate::train::adamw::MASTER;
use crate::train::host::Checkpoint;
use crate::train::record::Record;
use crate::train::samples::Sample;
use crate::train::trainee::Trainee;

/// The prefixes of samples, and of the states of a fixed interval.
const SAMPLE: &str = "sample/";
const REGULAR: &str = "regular/";

/// The last save.
pub(super) struct LastSave {
    pub step: u64,
    pub at: f64,
}

impl<T: Trainee> Run<'_, T> {
    pub(super) fn keep_weights(&mut self) -> Result<KeptWeights, StageError> {
        if self.job.settings.keep_kind.is_none_or(|kind| kind == Kind::Float) {
            return self.keep_masters();
        }
        let mut weights = Vec::new();
        for (name, master) in self.optimisers.masters() {
            let kind = self.job.settings.keep_kind.unwrap_or(master.kind());
            weights.push((name.to_owned(), self.host.keep(&master.to_kind(kind))?));
        }
        Ok(weights)
    }

    /// The f32 copies, which a checkpoint and a result in f32 share.
    fn keep_masters(&mut self) -> Result<KeptWeights, StageError> {
        let step = self.state.step;
        if let Some((_, kept)) = self.masters.as_ref().filter(|(own, _)| *own == step) {
            return Ok(kept.clone());
        }
        let keep = |(name, master): (&str, &Tensor)| Ok((name.to_owned(), self.host.keep(master)?));
        let kept = self.optimisers.masters().map(keep).collect::<Result<_, StageError>>()?;
        Ok(self.masters.insert((step, kept)).1.clone())
    }

    /// Keeps the state if the interval says so: not before a usable step, and not after a loss that
    /// is lost.
    pub(super) fn keep_regular(&mut self) -> Result<(), StageError> {
        let step = self.state.step;
        let is_due = self.job.settings.keep_every.is_some_and(|every| step.is_multiple_of(every));
        if is_due && self.state.skipped < step && self.state.bad == 0 {
            let weights = self.keep_weights()?;
            self.regular.push((step, weights));
        }
        Ok(())
    }

    pub(super) fn save_is_due(&mut self) -> bool {
        let when = self.job.settings.checkpoint;
        let by_steps = when.steps.is_some_and(|every| self.state.step.is_multiple_of(every.max(1)));
        let by_time =
            when.seconds.is_some_and(|every| self.host.seconds() - self.saved.at >= every);
        by_steps || by_time
    }

    /// Saves the state for resuming; skipped if nothing has happened since the last save.
    pub(super) fn save(&mut self) -> Result<(), StageError> {
        if self.saved.step == self.state.step {
            return Ok(());
        }
        let start = self.host.seconds();
        let checkpoint = self.checkpoint()?;
        self.host.commit(self.state.step, &checkpoint)?;
        let end = self.host.seconds();
        self.saved = LastSave { step: self.state.step, at: end };
        self.host.report(self.state.step, &[("save_seconds", end - start)]);
        // The time of a save does not count as time of steps.
        self.pace.since += end - start;
        Ok(())
    }

    /// The state for resuming. Frozen tensors are not part of it: the training was started with
    /// them.
    pub(super) fn checkpoint(&mut self) -> Result<Checkpoint, StageError> {
        let masters = self.keep_masters()?.into_iter();
        let mut tensors: Vec<(String, Blob)> =
            masters.map(|(name, kept)| (format!("{MASTER}/{name}"), kept)).collect();
        for (role, name, tensor) in self.optimisers.state().filter(|(role, ..)| *role != MASTER) {
            tensors.push((format!("{role}/{name}"), self.host.keep(tensor)?));
        }
        for (step, weights) in &self.best {
            let name = |name: &str| format!("best/{step}/{name}");
            tensors.extend(weights.iter().map(|(own, kept)| (name(own), kept.clone())));
        }
        for (step, weights) in &self.regular {
            let name = |name: &str| format!("{REGULAR}{step}/{name}");
            tensors.extend(weights.iter().map(|(own, kept)| (name(own), kept.clone())));
        }
        for Sample { step, tag, kept } in &self.samples {
            tensors.push((format!("{SAMPLE}{step}/{tag}"), kept.clone()));
        }
        tensors.push(("record".into(), self.host.keep(&self.record.to_tensor())?));
        self.state.recorded = self.record.names().to_vec();
        let state = serde_json::to_string(&self.state)
            .map_err(|error| StageError::failed(format!("the state cannot be saved: {error}")))?;
        Ok(Checkpoint { tensors, state })
    }

    pub(super) fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), StageError> {
        let wrong = |error| StageError::failed(format!("the checkpoint cannot be read: {error}"));
        self.state = serde_json::from_str(&checkpoint.state).map_err(wrong)?;
        self.state.rows = self.state.rows.min(self.job.settings.rows.max(1));
        if let Some(switch) = self.state.continue_in(self.job.settings.precision) {
            self.host.report(switch.after, &[("precision_changed", 1.0)]);
        }
        self.optimisers.restore(
            &self.state.updates(),
            |role, name| -> Result<Tensor, StageError> {
                self.host.recall(checkpoint.tensor(&format!("{role}/{name}"))?)
            },
        )?;
        let record = self.host.recall(checkpoint.tensor("record")?)?;
        self.record = Record::from_tensor(&self.state.recorded, &record)?;
        for place in self.state.ranking.places() {
            let prefix = format!("best/{}/", place.step);
            let own = |(name, kept): &(String, Blob)| {
                name.strip_prefix(&prefix).map(|name| (name.to_owned(), kept.clone()))
            };
            self.best.push((place.step, checkpoint.tensors.iter().filter_map(own).collect()));
        }
        for (step, name, kept) in checkpoint.tensors.iter().filter_map(regular) {
            match self.regular.last_mut() {
                Some((last, weights)) if *last == step => weights.push((name, kept)),
                _ => self.regular.push((step, vec![(name, kept)])),
            }
        }
        self.regular.sort_by_key(|(step, _)| *step);
        self.samples = checkpoint.tensors.iter().filter_map(sample).collect();
        self.saved.step = self.state.step;
        Ok(())
    }
}

/// None for tensors that are not of states of a fixed interval.
fn regular((name, kept): &(String, Blob)) -> Option<(u64, String, Blob)> {
    let (step, name) = name.strip_prefix(REGULAR)?.split_once('/')?;
    Some((step.parse().ok()?, name.to_owned(), kept.clone()))
}

/// None for tensors that are not samples.
fn sample((name, kept): &(String, Blob)) -> Option<Sample> {
    let (step, tag) = name.strip_prefix(SAMPLE)?.split_once('/')?;
    Some(Sample { step: step.parse().ok()?, tag: tag.to_owned(), kept: kept.clone() })
}
