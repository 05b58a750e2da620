//! Checks before hours of training: the losses are finite, a step can be made, saved and resumed,
//! and the model is audible.

use stage_core::{Context, StageError};
use tch::Kind;

use super::clip::Clips;
use super::unmoved;
use crate::train::frozen::check_frozen;
use crate::train::run::{Data, Purpose};
use crate::train::{Settings, Trainee, rehearsal};
use crate::vits::artifact::Model;
use crate::vits::{Seeded, SynthesisSettings, Vits, VitsTrainee};

/// The number of checked clips.
const CLIPS: usize = 8;

/// The lowest root mean square of the sound of a trained model.
const SILENCE: f64 = 1e-4;

pub struct Preflight<'a> {
    base: &'a Model,
    clips: Clips,
}

impl<'a> Preflight<'a> {
    pub fn new(base: &'a Model, clips: &Clips) -> Preflight<'a> {
        Preflight { base, clips: clips.sample(CLIPS) }
    }

    /// Reports the losses of the base, and refuses NaN.
    pub fn look(&self, trainee: &VitsTrainee, context: &mut dyn Context) -> Result<(), StageError> {
        let rows: Vec<Vec<usize>> = (0..self.clips.clips.len()).map(|clip| vec![clip]).collect();
        let batch = self.clips.data(&self.base.config).batch(&rows, Purpose::HeldOut)?;
        let means = trainee.evaluate(&batch)?.means(&VitsTrainee::count(&batch))?;
        let named: Vec<(String, f64)> =
            means.0.iter().map(|(name, mean)| (format!("preflight/{name}"), *mean)).collect();
        let told: Vec<(&str, f64)> = named.iter().map(|(name, mean)| (&**name, *mean)).collect();
        context.metrics(0, &told);
        match named.iter().find(|(_, mean)| !mean.is_finite()) {
            None => Ok(()),
            Some((name, mean)) => Err(StageError::with_help(
                format!("before training `{name}` is {mean}"),
                "the base is damaged, or its values are too large for the precision: try \
                 `precision = \"f32\"`",
            )),
        }
    }

    /// Makes two steps, and again with a stop, a save and a reload between them; then everything is
    /// as before.
    pub fn rehearse(
        &self,
        replicas: &mut [VitsTrainee],
        settings: &Settings,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let before = unmoved(&replicas[0])?;
        let data = self.clips.data(&self.base.config);
        rehearsal::rehearse(replicas, &data, &self.clips.order(), settings, context)?;
        check_frozen(&before, &unmoved(&replicas[0])?)
    }

    /// Synthesises the text of a clip: a base with a lost decoder is silent.
    pub fn speak(&self, model: &Vits) -> Result<(), StageError> {
        let Some(clip) = self.clips.clips.first() else { return Ok(()) };
        let texts = model.texts(&[clip.tokens().to_vec()])?;
        let speakers = clip.speaker().map(|speaker| vec![speaker]);
        let mut noise = Seeded::new(vec![0]);
        let spoken = model.speak(
            &texts,
            speakers.as_deref(),
            &SynthesisSettings::of(&model.config),
            &mut noise,
        );
        // An untrained model may ask for hours.
        let spoken = match spoken {
            Err(_) if self.base.lineage.random => return Ok(()),
            spoken => spoken?,
        };
        let square = spoken.waves[0].square().mean(Kind::Double).double_value(&[]);
        match self.base.lineage.random || square.sqrt() > SILENCE {
            true => Ok(()),
            false => Err(StageError::with_help(
                format!("the base is silent: its audio has a level of {}", square.sqrt()),
                "the weights of its decoder are lost: import the published files again",
            )),
        }
    }
}
