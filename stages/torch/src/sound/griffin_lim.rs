//! A wave for log-mel frames: magnitudes by non-negative least squares, phases by the fast
//! Griffin-Lim algorithm (Perraudin, Balazs, Søndergaard 2013).

use tch::{Device, Kind, Tensor};

use crate::error::InTch;
use crate::nn::random::Random;
use crate::sound::mel::{MelShape, hann, slaney_filters, to_vec};

/// The default number of phase iterations.
pub const ROUNDS: usize = 32;

/// Iterations of the multiplicative rule from mel bands back to the spectrum.
const MAGNITUDE_ROUNDS: usize = 30;

/// The acceleration of an iteration (the paper's alpha).
const MOMENTUM: f64 = 0.99;

/// Log-mel values beyond this would be far louder than any wave in [-1, 1].
const LOUDEST: f64 = 8.0;

/// Waves are kept below full scale.
const PEAK: f32 = 0.99;

/// The wave of `frames * hop` samples; `log_mel` is [frames, bands], row by row. The phases start
/// at random, from the seed.
pub fn wave(shape: &MelShape, log_mel: &[f32], rounds: usize, seed: u64) -> Vec<f32> {
    let frames = (log_mel.len() / shape.bands) as i64;
    let log_mel = Tensor::from_slice(log_mel).reshape([frames, shape.bands as i64]);
    let filters = Tensor::from_slice(&slaney_filters(shape))
        .reshape([shape.bins() as i64, shape.bands as i64]);
    let mel = log_mel.clamp_max(LOUDEST).exp(); // [T, bands]
    let magnitude = spectrum_of(&filters, &mel); // [T, bins]
    of_magnitude(shape, &magnitude, shape.margin(), rounds, seed)
}

/// The wave of `frames * hop` samples for magnitudes [frames, bins]; the first window begins
/// `margin` samples before it.
pub fn of_magnitude(
    shape: &MelShape,
    magnitude: &Tensor,
    margin: usize,
    rounds: usize,
    seed: u64,
) -> Vec<f32> {
    let frames = magnitude.size2().in_tch().0;
    let transform = Transform::new(shape, frames);
    let phases = random_phases(frames as usize * shape.bins(), seed);
    let phases = Tensor::from_slice(&phases).reshape([frames, shape.bins() as i64]);
    let mut spectrum = Tensor::polar(magnitude, &phases); // [T, bins]
    let mut before: Option<Tensor> = None;
    for _ in 0..rounds {
        let rebuilt = transform.forward(&transform.backward(&spectrum));
        let leaning = match &before {
            Some(before) => &rebuilt + (&rebuilt - before) * MOMENTUM,
            None => rebuilt.shallow_clone(),
        };
        spectrum = Tensor::polar(magnitude, &leaning.angle());
        before = Some(rebuilt);
    }
    let wave = transform.backward(&spectrum);
    let wave = to_vec(&wave.narrow(0, margin as i64, frames * shape.hop as i64));
    below_full_scale(wave)
}

fn random_phases(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (random.fraction() * std::f64::consts::TAU) as f32).collect()
}

fn below_full_scale(mut wave: Vec<f32>) -> Vec<f32> {
    let peak = wave.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
    if peak > PEAK {
        wave.iter_mut().for_each(|sample| *sample *= PEAK / peak);
    }
    wave
}

/// A non-negative spectrum [T, bins] with mel bands close to the given ones, [T, bands]; the
/// filters are [bins, bands]. The rule of Lee and Seung keeps values positive.
pub fn spectrum_of(filters: &Tensor, mel: &Tensor) -> Tensor {
    let wanted = mel.matmul(&filters.t_copy()); // [T, bins]
    let gram = filters.matmul(&filters.t_copy()); // [bins, bins]
    let mut spectrum = wanted.clamp_min(1e-8);
    for _ in 0..MAGNITUDE_ROUNDS {
        let have = spectrum.matmul(&gram).clamp_min(1e-10);
        spectrum = &spectrum * (&wanted / have);
    }
    spectrum
}

/// The short-time Fourier transform and its inverse for waves of one length, margins included.
struct Transform {
    frames: i64,
    window: Tensor,
    hop: i64,
    samples: i64,
    /// The sum of the squared windows at each sample.
    weight: Tensor,
}

