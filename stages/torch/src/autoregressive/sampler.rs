//! Samples entries from logits, in the order of steps of each reference.
//!
//! An entry is drawn by the exponential race: the probabilities are divided by numbers from the
//! exponential distribution, and the largest wins. `torch.multinomial` draws a single entry in the
//! same way.

use tch::{Kind, Tensor};

use super::penalty::PenaltyScope;
use crate::error::TorchError;

/// The steps from logits to probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingOrder {
    /// Penalty, nucleus, temperature. The nucleus excludes the entry that crosses its border.
    FishSpeech,
    /// Penalty, temperature, the most likely `top_k`, nucleus including the entry that crosses its
    /// border.
    Transformers,
}

/// The settings of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    pub order: SamplingOrder,
    /// 0 selects the most likely entry.
    pub temperature: f64,
    /// 0 allows all entries.
    pub top_k: i64,
    /// 1 allows all entries.
    pub top_p: f64,
    /// 1 is no penalty.
    pub repetition_penalty: f64,
    /// The scope of the repetition penalty.
    pub scope: PenaltyScope,
}

impl Sampling {
    pub fn check(&self) -> Result<(), TorchError> {
        let Sampling { temperature, top_k, top_p, repetition_penalty: penalty, .. } = *self;
        let problem = if !(0.0..=10.0).contains(&temperature) {
            format!("a temperature of {temperature}, expected 0 to 10")
        } else if top_k < 0 {
            format!("`top_k` is {top_k}, expected 0 or more")
        } else if !(top_p > 0.0 && top_p <= 1.0) {
            format!("`top_p` is {top_p}, expected more than 0 and at most 1")
        } else if !(penalty > 0.0 && penalty <= 100.0) {
            format!("a repetition penalty of {penalty}, expected more than 0 and at most 100")
        } else {
            return Ok(());
        };
        Err(TorchError::Input(problem))
    }

    /// Draws an entry of each row, `[B]`: from logits [B, entries], with noise of the same shape.
    /// The entries that are true in `repeated` are penalised. Nothing leaves the device.
    pub fn draw(&self, logits: &Tensor, repeated: Option<&Tensor>, noise: &Tensor) -> Tensor {
        (self.probabilities(logits, repeated) / noise).argmax(-1, false)
    }

    /// The probabilities of the entries: [B, entries] to the same.
    fn probabilities(&self, logits: &Tensor, repeated: Option<&Tensor>) -> Tensor {
        let logits = logits.to_kind(Kind::Float);
        let logits = match repeated {
            Some(repeated) if self.repetition_penalty != 1.0 => self.penalised(&logits, repeated),
            _ => logits,
        };
        let logits = match self.order {
            SamplingOrder::FishSpeech => self.nucleus_without_border(&logits) / self.divisor(),
            SamplingOrder::Transformers => {
                self.nucleus(&self.likeliest(&(logits / self.divisor())))
            }
        };
        logits.softmax(-1, Kind::Float)
    }

    fn divisor(&self) -> f64 {
        self.temperature.max(1e-5)
    }

    fn penalised(&self, logits: &Tensor, repeated: &Tensor) -> Tensor {
        let (raised, lowered) =
            (logits * self.repetition_penalty, logits / self.repetition_penalty);
        raised.where_self(&logits.lt(0.0), &lowered).where_self(repeated, logits)
    }

    /// The `top_k` most likely entries, and those as likely as the last of them.
    fn likeliest(&self, logits: &Tensor) -> Tensor {
        let entries = logits.size()[1];
        if self.top_k == 0 || self.top_k >= entries {
            return logits.shallow_clone();
        }
        let (best, _) = logits.topk(self.top_k, -1, true, true);
        logits.masked_fill(&logits.lt_tensor(&best.narrow(1, self.top_k - 1, 1)), f64::NEG_INFINITY)
    }

    /// The nucleus of transformers: drops the least likely entries that together have at most 1 -
    /// `top_p`.
    fn nucleus(&self, logits: &Tensor) -> Tensor {
        if self.top_p >= 1.0 {
            return logits.shallow_clone();
        }
        let (sorted, order) = logits.sort(-1, false);
        let reached = sorted.softmax(-1, Kind::Float).cumsum(-1, Kind::Float);
        let outside = reached.le(1.0 - self.top_p);
        // The most likely entry always stays.
        let _ = outside.narrow(1, outside.size()[1] - 1, 1).fill_(0);
        without(logits, &outside, &order)
    }

