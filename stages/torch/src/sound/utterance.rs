//! Synthesised sentences of any model: their audio and quality signs.

use std::ops::Range;
use std::time::Duration;

use cache::Digest;
use stage_core::{Blob, Context, Item, NewValue, Output, Reject, StageError};
use stage_formats::checkpoint::WEIGHTS;

use crate::error::TorchError;
use crate::nn::random::scramble;
use crate::sound::measure::{SpeakingRate, loudness_slope};
use crate::sound::wave;

/// The result of a sentence.
pub type SentenceResult = Result<Output, Reject>;

pub struct Utterance<'a> {
    pub text: &'a str,
    /// Between -1 and 1.
    pub samples: &'a [f32],
    /// Samples a second.
    pub rate: u32,
    pub frames: usize,
    pub pace: SpeakingRate,
    /// Its share of the time of a batch.
    pub work: Duration,
}

impl Utterance<'_> {
    /// `audio`, `frames`, `seconds`, `duration_ratio` and `loudness_slope`; times are in the notes.
    /// Samples that are not finite would be written as silence: the sentence is rejected.
    pub fn output(&self) -> Result<SentenceResult, TorchError> {
        if !self.samples.iter().all(|sample| sample.is_finite()) {
            let reason = "the output of the model for this text is not finite: its weights are \
                          damaged, or too large for the `precision`";
            return Ok(Err(Reject::new("not-finite", reason)));
        }
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
        output.note("milliseconds of work", self.work.as_millis() as u64);
        Ok(Ok(output))
    }
}

/// Synthesises one sentence after the other; `speak` gets each with its own weights.
pub fn speak_each(
    items: &[Item],
    context: &mut dyn Context,
    mut speak: impl FnMut(&Item, Option<&Blob>, &mut dyn Context) -> Result<SentenceResult, StageError>,
) -> Result<Vec<SentenceResult>, StageError> {
    let mut said = Vec::with_capacity(items.len());
    for item in items {
        if context.stopping() {
            return Err(StageError::Stopped);
        }
        said.push(speak(item, weights(item), context)?);
    }
    Ok(said)
}

/// Synthesises sentences with the same weights together. `speak` gets them with these weights, and
/// returns the result of each.
pub fn speak_batches(
    items: &[Item],
    context: &mut dyn Context,
    mut speak: impl FnMut(
        &[Item],
        Option<&Blob>,
        &mut dyn Context,
    ) -> Result<Vec<SentenceResult>, StageError>,
) -> Result<Vec<SentenceResult>, StageError> {
    let mut said = Vec::with_capacity(items.len());
    for range in runs(items) {
        if context.stopping() {
            return Err(StageError::Stopped);
        }
        let items = &items[range];
        let weights = items.first().and_then(weights);
        said.extend(speak(items, weights, context)?);
    }
    Ok(said)
}

