//! The two networks for the shared trainer: the discriminator is trained in the first phase of a
//! step, the generator in the second one, against the updated discriminator.

use stage_families::vits::DISCRIMINATOR_PREFIX;
use tch::Tensor;

use super::losses::{self, MEL};
use super::show;
use super::train::{Network, Networks};
use super::{ClipTensors, GeneratorOutput, VitsBatch};
use crate::error::TorchError;
use crate::train::{Losses, Means, Phase, Totals, Trainee, samples};

/// The seed of the segments and the noise of held-out clips: the same at every validation.
const HELD_OUT: u64 = 0;

/// The phase of the discriminator.
pub const JUDGING: usize = 0;

#[derive(Debug)]
pub struct VitsTrainee {
    nets: Networks,
    /// The output for the discriminator that the generator uses next.
    kept: Option<GeneratorStep>,
}

#[derive(Debug)]
struct GeneratorStep {
    step_seed: u64,
    keys: Vec<u64>,
    made: GeneratorOutput,
}

impl VitsTrainee {
    pub fn new(nets: Networks) -> VitsTrainee {
        VitsTrainee { nets, kept: None }
    }

    fn place(&self, batch: &VitsBatch) -> Result<ClipTensors, TorchError> {
        batch.place(self.nets.generator(), self.nets.analysis())
    }

    fn judge(&mut self, batch: &VitsBatch, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        self.kept = None;
        let clips = self.place(batch)?;
        let make = || self.nets.make(&clips, phase.step_seed);
        // Without a backward pass no graph is needed.
        let made = if phase.is_followed { make()? } else { tch::no_grad(make)? };
        let losses = self.nets.judge(&made, phase.totals);
        let (step_seed, keys) = (phase.step_seed, clips.keys);
        self.kept = phase.is_followed.then_some(GeneratorStep { step_seed, keys, made });
        Ok(losses)
    }

    fn speak(&mut self, batch: &VitsBatch, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        let made = match self.kept.take() {
            Some(kept) if kept.is_of(batch, phase) => kept.made,
            _ => self.nets.make(&self.place(batch)?, phase.step_seed)?,
        };
        let faded = self.nets.options().faded(phase.step);
        self.nets.speak_faded(&made, phase.totals, faded)
    }
}

impl GeneratorStep {
    fn is_of(&self, batch: &VitsBatch, phase: &Phase<'_>) -> bool {
        self.step_seed == phase.step_seed
            && self.keys.iter().eq(batch.clips.iter().map(|clip| &clip.key))
    }
}

impl Trainee for VitsTrainee {
    type Batch = VitsBatch;
    type Network = Networks;

    fn network(&self) -> &Networks {
        &self.nets
    }

    fn network_mut(&mut self) -> &mut Networks {
        &mut self.nets
    }

    /// Those of the generator; the discriminator is always trained.
    fn frozen(&self) -> Vec<(String, Tensor)> {
        let own = self.nets.frozen().iter();
        own.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect()
    }

    const PHASES: &'static [&'static str] = &["discriminator", "generator"];

    fn has_phase(&self, phase: usize) -> bool {
        phase != JUDGING || self.nets.has_discriminator()
    }

    fn phase_of(parameter: &str) -> usize {
        if parameter.starts_with(DISCRIMINATOR_PREFIX) { JUDGING } else { JUDGING + 1 }
    }

    fn parameters(&self) -> Vec<(String, Tensor)> {
        let own = [Network::Generator, Network::Discriminator]
            .map(|net| self.nets.parameters(net).iter());
        let all = own.into_iter().flatten();
        let mut parameters: Vec<(String, Tensor)> =
            all.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
        parameters.sort_by(|one, other| one.0.cmp(&other.0));
        parameters
    }

    fn accumulate(&mut self, batch: &VitsBatch, phase: &Phase<'_>) -> Result<Losses, TorchError> {
        match phase.number {
            JUDGING => self.judge(batch, phase),
            _ => self.speak(batch, phase),
        }
    }

    /// Those of the generator.
    fn evaluate(&self, batch: &VitsBatch) -> Result<Losses, TorchError> {
        self.nets.evaluate(&self.place(batch)?, HELD_OUT)
    }

    /// Sound of each clip's text, and pictures of the first clip.
    fn show(&self, batch: &VitsBatch, number: usize) -> Result<samples::NamedSamples, TorchError> {
        let clips = self.place(batch)?;
        let mut shown = show::sound(&self.nets, &clips, number)?;
        if number == 0 {
            shown.extend(show::pictures(&self.nets, &clips, HELD_OUT)?);
        }
        Ok(shown)
    }

    fn count(batch: &VitsBatch) -> Totals {
        let [tokens, frames] = batch.lengths();
        losses::totals([tokens, frames, batch.clips.len() as u64])
    }

    /// The weighted losses of the generator; NaN if it was not its phase.
    fn total(&self, means: &Means) -> f64 {
        let weights = &self.nets.options().weights;
        match means.of(MEL) {
            Some(_) => weights.total(means),
            None => f64::NAN,
        }
    }

    /// The mel spectrogram loss: the other losses are against a network that is trained too.
    fn score(&self, means: &Means) -> f64 {
        means.of(MEL).unwrap_or(f64::NAN)
    }
}
