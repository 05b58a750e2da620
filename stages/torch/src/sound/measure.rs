//! Automatic signs of a bad synthesis: its duration relative to its text, and fading.

use stage_core::{Parameters, StageError};

/// The length of the windows for measuring levels, in seconds.
const PIECE_SECONDS: f64 = 0.1;

/// Windows this far below the loudest one are pauses.
const GATE_DECIBEL: f64 = 40.0;

/// The speaking rate of a language.
#[derive(Clone, Copy, Debug)]
pub struct SpeakingRate {
    pub characters_per_second: f64,
}

impl SpeakingRate {
    pub fn read(parameters: &Parameters) -> Result<SpeakingRate, StageError> {
        Ok(SpeakingRate { characters_per_second: parameters.number("characters_per_second")? })
    }

    /// At least half a second: a single word is spoken slowly.
    pub fn seconds(&self, text: &str) -> f64 {
        (text.trim().chars().count() as f64 / self.characters_per_second).max(0.5)
    }
}

/// The expected and allowed durations of texts.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    pub pace: SpeakingRate,
    pub frames_per_second: f64,
    /// A sentence does not end before this multiple of its expected duration.
    pub least: f64,
    /// A sentence is cut off at this multiple of its expected duration.
    pub limit: f64,
    /// The limit for all sentences.
    pub max_frames: Option<usize>,
}

impl Expectation {
    /// The frame at which a sentence is cut off.
    pub fn limit(&self, text: &str) -> usize {
        let frames =
            (self.pace.seconds(text) * self.limit * self.frames_per_second).ceil().max(1.0);
        (frames as usize).min(self.max_frames.unwrap_or(usize::MAX))
    }

    /// The frame before which a sentence does not end.
    pub fn least(&self, text: &str) -> usize {
        let frames = (self.pace.seconds(text) * self.least * self.frames_per_second).floor();
        (frames as usize).min(self.limit(text))
    }
}

/// The trend of the loudness in dB per second: the slope of the regression line through the levels
/// of all windows except pauses. 0 if there are too few of them.
pub fn loudness_slope(samples: &[f32], rate: u32) -> f64 {
    let length = (f64::from(rate) * PIECE_SECONDS) as usize;
    let levels: Vec<f64> = samples.chunks_exact(length.max(1)).map(level).collect();
    let loudest = levels.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let points = levels.iter().enumerate().filter(|(_, level)| **level > loudest - GATE_DECIBEL);
    let points: Vec<(f64, f64)> =
        points.map(|(at, level)| (at as f64 * PIECE_SECONDS, *level)).collect();
    slope(&points)
}

fn level(piece: &[f32]) -> f64 {
    let power: f64 = piece.iter().map(|sample| f64::from(*sample).powi(2)).sum();
    10.0 * (power / piece.len() as f64).log10()
}

/// The slope of the least-squares line.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    if spread > 0.0 { both / spread } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(seconds: f64, decibel_per_second: f64) -> Vec<f32> {
        let sample = |at: usize| {
            let time = at as f64 / 8_000.0;
            let gain = 10f64.powf(decibel_per_second * time / 20.0);
            (0.5 * gain * (time * 2_000.0).sin()) as f32
        };
        (0..(seconds * 8_000.0) as usize).map(sample).collect()
    }

    #[test]
    fn the_slope_is_that_of_the_level_and_pauses_do_not_count() {
        assert!(loudness_slope(&tone(2.0, 0.0), 8_000).abs() < 0.05);
        assert!((loudness_slope(&tone(2.0, -6.0), 8_000) + 6.0).abs() < 0.1);
        let mut paused = tone(2.0, -6.0);
        paused[8_000..9_600].fill(0.0);
        assert!((loudness_slope(&paused, 8_000) + 6.0).abs() < 0.1);
    }

    #[test]
    fn silence_and_nothing_have_no_slope() {
        for samples in [&[][..], &[0.0; 100], &[0.0; 8_000]] {
            assert_eq!(loudness_slope(samples, 8_000), 0.0);
        }
    }

    #[test]
    fn a_text_ends_between_two_multiples_of_what_it_would_take() {
        let mut expectation = Expectation {
            pace: SpeakingRate { characters_per_second: 10.0 },
            frames_per_second: 20.0,
            least: 0.5,
            limit: 3.0,
            max_frames: None,
        };
        let text = "kaksikymmentä merkkiä.."; // 23 characters
        assert_eq!(expectation.limit(text), 138);
        assert_eq!(expectation.limit("a"), 30);
        assert_eq!((expectation.least(text), expectation.least("a")), (23, 5));
        assert_eq!((expectation.pace.seconds(text), expectation.pace.seconds("a")), (2.3, 0.5));
        expectation.max_frames = Some(100);
        assert_eq!(expectation.limit(text), 100);
        expectation.least = 9.0;
        assert_eq!(expectation.least(text), 100);
    }
}