/// Runs of successive items with the same weights.
fn runs(items: &[Item]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let digest = |item: &Item| weights(item).map(|blob| blob.digest);
        match runs.last_mut() {
            Some(run) if digest(&items[run.start]) == digest(item) => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

fn weights(item: &Item) -> Option<&Blob> {
    item.fields.blob(WEIGHTS).map(|blob| &**blob)
}

/// The factor of a sentence on the speed of all.
///
/// # Errors
///
/// A reject if nothing can be spoken at that speed.
pub fn own_speed(item: &Item) -> Result<f64, Reject> {
    let speed = item.fields.number("speed").unwrap_or(1.0);
    if (0.05..=20.0).contains(&speed) {
        Ok(speed)
    } else {
        Err(Reject::new("speed", format!("its `speed` is {speed}, expected 0.05 to 20")))
    }
}

/// A sentence that the model ended before it spoke is drawn again at most this often.
const MAX_REDRAWS: u32 = 3;

/// The seed of another attempt at a sentence with this seed.
pub fn redraw_seed(seed: u64, attempt: u32) -> u64 {
    sentence_seed(seed, &format!("attempt {attempt}"))
}

/// Draws what is silent again. `draw` gets the places to draw and the number of the attempt, and
/// returns a result for each. What was spoken at first stays, in any batch.
pub fn redraw_silent<T, E>(
    drawn: &mut [T],
    is_silent: impl Fn(&T) -> bool,
    mut draw: impl FnMut(&[usize], u32) -> Result<Vec<T>, E>,
) -> Result<(), E> {
    for attempt in 1..=MAX_REDRAWS {
        let silent: Vec<usize> = (0..drawn.len()).filter(|at| is_silent(&drawn[*at])).collect();
        if silent.is_empty() {
            break;
        }
        for (at, again) in silent.iter().zip(draw(&silent, attempt)?) {
            drawn[*at] = again;
        }
    }
    Ok(())
}

/// The reject of a sentence that stays silent in all attempts. `part`: the words of a part of it.
pub fn silent(part: Option<&str>) -> Reject {
    let attempts = MAX_REDRAWS + 1;
    let part = part.map(|part| format!(" {part:?}")).unwrap_or_default();
    let reason = format!(
        "the model ended before it spoke{part}, in {attempts} attempts: it needs more training for \
         this text"
    );
    Reject::new("silent", reason)
}

/// A sentence's own random numbers: the same for the same text, independent of other sentences.
pub fn sentence_seed(seed: u64, text: &str) -> u64 {
    scramble(scramble(seed) ^ Digest::of(text.as_bytes()).start())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_silent_sentences_are_drawn_again_a_few_times() {
        let mut drawn = vec![7, 0, 0, 9];
        let mut asked = Vec::new();
        let draw = |places: &[usize], attempt| {
            asked.push((places.to_vec(), attempt));
            // The third sentence is spoken at the second attempt, the second one never.
            Ok::<_, ()>(places.iter().map(|at| u32::from(*at == 2 && attempt == 2)).collect())
        };
        redraw_silent(&mut drawn, |length| *length == 0, draw).unwrap();
        assert_eq!(drawn, [7, 0, 1, 9]);
        assert_eq!(asked, [(vec![1, 2], 1), (vec![1, 2], 2), (vec![1], 3)]);
        let seeds: Vec<u64> = (1..=3).map(|attempt| redraw_seed(5, attempt)).collect();
        assert!(!seeds.contains(&5) && seeds[0] != seeds[1] && seeds[1] != seeds[2]);
        assert_eq!(seeds[0], redraw_seed(5, 1));
    }

    fn said(samples: &[f32]) -> SentenceResult {
        let pace = SpeakingRate { characters_per_second: 15.0 };
        let work = Duration::ZERO;
        Utterance { text: "on aika", samples, rate: 16_000, frames: 4, pace, work }
            .output()
            .unwrap()
    }

    #[test]
    fn a_sentence_may_have_a_speed_of_its_own() {
        let speed = |speed: Option<f64>| {
            let field = speed.map(|speed| ("speed", stage_core::Value::Number(speed)));
            own_speed(&Item::new("a", field.into_iter().collect())).map_err(|reject| reject.code)
        };
        assert_eq!(speed(None), Ok(1.0));
        assert_eq!(speed(Some(2.0)), Ok(2.0));
        for bad in [0.0, -1.0, 21.0, f64::NAN] {
            assert_eq!(speed(Some(bad)), Err("speed".to_owned()), "{bad}");
        }
    }

    #[test]
    fn samples_that_are_no_numbers_are_rejected_and_not_written_as_silence() {
        assert!(said(&[0.1; 4_000]).is_ok());
        for bad in [f32::NAN, f32::INFINITY] {
            let mut samples = vec![0.1; 4_000];
            samples[3_999] = bad;
            let reject = said(&samples).unwrap_err();
            assert_eq!(reject.code, "not-finite");
            assert!(reject.reason.contains("for this text is not finite"), "{reject}");
        }
    }
}
