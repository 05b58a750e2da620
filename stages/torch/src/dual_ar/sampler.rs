//! Draws an entry from logits: penalty, nucleus, temperature, then a race of noise.
//!
//! The order of the steps is that of the original: the nucleus is measured before the
//! temperature acts, and the entry that crosses its border is dropped.

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::model::Parity;
use crate::error::TorchError;
use crate::random::Random;

/// How entries are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sampling {
    /// 0 takes the likeliest.
    pub temperature: f64,
    pub top_p: f64,
    /// 1 is none. Acts on what the last frames had.
    pub repetition_penalty: f64,
    /// Allow frames and the end only, not text in between.
    pub semantic_only: bool,
    /// So many frames come before the end may be drawn; needs `semantic_only`.
    pub least_frames: usize,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            temperature: 0.8,
            top_p: 0.8,
            repetition_penalty: 1.1,
            semantic_only: true,
            least_frames: 0,
        }
    }
}

impl Sampling {
    pub fn check(&self) -> Result<(), TorchError> {
        let problem = match self {
            Sampling { temperature, .. } if !(0.0..=10.0).contains(temperature) => {
                format!("a temperature of {temperature}, expected 0 to 10")
            }
            Sampling { top_p, .. } if !(*top_p > 0.0 && *top_p <= 1.0) => {
                format!("`top_p` is {top_p}, expected more than 0 and at most 1")
            }
            Sampling { repetition_penalty: penalty, .. }
                if !(*penalty > 0.0 && *penalty <= 10.0) =>
            {
                format!("a repetition penalty of {penalty}, expected more than 0 and at most 10")
            }
            _ => return Ok(()),
        };
        Err(TorchError::Input(problem))
    }

    /// The numbers as the original holds them: in half precision.
    pub fn as_in(self, parity: Parity) -> Sampling {
        let rounded = |value: f64| match parity {
            Parity::Correct => value,
            Parity::Upstream => Tensor::from(value).to_kind(Kind::BFloat16).double_value(&[]),
        };
        Sampling {
            temperature: rounded(self.temperature),
            top_p: rounded(self.top_p),
            repetition_penalty: rounded(self.repetition_penalty),
            ..self
        }
    }

    /// One entry of the logits, `[entries]`, by noise of the same length; `repeated` are entries
    /// that lose. The result stays on the device.
    pub fn draw(&self, logits: &Tensor, repeated: Option<&Tensor>, noise: &Tensor) -> Tensor {
        let logits = logits.to_kind(Kind::Float);
        let logits = match repeated {
            Some(repeated) => self.penalised(&logits, repeated),
            None => logits,
        };
        let logits = self.nucleus(&logits) / self.temperature.max(1e-5);
        (logits.softmax(-1, Kind::Float) / noise).argmax(-1, true)
    }

    fn penalised(&self, logits: &Tensor, repeated: &Tensor) -> Tensor {
        let score = logits.gather(-1, repeated, false);
        let (raised, lowered) =
            (&score * self.repetition_penalty, &score / self.repetition_penalty);
        logits.scatter(-1, repeated, &raised.where_self(&score.lt(0.0), &lowered))
    }

    fn nucleus(&self, logits: &Tensor) -> Tensor {
        let (sorted, order) = logits.sort(-1, true);
        let reached = sorted.softmax(-1, Kind::Float).cumsum(-1, Kind::Float);
        let outside = reached.gt(self.top_p);
        // The likeliest stays whatever it is.
        let _ = outside.narrow(0, 0, 1).fill_(0);
        let outside = outside.scatter(-1, &order, &outside);
        logits.masked_fill(&outside, f64::NEG_INFINITY)
    }
}

/// Where the noise comes from: numbers drawn from the exponential distribution of mean 1.
pub trait Noise {
    /// For an entry of each of `count`, of which `entries` tells the places in the vocabulary
    /// where they do not simply count up.
    fn exponentials(&mut self, count: i64, entries: Option<&[i64]>) -> Vec<f32>;
}

/// The same noise for the same seed, on every device.
#[derive(Clone, Debug)]
pub struct Seeded(Random);

