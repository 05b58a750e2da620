//! Compares a synthesis with a recording of the same sentence, frame by frame.

use super::align::align;
use super::cepstrum::{cepstra, distortion};
use super::pitch::{self, Range};

/// The differences between a synthesis and its recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The mean mel-cepstral distortion over the aligned frames, in decibels.
    pub mcd: f64,
    /// Over aligned frames that are voiced on both sides, in hertz.
    pub f0_rmse: Option<f64>,
    /// Of the pitches of the same frames; None if one side is constant.
    pub f0_correlation: Option<f64>,
    /// The share of aligned frames that are voiced on one side only.
    pub voicing_difference: f64,
    /// The length of the synthesis divided by that of the recording.
    pub length_ratio: f64,
}

/// With fewer aligned voiced frames (0.1 s), the pitch is not compared.
const LEAST_VOICED: usize = 10;

/// Compares samples at `frames::RATE`.
pub fn compare(synthesis: &[f64], reference: &[f64], range: Range) -> Comparison {
    let (spoken, recorded) = (cepstra(synthesis), cepstra(reference));
    let cost = |row: usize, column: usize| distortion(&spoken[row], &recorded[column]);
    let path = align(spoken.len(), recorded.len(), cost);
    let frames = path.len() as f64;
    let total: f64 = path.iter().map(|(row, column)| cost(*row, *column)).sum();
    let (own, other) = (pitch::track(synthesis, range), pitch::track(reference, range));
    let pitches = || path.iter().map(|(row, column)| (own[*row], other[*column]));
    let voiced: Vec<(f64, f64)> = pitches().filter_map(|(own, other)| own.zip(other)).collect();
    let enough = (voiced.len() >= LEAST_VOICED).then_some(&voiced);
    let differ = pitches().filter(|(own, other)| own.is_some() != other.is_some()).count();
    Comparison {
        mcd: total / frames,
        f0_rmse: enough.map(|voiced| rmse(voiced)),
        f0_correlation: enough.and_then(|voiced| correlation(voiced)),
        voicing_difference: differ as f64 / frames,
        length_ratio: synthesis.len() as f64 / reference.len().max(1) as f64,
    }
}

fn rmse(pairs: &[(f64, f64)]) -> f64 {
    let squares: f64 = pairs.iter().map(|(one, other)| (one - other).powi(2)).sum();
    (squares / pairs.len() as f64).sqrt()
}

/// Pearson's correlation.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let count = pairs.len() as f64;
    let (one, other) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let (one, other) = (one / count, other / count);
    let mut sums = [0.0; 3];
    for pair in pairs {
        let (x, y) = (pair.0 - one, pair.1 - other);
        sums[0] += x * y;
        sums[1] += x * x;
        sums[2] += y * y;
    }
    let scale = (sums[1] * sums[2]).sqrt();
    (scale > 1e-9 * count).then(|| (sums[0] / scale).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::frames::RATE;

    /// A voice with a pitch that moves while its vowel changes: harmonics under a moving resonance.
    fn sentence(seconds: f64, from: f64, to: f64) -> Vec<f64> {
        let count = (seconds * f64::from(RATE)) as usize;
        let mut turn = 0.0;
        let sample = |at: usize| {
            let place = at as f64 / count as f64;
            let hertz = from + (to - from) * place;
            turn += std::f64::consts::TAU * hertz / f64::from(RATE);
            let resonance = 500.0 + 1_500.0 * place;
            let harmonic = |number: i32| {
                let away = (f64::from(number) * hertz - resonance) / 400.0;
                (f64::from(number) * turn).sin() * 0.2 / (1.0 + away * away)
            };
            (1..=25).map(harmonic).sum()
        };
        (0..count).map(sample).collect()
    }

    fn against(synthesis: &[f64], reference: &[f64]) -> Comparison {
        compare(synthesis, reference, Range::default())
    }

    #[test]
    fn a_recording_is_as_it_is_itself() {
        let voice = sentence(1.0, 150.0, 100.0);
        let found = against(&voice, &voice);
        assert_eq!((found.mcd, found.f0_rmse), (0.0, Some(0.0)));
        assert!((found.f0_correlation.unwrap_or_default() - 1.0).abs() < 1e-12);
        assert_eq!((found.voicing_difference, found.length_ratio), (0.0, 1.0));
    }

    #[test]
    fn the_same_speech_later_slower_and_softer_is_close_and_other_speech_is_not() {
        let voice = sentence(1.0, 150.0, 100.0);
        let mut later = vec![0.0; 1_600];
        later.extend(&voice);
        let softer: Vec<f64> = voice.iter().map(|sample| sample * 0.5).collect();
        let backwards: Vec<f64> = voice.iter().rev().copied().collect();
        let mcd = |other: &[f64]| against(other, &voice).mcd;
        assert!(mcd(&softer) < 1e-6);
        let other = mcd(&backwards);
        for close in [mcd(&later), mcd(&sentence(1.5, 150.0, 100.0))] {
            assert!(close < 0.25 * other, "{close} beside {other}");
        }
        assert_eq!(against(&sentence(1.5, 150.0, 100.0), &voice).length_ratio, 1.5);
    }

    #[test]
    fn the_pitch_is_compared_where_both_are_voiced() {
        // A constant pitch is equally far away on any path.
        let steady = |hertz: f64| sentence(1.0, hertz, hertz);
        let rmse = against(&steady(132.0), &steady(120.0)).f0_rmse.unwrap_or_default();
        assert!((rmse - 12.0).abs() < 0.5, "{rmse}");
        let falling = sentence(1.0, 150.0, 100.0);
        let alike = against(&sentence(1.0, 165.0, 110.0), &falling).f0_correlation;
        assert!(alike.is_some_and(|found| found > 0.95), "{alike:?}");
        let opposite = against(&sentence(1.0, 100.0, 150.0), &falling).f0_correlation;
        assert!(opposite.is_some_and(|found| found < -0.5), "{opposite:?}");
        let silent = against(&vec![0.0; 16_000], &sentence(1.0, 150.0, 100.0));
        assert_eq!((silent.f0_rmse, silent.f0_correlation), (None, None));
        assert!(silent.voicing_difference > 0.9);
    }

    #[test]
    fn correlation_and_error_have_their_textbook_values() {
        let pairs = [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0)];
        // Deviations -1.5 -0.5 0.5 1.5 and -0.5 -1.5 1.5 0.5: 3 / 5.
        assert_eq!(correlation(&pairs), Some(0.6));
        assert_eq!(rmse(&pairs), 1.0);
        assert_eq!(correlation(&[(1.0, 5.0), (2.0, 5.0)]), None);
    }
}
