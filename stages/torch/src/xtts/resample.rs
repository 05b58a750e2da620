//! Resampling by a windowed sinc (J. O. Smith, "Digital Audio Resampling"), with the default
//! settings of torchaudio's `resample`. The speaker encoder was trained on sound resampled in this
//! way.

use tch::{Kind, Tensor};

use crate::error::InTch;
use crate::nn::convolution::Geometry;

/// Zero crossings of the sinc on each side.
const WIDTH: f64 = 6.0;
/// The cutoff of the filter, relative to half the lower rate.
const ROLLOFF: f64 = 0.99;

/// Waves [B, L] at `from` Hz to [B, ceil(L * to / from)] at `to` Hz.
pub fn resample(waves: &Tensor, from: i64, to: i64) -> Tensor {
    if from == to {
        return waves.shallow_clone();
    }
    let is_common = |number: &i64| from % number == 0 && to % number == 0;
    let common = (1..=from.min(to)).rev().find(is_common).unwrap_or(1);
    let (from, to) = (from / common, to / common);
    let (kernel, reach) = kernel(from, to);
    let shape = [to, 1, 2 * reach + from];
    let kernel = Tensor::from_slice(&kernel).view(shape).to_device(waves.device());
    let (rows, samples) = waves.size2().in_tch();
    let padded = waves.to_kind(Kind::Float).constant_pad_nd([reach, reach + from]);
    // One row of the kernel for each of the `to` output samples of `from` input samples.
    let geometry = Geometry { stride: from, ..Geometry::default() };
    let phases = geometry.convolve(&padded.unsqueeze(1), &kernel, None); // [B, to, T]
    let wave = phases.transpose(1, 2).reshape([rows, -1]);
    wave.narrow(1, 0, (samples * to + from - 1) / from)
}

/// The filters row by row, and their length before a sample.
fn kernel(from: i64, to: i64) -> (Vec<f32>, i64) {
    let (from_rate, to_rate) = (from as f64, to as f64);
    let cutoff = from_rate.min(to_rate) * ROLLOFF;
    let reach = (WIDTH * from_rate / cutoff).ceil() as i64;
    let mut kernel = Vec::with_capacity((to * (2 * reach + from)) as usize);
    for phase in 0..to {
        for at in -reach..reach + from {
            let time = (at as f64 / from_rate - phase as f64 / to_rate) * cutoff;
            let time = time.clamp(-WIDTH, WIDTH);
            let window = (time * std::f64::consts::PI / WIDTH / 2.0).cos().powi(2);
            let angle = time * std::f64::consts::PI;
            let sinc = if angle == 0.0 { 1.0 } else { angle.sin() / angle };
            kernel.push((sinc * window * cutoff / from_rate) as f32);
        }
    }
    (kernel, reach)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tone(rate: i64, hertz: f64, samples: i64) -> Vec<f32> {
        let step = std::f64::consts::TAU * hertz / rate as f64;
        (0..samples).map(|at| (step * at as f64).sin() as f32).collect()
    }

    #[test]
    fn a_tone_stays_the_tone_and_one_beyond_the_lower_rate_is_gone() {
        for (hertz, loudness) in [(1_000.0, 1.0), (10_000.0, 0.0)] {
            let wave = Tensor::from_slice(&tone(22_050, hertz, 22_050)).unsqueeze(0);
            let low = resample(&wave, 22_050, 16_000);
            assert_eq!(low.size(), [1, 16_000]);
            let wanted = Tensor::from_slice(&tone(16_000, hertz, 16_000)) * loudness;
            let far = (low.get(0) - wanted).narrow(0, 100, 15_800).abs().max();
            assert!(far.double_value(&[]) < 1e-2, "{hertz} Hz: {far:?}");
        }
    }

    #[test]
    fn the_same_rate_moves_nothing_and_lengths_are_rounded_up() {
        let wave = Tensor::from_slice(&tone(24_000, 300.0, 1_001)).unsqueeze(0);
        assert_eq!(resample(&wave, 24_000, 24_000), wave);
        assert_eq!(resample(&wave, 24_000, 22_050).size(), [1, 920]);
    }
}
