//! The optimisers of a training: one for each phase of a step.

use stage_core::StageError;
use tch::Tensor;

use super::adamw::{AdamW, AdamWSettings};
use super::trainee::Trainee;
use crate::error::TorchError;

/// The settings of a phase with an optimiser of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseSettings {
    pub phase: usize,
    pub adamw: AdamWSettings,
    /// The learning rate of the phase relative to that of the training.
    pub rate: f64,
}

#[derive(Debug)]
pub struct Optimisers(Vec<PhaseOptimiser>);

#[derive(Debug)]
struct PhaseOptimiser {
    adamw: AdamW,
    rate: f64,
}

impl Optimisers {
    /// The same optimiser for each phase.
    pub fn new<T: Trainee>(settings: AdamWSettings, trainee: &T) -> Self {
        Optimisers::with_own(settings, &[], trainee)
    }

    /// The same optimiser for each phase, except those with their own.
    pub fn with_own<T: Trainee>(
        settings: AdamWSettings,
        own: &[PhaseSettings],
        trainee: &T,
    ) -> Self {
        let optimiser = |phase| {
            let own = own.iter().find(|own| own.phase == phase);
            let (settings, rate) = own.map_or((settings, 1.0), |own| (own.adamw, own.rate));
            let adamw = AdamW::new(settings, of_phase(trainee, phase)).with_decay(T::decays);
            PhaseOptimiser { adamw, rate }
        };
        Optimisers((0..T::PHASES.len()).map(optimiser).collect())
    }

    fn each(&self) -> impl Iterator<Item = &AdamW> {
        self.0.iter().map(|own| &own.adamw)
    }

    fn each_mut(&mut self) -> impl Iterator<Item = &mut AdamW> {
        self.0.iter_mut().map(|own| &mut own.adamw)
    }

    /// One update of the parameters of a phase: see [`AdamW::step`].
    pub fn step(
        &mut self,
        phase: usize,
        gradients: &[Option<Tensor>],
        rate: f64,
        factor: f64,
    ) -> Result<(), TorchError> {
        self.step_where(phase, gradients, rate, factor, |_| true)
    }

    /// The same for selected parameters: see [`AdamW::step_where`].
    pub fn step_where(
        &mut self,
        phase: usize,
        gradients: &[Option<Tensor>],
        rate: f64,
        factor: f64,
        chosen: impl Fn(&str) -> bool,
    ) -> Result<(), TorchError> {
        match self.0.get_mut(phase) {
            Some(own) => own.adamw.step_where(gradients, rate * own.rate, factor, chosen),
            None => Err(TorchError::Input(format!("there is no phase {phase}"))),
        }
    }

    /// The number of updates of each phase's parameters.
    pub fn updates(&self) -> Vec<u64> {
        self.each().map(AdamW::updates).collect()
    }

    /// The tensors of a checkpoint: role, name of the parameter, tensor.
    pub fn state(&self) -> impl Iterator<Item = (&'static str, &str, &Tensor)> {
        self.each().flat_map(AdamW::state)
    }

    /// The f32 copies of the parameters.
    pub fn masters(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.each().flat_map(AdamW::masters)
    }

    /// See [`AdamW::refine`].
    pub fn refine(
        &mut self,
        mut exact: impl FnMut(&str) -> Result<Option<Tensor>, StageError>,
    ) -> Result<(), StageError> {
        self.each_mut().try_for_each(|adamw| adamw.refine(&mut exact))
    }

    /// See [`AdamW::restart`].
    pub fn restart(
        &mut self,
        mut weights: impl FnMut(&str) -> Result<Tensor, StageError>,
    ) -> Result<(), StageError> {
        self.each_mut().try_for_each(|adamw| adamw.restart(&mut weights))
    }

    /// See [`AdamW::restore`]; `updates` is from [`Self::updates`].
    pub fn restore(
        &mut self,
        updates: &[u64],
        mut recall: impl FnMut(&'static str, &str) -> Result<Tensor, StageError>,
    ) -> Result<(), StageError> {
        if updates.len() != self.0.len() {
            let (saved, own) = (updates.len(), self.0.len());
            let text = format!("the checkpoint has {saved} optimisers, but the training has {own}");
            return Err(TorchError::Input(text).into());
        }
        let mut pairs = self.each_mut().zip(updates);
        pairs.try_for_each(|(adamw, updates)| adamw.restore(*updates, &mut recall))
    }
}

/// The parameters that a phase trains, in the order of [`Trainee::parameters`].
pub fn of_phase<T: Trainee>(trainee: &T, phase: usize) -> Vec<(String, Tensor)> {
    let mut parameters = trainee.parameters();
    parameters.retain(|(name, _)| T::phase_of(name) == phase);
    parameters
}