impl Seeded {
    pub fn new(seed: u64) -> Seeded {
        Seeded(Random::new(seed))
    }
}

impl Noise for Seeded {
    fn exponentials(&mut self, count: i64, _: Option<&[i64]>) -> Vec<f32> {
        // Never nought, which would win every race.
        let draw = |_| (-(1.0 - self.0.fraction()).ln()).max(1e-12) as f32;
        (0..count).map(draw).collect()
    }
}

/// The numbers as a tensor where the logits are.
pub(super) fn on(device: Device, noise: &[f32]) -> Result<Tensor, TorchError> {
    Ok(Tensor::f_from_slice(noise)?.f_to_device(device)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PLAIN: Sampling = Sampling {
        temperature: 1.0,
        top_p: 1.0,
        repetition_penalty: 1.0,
        semantic_only: false,
        least_frames: 0,
    };

    /// How often each entry is drawn.
    fn counts(sampling: Sampling, logits: &[f32], repeated: Option<&Tensor>) -> Vec<usize> {
        let mut noise = Seeded::new(5);
        let mut counts = vec![0; logits.len()];
        let logits = Tensor::from_slice(logits);
        for _ in 0..4000 {
            let noise = on(Device::Cpu, &noise.exponentials(logits.size()[0], None)).unwrap();
            counts[sampling.draw(&logits, repeated, &noise).int64_value(&[0]) as usize] += 1;
        }
        counts
    }

    fn logarithms(probabilities: &[f32]) -> Vec<f32> {
        probabilities.iter().map(|probability| probability.ln()).collect()
    }

    #[test]
    fn entries_come_as_often_as_they_are_likely() {
        let counts = counts(PLAIN, &logarithms(&[0.5, 0.3, 0.15, 0.05]), None);
        for (count, expected) in counts.iter().zip([2000.0, 1200.0, 600.0, 200.0]) {
            // Six standard deviations.
            assert!((*count as f64 - expected).abs() < 6.0 * expected.sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn the_nucleus_is_cut_before_the_entry_that_crosses_its_border() {
        let sampling = Sampling { top_p: 0.85, ..PLAIN };
        let counts = counts(sampling, &logarithms(&[0.1, 0.5, 0.3, 0.1]), None);
        assert_eq!((counts[0], counts[3]), (0, 0));
        assert!(counts[1] > 0 && counts[2] > 0);
        let narrow = Sampling { top_p: 0.01, ..PLAIN };
        assert_eq!(super::tests::counts(narrow, &logarithms(&[0.4, 0.6]), None), [0, 4000]);
    }

    #[test]
    fn a_temperature_of_nought_takes_the_likeliest() {
        let sampling = Sampling { temperature: 0.0, ..PLAIN };
        assert_eq!(counts(sampling, &[0.1, 0.3, 0.2], None), [0, 4000, 0]);
    }

    #[test]
    fn what_was_repeated_loses_whatever_its_sign() {
        let sampling = Sampling { repetition_penalty: 2.0, temperature: 0.0, ..PLAIN };
        let repeated = Tensor::from_slice(&[1i64, 1]);
        assert_eq!(counts(sampling, &[1.0, 1.5], Some(&repeated)), [4000, 0]);
        assert_eq!(counts(sampling, &[-1.5, -1.0], Some(&repeated)), [4000, 0]);
    }

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        for sampling in [
            Sampling { temperature: f64::NAN, ..PLAIN },
            Sampling { top_p: 0.0, ..PLAIN },
            Sampling { repetition_penalty: 0.0, ..PLAIN },
        ] {
            assert!(sampling.check().is_err(), "{sampling:?}");
        }
        Sampling::default().check().unwrap();
    }

    #[test]
    fn the_original_rounds_its_settings() {
        assert_eq!(PLAIN.as_in(Parity::Upstream), PLAIN);
        let rounded = Sampling::default().as_in(Parity::Upstream);
        assert_eq!(rounded.temperature, 0.80078125);
        assert_eq!(Sampling::default().as_in(Parity::Correct), Sampling::default());
    }
}
