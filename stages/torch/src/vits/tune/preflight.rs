//! Checks before hours of training: the losses are finite, a step can be made, saved and resumed,
//! and the model is audible.

use stage_core::{Context, StageError};
use tch::Kind;

use super::clip::{VitsClips, VitsData};
use crate::error::caught;
use crate::train::Trainee;
use crate::train::run::{Data, Purpose};
use crate::vits::artifact::VitsModel;
use crate::vits::{SeededNormal, SynthesisSettings, Vits, VitsTrainee};

/// The lowest root mean square of the sound of a trained model.
const SILENCE: f64 = 1e-4;

pub struct VitsPreflight<'a> {
    pub base: &'a VitsModel,
    pub clips: &'a VitsClips,
}

impl VitsPreflight<'_> {
    /// Reports the losses of the base, and refuses NaN.
    pub fn look(
        &self,
        trainee: &VitsTrainee,
        data: &VitsData<'_>,
        context: &mut dyn Context,
    ) -> Result<(), StageError> {
        let rows: Vec<Vec<usize>> = (0..self.clips.clips.len()).map(|clip| vec![clip]).collect();
        let batch = data.batch(&rows, Purpose::HeldOut)?;
        let means = trainee.evaluate(&batch)?.means(&VitsTrainee::count(&batch));
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

    /// Synthesises the text of a clip: a base with a lost decoder is silent.
    pub fn speak(&self, model: &Vits) -> Result<(), StageError> {
        let Some(clip) = self.clips.clips.first() else { return Ok(()) };
        let texts = model.texts(&[clip.content.tokens().to_vec()])?;
        let speakers = clip.content.speaker().map(|speaker| vec![speaker]);
        let mut noise = SeededNormal::new(vec![0]);
        let settings = SynthesisSettings::of(&model.config);
        let spoken = caught(|| model.speak(&texts, speakers.as_deref(), &settings, &mut noise));
        // An untrained model may ask for hours.
        let spoken = match spoken {
            Err(_) if self.base.lineage.random => return Ok(()),
            spoken => spoken?,
        };
        let square = spoken.waves[0].square().mean(Kind::Double).double_value(&[]);
        if self.base.lineage.random || square.sqrt() > SILENCE {
            Ok(())
        } else {
            Err(StageError::with_help(
                format!("the base is silent: its audio has a level of {}", square.sqrt()),
                "the weights of its decoder are lost: import the published files again",
            ))
        }
    }
}
