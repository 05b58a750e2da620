//! Sentences that are spoken, by whichever model: their audio and what tells it from a bad one.

use std::time::Instant;

use cache::Digest;
use stage_core::{Blob, Context, Item, NewValue, Output, Reject, StageError};
use stage_formats::checkpoint::WEIGHTS;

use crate::error::{TorchError, guarded};
use crate::measure::{Pace, loudness_slope};
use crate::random::scramble;
use crate::wave;

/// What came of a sentence.
pub type Said = Result<Output, Reject>;

pub struct Utterance<'a> {
    pub text: &'a str,
    /// Between -1 and 1.
    pub samples: &'a [f32],
    /// Samples a second.
    pub rate: u32,
    pub frames: usize,
    pub pace: Pace,
    /// When work on it began.
    pub begin: Instant,
}

impl Utterance<'_> {
    /// `audio`, `frames`, `seconds`, `duration_ratio` and `loudness_slope`; what it took is in the
    /// notes.
    pub fn output(&self) -> Result<Output, TorchError> {
        let seconds = self.samples.len() as f64 / f64::from(self.rate);
        let audio = wave::write(self.rate, self.samples)
            .map_err(|error| TorchError::Input(format!("the audio cannot be written: {error}")))?;
        let ratio = seconds / self.pace.seconds(self.text);
        let slope = loudness_slope(self.samples, self.rate);
        let mut output = Output::default()
            .with("audio", NewValue::bytes(wave::KIND, audio))
            .with("frames", NewValue::Number(self.frames as f64))
            .with("seconds", NewValue::Number(seconds))
            .with("duration_ratio", NewValue::Number(ratio))
            .with("loudness_slope", NewValue::Number(slope));
        output.note("milliseconds of audio", (seconds * 1000.0).round() as u64);
        output.note("milliseconds of work", self.begin.elapsed().as_millis() as u64);
        Ok(output)
    }
}

/// Speaks one sentence after the other; `speak` gets each with the weights that it brings.
pub fn speak_each(
    items: &[Item],
    context: &mut dyn Context,
    mut speak: impl FnMut(&Item, Option<&Blob>, &mut dyn Context) -> Result<Said, StageError>,
) -> Result<Vec<Said>, StageError> {
    let mut said = Vec::with_capacity(items.len());
    for item in items {
        if context.stopping() {
            return Err(StageError::Stopped);
        }
        let weights = item.fields.blob(WEIGHTS).map(|blob| &**blob);
        said.push(guarded(|| speak(item, weights, context))?);
    }
    Ok(said)
}

/// A sentence's own random numbers: the same for the same text, whatever else is spoken.
pub fn sentence_seed(seed: u64, text: &str) -> u64 {
    scramble(scramble(seed) ^ Digest::of(text.as_bytes()).start())
}