impl Transform {
    fn new(shape: &MelShape, frames: i64) -> Transform {
        let hop = shape.hop as i64;
        let window = Tensor::from_slice(&hann(shape.window));
        let samples = (frames - 1) * hop + shape.window as i64;
        let weight = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let mut transform = Transform { frames, window, hop, samples, weight };
        let squares = transform.window.square().unsqueeze(0).repeat([frames, 1]);
        // Only the outer edges, which are cut off in the end, are near zero.
        transform.weight = transform.overlap(&squares).clamp_min(1e-2);
        transform
    }

    fn forward(&self, wave: &Tensor) -> Tensor {
        let frames = wave.unfold(0, self.window.numel() as i64, self.hop); // [T, window]
        (frames * &self.window).fft_rfft(None, 1, "backward") // [T, bins]
    }

    fn backward(&self, spectrum: &Tensor) -> Tensor {
        let frames = spectrum.fft_irfft(self.window.numel() as i64, 1, "backward");
        self.overlap(&(frames * &self.window)) / &self.weight // [samples]
    }

    /// Overlap-add of frames.
    fn overlap(&self, frames: &Tensor) -> Tensor {
        let width = self.window.numel() as i64;
        let columns = frames.reshape([self.frames, width]).t_copy().unsqueeze(0); // [1, window, T]
        let laid = columns.col2im([1, self.samples], [1, width], [1, 1], [0, 0], [1, self.hop]);
        laid.reshape([self.samples])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sound::mel::Mel;

    const SHAPE: MelShape = MelShape { rate: 16_000, window: 1024, hop: 256, bands: 80 };

    fn vowel(samples: usize) -> Vec<f32> {
        let step = std::f64::consts::TAU * 140.0 / 16_000.0;
        let sample = |at: usize| -> f64 {
            (1..20).map(|h| (step * at as f64 * f64::from(h)).sin() * 0.3 / f64::from(h)).sum()
        };
        (0..samples).map(|at| sample(at) as f32 * 0.5).collect()
    }

    #[test]
    fn the_transform_is_undone_by_its_inverse() {
        let transform = Transform::new(&SHAPE, 30);
        let wave = Tensor::from_slice(&vowel(29 * 256 + 1024));
        let back = transform.backward(&transform.forward(&wave));
        let inside = |tensor: &Tensor| to_vec(&tensor.narrow(0, 384, 30 * 256));
        let worst = inside(&wave).into_iter().zip(inside(&back)).map(|(a, b)| (a - b).abs());
        assert!(worst.fold(0f32, f32::max) < 1e-5);
    }

    #[test]
    fn the_wave_has_the_mel_frames_it_was_made_for() {
        let mel = Mel::new(SHAPE).unwrap();
        let frames = mel.frames(&vowel(16_000));
        let made = wave(&SHAPE, &frames, ROUNDS, 1);
        assert_eq!(made.len(), 63 * 256);
        let again = mel.frames(&made);
        // Audible bands are within 3 dB on average.
        let heard: Vec<f32> = frames
            .iter()
            .zip(&again)
            .filter(|(a, _)| **a > -6.0)
            .map(|(a, b)| (a - b).abs())
            .collect();
        let mean = heard.iter().sum::<f32>() / heard.len() as f32;
        assert!(mean < 0.345, "{mean}");
    }

    #[test]
    fn more_rounds_come_closer() {
        let mel = Mel::new(SHAPE).unwrap();
        let frames = mel.frames(&vowel(16_000));
        let error = |rounds| {
            let made = wave(&SHAPE, &frames, rounds, 1);
            let again = mel.frames(&made);
            frames.iter().zip(&again).map(|(a, b)| (a.exp() - b.exp()).powi(2)).sum::<f32>()
        };
        assert!(error(32) < 0.7 * error(0));
    }

    #[test]
    fn the_seed_decides_the_wave() {
        let frames = vec![-2f32; 10 * 80];
        let make = |seed| wave(&SHAPE, &frames, 4, seed);
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }

    #[test]
    fn any_finite_frames_give_a_wave_within_full_scale() {
        for value in [-1e30f32, -20.0, 0.0, 20.0, 1e30] {
            let made = wave(&SHAPE, &[value; 3 * 80], 4, 1);
            assert!(made.iter().all(|sample| sample.abs() <= 1.0), "{value}");
        }
    }
}
