//! Mel cepstra, and the distance between them.
//!
//! The power spectrum of a frame under a Hann window is summed in 40 triangular bands, evenly
//! spread from 0 to 8 kHz on the mel scale `2595 log10(1 + f / 700)`. With `P[k]` the power of band
//! k of K, coefficient m is `1/K sum ln P[k] cos(pi m (k + 1/2) / K)`, as in a minimum-phase
//! cepstrum of the amplitude. With this scale the constant below gives decibels.

use stage_signal::Transform;

use super::frames::{self, LENGTH, RATE};

/// Coefficients c1 to c13: c0, the level, is left out.
pub const ORDER: usize = 13;

const BANDS: usize = 40;

/// The FFT size: the frame, padded with zeros.
const SIZE: usize = 512;

/// Bands further below the loudest band of a recording count as this far below: they are inaudible,
/// and codecs put any values there.
const FLOOR_DB: f64 = 60.0;

pub type Cepstrum = [f64; ORDER];

/// The mel-cepstral distance of two frames in decibels: `10 / ln 10 sqrt(2 sum (c - c')^2)` (R.
/// Kubichek, "Mel-cepstral distance measure for objective speech quality assessment", IEEE Pacific
/// Rim Conference, 1993). It is the root mean square difference of the two spectra over the mel
/// scale, as far as 13 coefficients describe it, and independent of the level.
pub fn distortion(one: &Cepstrum, other: &Cepstrum) -> f64 {
    let squares: f64 = one.iter().zip(other).map(|(one, other)| (one - other).powi(2)).sum();
    10.0 / std::f64::consts::LN_10 * (2.0 * squares).sqrt()
}

/// The cepstrum of each frame of samples at `RATE`.
pub fn cepstra(samples: &[f64]) -> Vec<Cepstrum> {
    let powers = band_powers(samples);
    let loudest = powers.iter().flatten().copied().fold(0.0, f64::max);
    if loudest == 0.0 {
        return vec![[0.0; ORDER]; powers.len()];
    }
    let floor = loudest * 10_f64.powf(-FLOOR_DB / 10.0);
    powers.iter().map(|bands| cepstrum(&bands.map(|power| power.max(floor).ln()))).collect()
}

/// The cosine transform of the logarithms of the bands.
fn cepstrum(logarithms: &[f64; BANDS]) -> Cepstrum {
    let turn = std::f64::consts::PI / BANDS as f64;
    std::array::from_fn(|at| {
        let terms = logarithms.iter().enumerate();
        let cosine = |band: usize| (turn * (at + 1) as f64 * (band as f64 + 0.5)).cos();
        terms.map(|(band, logarithm)| logarithm * cosine(band)).sum::<f64>() / BANDS as f64
    })
}

fn band_powers(samples: &[f64]) -> Vec<[f64; BANDS]> {
    let mut transform = Transform::new(SIZE);
    let turn = std::f64::consts::TAU / LENGTH as f64;
    let bands = bands();
    let of = |frame| {
        let input = transform.input();
        input.fill(0.0);
        for (at, sample) in frames::read(samples, frame, LENGTH).into_iter().enumerate() {
            input[at] = sample * (0.5 - 0.5 * (turn * at as f64).cos());
        }
        let output = transform.run();
        std::array::from_fn(|band: usize| {
            bands[band].iter().map(|(bin, weight)| weight * output[*bin].norm_sqr()).sum()
        })
    };
    (0..frames::count(samples.len())).map(of).collect()
}

/// The bins of each band with their weights: triangles, each from the centre of the previous band
/// to the centre of the next.
fn bands() -> Vec<Vec<(usize, f64)>> {
    let highest = mel(f64::from(RATE) / 2.0);
    let step = highest / (BANDS + 1) as f64;
    let triangle = |band: usize| {
        let middle = step * (band + 1) as f64;
        let weight = |bin: usize| {
            let place = mel(bin as f64 * f64::from(RATE) / SIZE as f64);
            (bin, 1.0 - (place - middle).abs() / step)
        };
        (0..=SIZE / 2).map(weight).filter(|(_, weight)| *weight > 0.0).collect()
    };
    (0..BANDS).map(triangle).collect()
}

fn mel(hertz: f64) -> f64 {
    2_595.0 * (1.0 + hertz / 700.0).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bands with a wave over the mel scale of this amplitude in decibels.
    fn waved(decibels: f64, waves: f64) -> [f64; BANDS] {
        std::array::from_fn(|band| {
            let phase = std::f64::consts::PI * waves * (band as f64 + 0.5) / BANDS as f64;
            decibels * std::f64::consts::LN_10 / 10.0 * phase.cos()
        })
    }

    fn near(value: f64, wanted: f64) {
        assert!((value - wanted).abs() < 1e-9, "{value} is not {wanted}");
    }

    #[test]
    fn the_distortion_is_the_root_mean_square_difference_of_the_spectra() {
        // A cosine of amplitude A has a root mean square of A over the root of 2.
        let flat = cepstrum(&[0.0; BANDS]);
        for waves in 1..=ORDER {
            let lifted = cepstrum(&waved(6.0, waves as f64));
            near(distortion(&flat, &lifted), 6.0 / 2_f64.sqrt());
        }
        near(distortion(&flat, &cepstrum(&waved(6.0, 14.0))), 0.0);
    }

    #[test]
    fn a_coefficient_has_the_weight_of_the_paper() {
        let mut one = [0.0; ORDER];
        one[4] = 0.5;
        // 10 / ln 10 = 4.342944819, times the root of 2, times a half.
        assert!((distortion(&one, &[0.0; ORDER]) - 3.070_925_731).abs() < 1e-8);
    }

    #[test]
    fn a_level_is_no_distortion() {
        near(distortion(&cepstrum(&[0.0; BANDS]), &cepstrum(&[3.0; BANDS])), 0.0);
        let tone = |gain: f64| -> Vec<f64> {
            (0..4_000).map(|at| gain * (f64::from(at) * 0.1).sin().powi(3)).collect()
        };
        for (one, other) in cepstra(&tone(0.5)).iter().zip(&cepstra(&tone(0.05))) {
            near(distortion(one, other), 0.0);
        }
    }

    #[test]
    fn every_band_has_a_bin_and_the_bands_cover_the_spectrum() {
        let bands = bands();
        assert!(bands.iter().all(|band| !band.is_empty()));
        let mut weights = [0.0; SIZE / 2 + 1];
        bands.iter().flatten().for_each(|(bin, weight)| weights[*bin] += weight);
        // Between the centres of the first and the last band the triangles sum to 1.
        assert!(weights[2..=239].iter().all(|weight| (weight - 1.0).abs() < 1e-9));
    }

    #[test]
    fn silence_has_cepstra_of_zeros() {
        assert_eq!(cepstra(&[0.0; 1_000]), [[0.0; ORDER]; 4]);
        assert_eq!(cepstra(&[]).len(), 1);
    }
}
