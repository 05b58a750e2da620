//! The fundamental frequency of a voice by YIN (A. de Cheveigné and H. Kawahara, "YIN, a
//! fundamental frequency estimator for speech and music", JASA 111 (4), 2002), steps 1 to 5. A
//! frame without a dip below the threshold is unvoiced; the paper would use its deepest dip.

use super::frames::{self, LENGTH, RATE};
use crate::audio::measure::SILENCE_DBFS;

/// A dip of the normalised difference below this is a period. The paper has 0.1 for clean
/// speech; breathy voices need a little more.
const THRESHOLD: f64 = 0.15;

/// The search range of the pitch, in hertz.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub lowest: f64,
    pub highest: f64,
}

impl Default for Range {
    fn default() -> Self {
        Range { lowest: 60.0, highest: 500.0 }
    }
}

impl Range {
    /// The range of periods, in samples.
    fn periods(&self) -> (usize, usize) {
        let rate = f64::from(RATE);
        let shortest = (rate / self.highest).floor().max(2.0) as usize;
        let longest = (rate / self.lowest).ceil() as usize;
        (shortest, longest.max(shortest + 1))
    }
}

/// The pitch of each frame of samples at `RATE`, in hertz; None if it is unvoiced or silent.
pub fn track(samples: &[f64], range: Range) -> Vec<Option<f64>> {
    let (shortest, longest) = range.periods();
    let of = |frame| {
        let piece = frames::read(samples, frame, LENGTH + longest + 1);
        if is_silent(&piece[..LENGTH]) {
            return None;
        }
        let dips = normalised(&difference(&piece, longest + 1));
        let period = period(&dips, shortest, longest)?;
        Some(f64::from(RATE) / period)
            .filter(|hertz| (range.lowest..=range.highest).contains(hertz))
    };
    (0..frames::count(samples.len())).map(of).collect()
}

fn is_silent(piece: &[f64]) -> bool {
    let power = piece.iter().map(|sample| sample * sample).sum::<f64>() / piece.len() as f64;
    power < 10_f64.powf(SILENCE_DBFS / 10.0)
}

/// The difference function of a piece for each lag up to `longest`: equation 6.
fn difference(piece: &[f64], longest: usize) -> Vec<f64> {
    let mut sums = vec![0.0; longest + 1];
    // The lags are the inner loop, so that the sums do not wait for each other.
    for (at, sample) in piece[..LENGTH].iter().enumerate() {
        for (sum, later) in sums.iter_mut().zip(&piece[at..]) {
            *sum += (sample - later).powi(2);
        }
    }
    sums
}

/// Each difference over the mean of those up to its lag: equation 8.
fn normalised(difference: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let over_mean = difference.iter().enumerate().map(|(lag, value)| {
        sum += value;
        if lag == 0 || sum == 0.0 { 1.0 } else { value * lag as f64 / sum }
    });
    over_mean.collect()
}

/// The minimum of the first dip below the threshold, interpolated by a parabola.
fn period(dips: &[f64], shortest: usize, longest: usize) -> Option<f64> {
    let mut lag = (shortest..=longest).find(|lag| dips[*lag] < THRESHOLD)?;
    while lag < longest && dips[lag + 1] < dips[lag] {
        lag += 1;
    }
    let (before, bottom, behind) = (dips[lag - 1], dips[lag], dips[lag + 1]);
    let bend = before - 2.0 * bottom + behind;
    let shift = if bend > 0.0 { 0.5 * (before - behind) / bend } else { 0.0 };
    Some(lag as f64 + shift.clamp(-0.5, 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: usize = RATE as usize;

    /// A voice-like sum of ten harmonics of a tone that moves from one frequency to another.
    fn voice(from: f64, to: f64) -> Vec<f64> {
        let mut turn = 0.0;
        let sample = |at: usize| {
            let hertz = from + (to - from) * at as f64 / SECOND as f64;
            turn += std::f64::consts::TAU * hertz / f64::from(RATE);
            (1..=10).map(|harmonic| (turn * f64::from(harmonic)).sin() / 20.0).sum()
        };
        (0..SECOND).map(sample).collect()
    }

    fn voiced(samples: &[f64]) -> Vec<f64> {
        track(samples, Range::default()).into_iter().flatten().collect()
    }

    #[test]
    fn a_voice_of_known_pitch_has_it_in_every_frame() {
        for hertz in [70.0, 117.3, 220.0, 431.0] {
            let found = voiced(&voice(hertz, hertz));
            // The last frames extend beyond the end.
            assert!(found.len() >= 95, "{hertz}: {} frames", found.len());
            let worst = found.iter().map(|found| (found / hertz - 1.0).abs()).fold(0.0, f64::max);
            assert!(worst < 0.01, "{hertz}: off by {worst}");
        }
    }

    #[test]
    fn a_rising_voice_is_followed() {
        let found = track(&voice(100.0, 200.0), Range::default());
        for (frame, hertz) in [(10, 110.0), (50, 150.0), (80, 180.0)] {
            // A frame covers up to 42 ms, in which the pitch rises by 4 Hz.
            let off = found[frame].map_or(f64::INFINITY, |found| (found - hertz).abs());
            assert!(off < 5.0, "frame {frame}: {:?}", found[frame]);
        }
    }

    #[test]
    fn noise_and_silence_have_no_pitch() {
        let mut state = 1_u64;
        let noise = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / f64::from(1_u32 << 31) - 0.5
        };
        let noise: Vec<f64> = (0..SECOND).map(noise).collect();
        assert!(voiced(&noise).is_empty());
        assert!(voiced(&vec![0.0; SECOND]).is_empty());
        let hum: Vec<f64> = voice(120.0, 120.0).iter().map(|sample| sample * 0.001).collect();
        assert!(voiced(&hum).is_empty(), "below the level of silence");
    }

    #[test]
    fn a_pitch_outside_the_range_is_none() {
        let range = Range { lowest: 60.0, highest: 150.0 };
        assert!(track(&voice(140.0, 140.0), range).iter().flatten().count() > 90);
        let low = Range { lowest: 200.0, highest: 500.0 };
        let found = track(&voice(110.0, 110.0), low);
        assert_eq!(found.iter().flatten().count(), 0);
    }

    #[test]
    fn short_clips_have_one_frame() {
        for count in [0, 1, 399, 400] {
            assert_eq!(track(&vec![0.1; count], Range::default()).len(), 1, "{count}");
        }
    }
}
