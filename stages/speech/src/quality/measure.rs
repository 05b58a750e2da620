//! Measures of a synthesis by itself: levels, pauses, speaking rate and pitch.

use super::frames;
use super::pitch::{self, Range};
use crate::audio::loudness::loudness;
use crate::audio::measure::{Measures, measure};
use crate::audio::{Clip, Fault};
use crate::numbers::quantile;

/// The measures of one recording. One is None if the recording is unsuitable for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    pub levels: Measures,
    /// Integrated loudness after EBU R128, in LUFS.
    pub loudness: Option<f64>,
    /// Characters of the trimmed text per second of the recording.
    pub characters_per_second: Option<f64>,
    pub pitch: Pitch,
}

/// The pitch of a recording as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pitch {
    /// Hertz; None if nothing is voiced.
    pub median: Option<f64>,
    /// From the 5th to the 95th percentile, in semitones.
    pub range: Option<f64>,
    /// The share of frames that have a pitch.
    pub voiced_share: f64,
}

/// Measures a clip of one channel that speaks `text`.
pub fn quality(clip: Clip, text: Option<&str>, range: Range) -> Result<Quality, Fault> {
    let levels = measure(&clip, None);
    let rate = |text: &str| text.trim().chars().count() as f64 / levels.seconds;
    Ok(Quality {
        characters_per_second: text.filter(|_| levels.seconds > 0.0).map(rate),
        loudness: loudness(clip.clone())?.map(|loudness| loudness.lufs()),
        pitch: Pitch::of(&pitch::track(&frames::samples(clip)?, range)),
        levels,
    })
}

impl Pitch {
    fn of(track: &[Option<f64>]) -> Pitch {
        let mut voiced: Vec<f64> = track.iter().copied().flatten().collect();
        let ends = [0.05, 0.95].map(|share| quantile(&mut voiced, share));
        Pitch {
            median: quantile(&mut voiced, 0.5),
            range: ends[0].zip(ends[1]).map(|(low, high)| 12.0 * (high / low).log2()),
            voiced_share: voiced.len() as f64 / track.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pitch_of_a_recording_is_the_median_and_the_range_of_its_voiced_frames() {
        // 100 frames one octave apart, half of all; the percentiles exclude the extremes.
        let voiced = (0..100).map(|at| Some(100.0 * 2_f64.powf(f64::from(at) / 99.0)));
        let track: Vec<Option<f64>> = voiced.chain([None; 100]).collect();
        let pitch = Pitch::of(&track);
        assert_eq!(pitch.voiced_share, 0.5);
        assert!((pitch.median.unwrap_or_default() - 141.4).abs() < 0.1);
        assert!((pitch.range.unwrap_or_default() - 10.8).abs() < 0.01);
        let silent = Pitch { median: None, range: None, voiced_share: 0.0 };
        assert_eq!(Pitch::of(&[None]), silent);
    }
}
