//! Checks before hours of training: the losses are finite, the base is better than guessing, and a
//! step can be made, saved and resumed.

use stage_core::{Context, StageError};

use super::base::Base;
use super::clip::{ClipData, Clips};
use super::plan::Plan;
use crate::train::frozen::{check_frozen, frozen};
use crate::train::losses::Means;
use crate::train::run::{Data, Purpose};
use crate::train::{Settings, Trainee, rehearsal};
use crate::xtts::{AUDIO, GptTrainee};

/// The number of checked clips.
const CLIPS: usize = 8;

pub struct Preflight<'a> {
    base: &'a Base,
    plan: &'a Plan,
    clips: Clips,
}

impl<'a> Preflight<'a> {
    pub fn new(base: &'a Base, plan: &'a Plan, clips: &Clips) -> Preflight<'a> {
        Preflight { base, plan, clips: clips.sample(CLIPS) }
    }

    fn data(&self) -> Result<ClipData<'_>, StageError> {
        Ok(ClipData::new(&self.clips, self.base, self.plan.parity, self.plan.layout)?)
    }

    /// The losses on a few clips.
    pub fn losses(&self, trainee: &GptTrainee) -> Result<Means, StageError> {
        let rows: Vec<Vec<usize>> = (0..self.clips.clips.len()).map(|clip| vec![clip]).collect();
        let batch = self.data()?.batch(&rows, Purpose::HeldOut)?;
        let means = trainee.evaluate(&batch)?.means(&GptTrainee::count(&batch))?;
        match means.total().is_finite() {
            true => Ok(means),
            false => Err(StageError::with_help(
                format!("the loss of the base is {}", means.total()),
                "its weights are damaged, or too large for the precision: try `precision = \"f32\"`",
            )),
        }
    }

    /// Reports the losses of the base, and refuses lost weights.
    pub fn look(
        &self,
        trainee: &GptTrainee,
        context: &mut dyn Context,
    ) -> Result<Means, StageError> {
        let means = self.losses(trainee)?;
        let named: Vec<(String, f64)> =
            means.0.iter().map(|(name, mean)| (format!("preflight/{name}"), *mean)).collect();
        let told: Vec<(&str, f64)> = named.iter().map(|(name, mean)| (&**name, *mean)).collect();
        context.metrics(0, &told);
        let guessing = (self.base.config.gpt.audio_tokens as f64).ln();
        let audio = means.of(AUDIO).unwrap_or(0.0);
        match self.base.lineage.random || audio < guessing {
            true => Ok(means),
            false => Err(StageError::with_help(
                format!(
                    "the base knows nothing: its loss over codes is {audio:.2} before training, and \
                     guessing has {guessing:.2}"
                ),
                "its weights were lost, or the tokens are of another DVAE: import the published files \
                 again, and encode the clips with the DVAE of the same model; if it is meant to know \
                 nothing, set `preflight = false`",
            )),
        }
    }

    /// Refuses adapters that change the model before training.
    pub fn check_adapters(&self, without: &Means, with: &Means) -> Result<(), StageError> {
        match without == with {
            true => Ok(()),
            false => Err(StageError::with_help(
                format!(
                    "fresh adapters change the loss of the base from {} to {}",
                    without.total(),
                    with.total()
                ),
                "the base was changed when they were attached; this is a defect: please report it",
            )),
        }
    }

    /// Makes two steps, and again with a stop, a save and a reload between them; then everything is
    /// as before.
    pub fn rehearse(
        &self,
        replicas: &mut [GptTrainee],
        settings: &Settings,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let before = frozen(replicas[0].model().tensors())?;
        let data = self.data()?;
        rehearsal::rehearse(replicas, &data, &self.clips.order(), settings, context)?;
        check_frozen(&before, &frozen(replicas[0].model().tensors())?)
    }
}
