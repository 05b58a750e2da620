//! Samples: the outputs of a model for a few held-out clips during training, to look at and listen
//! to.
//!
//! The same training makes the same samples, however often it was interrupted: the clips, steps and
//! noise follow from the settings alone, and samples are part of every checkpoint.

use stage_core::Blob;
use stage_formats::FormatError;
use stage_formats::picture::Picture;
use stage_formats::tensorboard::{Audio, EventWriter, Moment};
use tch::{Kind, Tensor};

use super::settings::Settings;
use crate::error::TorchError;
use crate::{sound::mel, sound::wave};

/// The largest number of validations with samples, besides the one before the first step.
const MOMENTS: u64 = 16;

/// The number of held-out clips with samples.
const CLIPS: usize = 3;

/// The samples of a clip by name: sound between -1 and 1, `[samples]`, or a picture as grey lines
/// from bottom to top, `[height, width]` of bytes.
pub type NamedSamples = Vec<(String, Tensor)>;

/// A stored tensor of [`NamedSamples`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub step: u64,
    pub tag: String,
    pub kept: Blob,
}

/// Tests if the validation at a step makes samples. `ended` means early stopping.
pub fn is_due(step: u64, settings: &Settings, ended: bool) -> bool {
    let every = settings.validate_every.max(1);
    let stride = settings.steps.div_ceil(every).div_ceil(MOMENTS).max(1);
    ended || step >= settings.steps || step.is_multiple_of(every * stride)
}

/// The indices of the sampled rows among this number of rows sorted by length: short, medium, and
/// long.
pub fn places(rows: usize) -> Vec<usize> {
    let count = rows.min(CLIPS);
    (0..count).map(|number| (2 * number + 1) * rows / (2 * count)).collect()
}

/// A sample for an event file.
#[derive(Debug)]
pub struct EventSample {
    pub step: u64,
    pub tag: String,
    pub tensor: Tensor,
    /// The sample rate of sound, in Hz.
    pub rate: u32,
}

impl EventSample {
    pub fn write(&self, at: Moment, writer: &mut EventWriter<Vec<u8>>) -> Result<(), TorchError> {
        match self.tensor.size()[..] {
            [_, width] => {
                let bytes = Vec::<u8>::try_from(self.tensor.contiguous().view(-1))?;
                let picture = Picture::draw(width as usize, &bytes)?;
                Ok(writer.image(at, &self.tag, picture.image())?)
            }
            _ => {
                let samples = mel::to_vec(&self.tensor);
                let unwritten = |_: hound::Error| FormatError::Unsupported {
                    message: "a sample cannot be written as WAV".to_owned(),
                };
                let wav = wave::write(self.rate, &samples).map_err(unwritten)?;
                let frames = samples.len() as u64;
                let audio = Audio { rate: self.rate, channels: 1, frames, wav: &wav };
                Ok(writer.audio(at, &self.tag, audio)?)
            }
        }
    }
}

/// A picture of [lines, columns], black at `least` and below, white at `most` and above.
pub fn picture(x: &Tensor, least: f64, most: f64) -> Tensor {
    let width = (most - least).max(f64::MIN_POSITIVE);
    let grey = (x.to_kind(Kind::Double) - least) * (255.0 / width);
    grey.nan_to_num(0.0, 255.0, 0.0).round().clamp(0.0, 255.0).to_kind(Kind::Uint8)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::train::tests::settings;

    #[test]
    fn clips_of_all_lengths_are_taken_and_none_twice() {
        assert_eq!(places(0), [0; 0]);
        assert_eq!(places(1), [0]);
        assert_eq!(places(2), [0, 1]);
        assert_eq!(places(3), [0, 1, 2]);
        assert_eq!(places(30), [5, 15, 25]);
    }

    #[test]
    fn a_long_training_makes_samples_at_few_of_its_validations() {
        let settings = Settings { steps: 100, validate_every: 2, ..settings() };
        let due: Vec<u64> =
            (0..=50).map(|at| 2 * at).filter(|step| is_due(*step, &settings, false)).collect();
        let every_eighth = (0..=12).map(|at| 8 * at).chain([100]);
        assert_eq!(due, every_eighth.collect::<Vec<_>>());
        assert!(is_due(6, &settings, true), "the end comes before it was to come");
        let short = Settings { steps: 12, validate_every: 4, ..settings };
        assert!([0, 4, 8, 12].into_iter().all(|step| is_due(step, &short, false)));
    }

    #[test]
    fn a_picture_has_its_darkest_and_its_brightest_value() {
        let x = Tensor::from_slice(&[-3.0f32, 0.0, 1.0, 2.0, 9.0, f32::NAN]).view([2, 3]);
        let greys = picture(&x, 0.0, 2.0);
        assert_eq!(greys.size(), [2, 3]);
        assert_eq!(Vec::<u8>::try_from(greys.view(-1)).unwrap(), [0, 0, 128, 255, 255, 0]);
        // Silence has one value only.
        assert_eq!(picture(&x, 1.0, 1.0).size(), [2, 3]);
    }
}