    /// The nucleus of Fish Speech: keeps the most likely entries that together have at most
    /// `top_p`.
    fn nucleus_without_border(&self, logits: &Tensor) -> Tensor {
        let (sorted, order) = logits.sort(-1, true);
        let reached = sorted.softmax(-1, Kind::Float).cumsum(-1, Kind::Float);
        let outside = reached.gt(self.top_p);
        let _ = outside.narrow(1, 0, 1).fill_(0);
        without(logits, &outside, &order)
    }
}

/// `outside` is in the order of the sorted entries.
fn without(logits: &Tensor, outside: &Tensor, order: &Tensor) -> Tensor {
    logits.masked_fill(&outside.scatter(-1, order, outside), f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::autoregressive::noise::{Noise, SeededNoise};
    use crate::nn::random::Random;

    const PLAIN: Sampling = Sampling {
        order: SamplingOrder::FishSpeech,
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        repetition_penalty: 1.0,
        scope: PenaltyScope::All,
    };
    const TRANSFORMERS: Sampling = Sampling { order: SamplingOrder::Transformers, ..PLAIN };

    /// Counts the draws of each entry.
    fn counts(sampling: Sampling, logits: &[f32], repeated: Option<&[bool]>) -> Vec<usize> {
        let mut noise = SeededNoise::new(5);
        let mut counts = vec![0; logits.len()];
        let logits = Tensor::from_slice(logits).unsqueeze(0);
        let repeated = repeated.map(|repeated| Tensor::from_slice(repeated).unsqueeze(0));
        for _ in 0..4000 {
            let noise = noise.exponentials(counts.len() as i64, None);
            let noise = Tensor::from_slice(&noise).unsqueeze(0);
            let drawn = sampling.draw(&logits, repeated.as_ref(), &noise);
            counts[drawn.int64_value(&[0]) as usize] += 1;
        }
        counts
    }

    fn logarithms(probabilities: &[f32]) -> Vec<f32> {
        probabilities.iter().map(|probability| probability.ln()).collect()
    }

    /// The entries that can be drawn.
    fn drawn(sampling: Sampling, probabilities: &[f32]) -> Vec<usize> {
        let counts = counts(sampling, &logarithms(probabilities), None);
        (0..counts.len()).filter(|entry| counts[*entry] > 0).collect()
    }

    #[test]
    fn entries_come_as_often_as_they_are_likely() {
        for sampling in [PLAIN, TRANSFORMERS] {
            let counts = counts(sampling, &logarithms(&[0.5, 0.3, 0.15, 0.05]), None);
            for (count, expected) in counts.iter().zip([2000.0, 1200.0, 600.0, 200.0]) {
                // Six standard deviations.
                assert!((*count as f64 - expected).abs() < 6.0 * expected.sqrt(), "{counts:?}");
            }
        }
    }

    #[test]
    fn only_transformers_keeps_the_entry_that_crosses_the_border_of_the_nucleus() {
        let odds = [0.1, 0.5, 0.3, 0.1];
        let narrow = |sampling| Sampling { top_p: 0.85, ..sampling };
        assert_eq!(drawn(narrow(PLAIN), &odds), [1, 2]);
        assert_eq!(drawn(narrow(TRANSFORMERS), &[0.08, 0.5, 0.3, 0.12]), [1, 2, 3]);
        for sampling in [PLAIN, TRANSFORMERS] {
            assert_eq!(drawn(Sampling { top_p: 0.01, ..sampling }, &[0.4, 0.6]), [1]);
        }
    }

    #[test]
    fn the_nucleus_is_measured_before_the_temperature_or_after_it() {
        // At a temperature of 0.5 the second entry has 0.14 instead of 0.29.
        let sampling = Sampling { temperature: 0.5, top_p: 0.8, ..PLAIN };
        assert_eq!(drawn(sampling, &[0.71, 0.29]), [0]);
        assert_eq!(
            drawn(Sampling { order: SamplingOrder::Transformers, ..sampling }, &[0.71, 0.29]),
            [0]
        );
        let sampling = Sampling { top_p: 0.72, ..sampling };
        assert_eq!(drawn(Sampling { temperature: 1.0, ..sampling }, &[0.71, 0.29]), [0]);
        let hot =
            Sampling { temperature: 2.0, order: SamplingOrder::Transformers, top_p: 0.7, ..PLAIN };
        assert_eq!(drawn(hot, &[0.71, 0.29]), [0, 1]);
        assert_eq!(drawn(Sampling { temperature: 1.0, ..hot }, &[0.71, 0.29]), [0]);
    }

    #[test]
    fn the_most_likely_are_kept_with_those_as_likely() {
        let sampling = Sampling { top_k: 2, ..TRANSFORMERS };
        assert_eq!(drawn(sampling, &[0.1, 0.4, 0.2, 0.2, 0.1]), [1, 2, 3]);
        assert_eq!(drawn(Sampling { top_k: 9, ..sampling }, &[0.5, 0.5]), [0, 1]);
    }

    #[test]
    fn a_temperature_of_zero_takes_the_most_likely() {
        for sampling in [PLAIN, TRANSFORMERS] {
            let sampling = Sampling { temperature: 0.0, ..sampling };
            assert_eq!(counts(sampling, &[0.1, 0.3, 0.2], None), [0, 4000, 0]);
        }
    }

    #[test]
    fn what_was_repeated_loses_whatever_its_sign() {
        let sampling = Sampling { repetition_penalty: 2.0, temperature: 0.0, ..PLAIN };
        let repeated = [false, true];
        assert_eq!(counts(sampling, &[1.0, 1.5], Some(&repeated)), [4000, 0]);
        assert_eq!(counts(sampling, &[-1.5, -1.0], Some(&repeated)), [4000, 0]);
    }

    /// libtorch computes each step row by row, or number by number with the same outcome wherever a
    /// number stands. A release that does otherwise fails here.
    #[test]
    fn a_row_has_the_same_probabilities_to_the_bit_in_any_batch() {
        for entries in [1, 7, 17, 1024, 1025, 4097] {
            let logits = Random::new(3).normal(&[8, entries], 4.0);
            let repeated = Random::new(4).normal(&[8, entries], 1.0).gt(1.0);
            for order in [SamplingOrder::FishSpeech, SamplingOrder::Transformers] {
                let sampling = Sampling {
                    order,
                    temperature: 0.7,
                    top_k: 50,
                    top_p: 0.8,
                    repetition_penalty: 1.1,
                    ..PLAIN
                };
                let of = |start, count| {
                    let part = |x: &Tensor| x.narrow(0, start, count);
                    sampling.probabilities(&part(&logits), Some(&part(&repeated)))
                };
                let alone: Vec<Tensor> = (0..8).map(|row| of(row, 1)).collect();
                for count in [2, 3, 5, 8] {
                    let wanted = Tensor::cat(&alone[..count as usize], 0);
                    assert_eq!(of(0, count), wanted, "{order:?}, {count} rows of {entries}");
                }
            }
        }
    }

    #[derive(serde::Deserialize)]
    struct Cases {
        cases: Vec<Case>,
    }

    #[derive(serde::Deserialize)]
    struct Case {
        temperature: f64,
        top_k: i64,
        top_p: f64,
        repetition_penalty: f64,
        drawn: Vec<usize>,
        logits: Vec<f32>,
        probabilities: Vec<f32>,
    }

    /// `fixtures/make_sampling.py` made the cases with transformers; the file has its version.
    #[test]
    fn the_steps_are_those_of_transformers() {
        let cases = include_str!("../../fixtures/sampling/cases.json");
        for case in serde_json::from_str::<Cases>(cases).unwrap().cases {
            let Case { temperature, top_k, top_p, repetition_penalty, .. } = case;
            let sampling =
                Sampling { temperature, top_k, top_p, repetition_penalty, ..TRANSFORMERS };
            let logits = Tensor::from_slice(&case.logits).unsqueeze(0);
            let repeated: Vec<bool> =
                (0..case.logits.len()).map(|entry| case.drawn.contains(&entry)).collect();
            let repeated = Tensor::from_slice(&repeated).unsqueeze(0);
            let got = sampling.probabilities(&logits, Some(&repeated)).view(-1);
            let got = Vec::<f32>::try_from(got).unwrap();
            let allowed = |values: &[f32]| values.iter().filter(|value| **value > 0.0).count();
            assert_eq!(allowed(&got), allowed(&case.probabilities), "{sampling:?}");
            for (got, wanted) in got.iter().zip(&case.probabilities) {
                assert!((got - wanted).abs() < 1e-6, "{got} {wanted}: {sampling:?}");
            }
        }
    }

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        for sampling in [
            Sampling { temperature: f64::NAN, ..PLAIN },
            Sampling { top_p: 0.0, ..PLAIN },
            Sampling { top_k: -1, ..PLAIN },
            Sampling { repetition_penalty: 0.0, ..PLAIN },
        ] {
            assert!(sampling.check().is_err(), "{sampling:?}");
        }
        PLAIN.check().unwrap();
    }
}
