//! The bootstrap over whole sentences (Efron 1979), with percentile intervals.

use serde::{Deserialize, Serialize};

use super::random::Random;
use crate::numbers::quantile;

/// Resampled sentences: each draw has as many as there are, with repetitions.
pub struct Draws {
    count: usize,
    /// All draws one after the other.
    places: Vec<u32>,
}

impl Draws {
    /// The same for the same number of sentences and the same seed.
    pub fn new(sentences: usize, draws: usize, seed: u64) -> Draws {
        let mut random = Random::new(seed);
        let places = (0..sentences * draws).map(|_| random.below(sentences) as u32).collect();
        Draws { count: sentences, places }
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.places.chunks_exact(self.count.max(1))
    }
}

/// A number with the bounds between which it is at a confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// The percentile interval of the values that draws have given.
    pub fn of(value: f64, drawn: &mut [f64], confidence: f64) -> Interval {
        let tail = (1.0 - confidence) / 2.0;
        let low = quantile(drawn, tail).unwrap_or(value);
        let high = quantile(drawn, 1.0 - tail).unwrap_or(value);
        Interval { value, low, high }
    }

    /// The same, of a function of drawn sentences.
    pub fn by(draws: &Draws, confidence: f64, value: f64, of: impl Fn(&[u32]) -> f64) -> Interval {
        let mut drawn: Vec<f64> = draws.iter().map(of).collect();
        Interval::of(value, &mut drawn, confidence)
    }

    pub fn rounded(self) -> Interval {
        let Interval { value, low, high } = self;
        let [value, low, high] = [value, low, high].map(crate::numbers::rounded);
        Interval { value, low, high }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn equal_seeds_give_equal_draws_and_other_seeds_others() {
        let draws = |seed| Draws::new(5, 3, seed).places;
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert_eq!(draws(1).len(), 15);
        assert!(draws(1).iter().all(|place| *place < 5));
    }

    #[test]
    fn numbers_without_spread_have_no_width() {
        let draws = Draws::new(20, 50, 1);
        let found = Interval::by(&draws, 0.9, 3.0, |_| 3.0);
        assert_eq!(found, Interval { value: 3.0, low: 3.0, high: 3.0 });
        assert_eq!(Draws::new(0, 50, 1).iter().count(), 0);
    }
}
