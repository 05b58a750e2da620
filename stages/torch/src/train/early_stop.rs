//! Early stopping, and the selection of the best states.
//!
//! Both use the loss on held-out clips only.

use serde::{Deserialize, Serialize};

use super::exact;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlyStopSettings {
    /// Successive validations without an improvement that end the training.
    pub patience: u64,
    /// The smallest decrease below the best loss that counts as an improvement.
    pub min_delta: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlyStop {
    #[serde(with = "exact")]
    best: f64,
    /// Validations since the best.
    stale: u64,
}

impl Default for EarlyStop {
    fn default() -> EarlyStop {
        EarlyStop { best: f64::INFINITY, stale: 0 }
    }
}

impl EarlyStop {
    /// Notes a validation; true when the patience is exhausted.
    pub fn update(&mut self, settings: &EarlyStopSettings, loss: f64) -> bool {
        if loss < self.best - settings.min_delta {
            (self.best, self.stale) = (loss, 0);
        } else {
            self.stale += 1;
        }
        self.stale >= settings.patience.max(1)
    }
}

/// The steps of the best states, best first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    places: Vec<StepLoss>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepLoss {
    pub step: u64,
    #[serde(with = "exact")]
    pub loss: f64,
}

impl Ranking {
    /// Tests if a loss is among the best `count`. Of equal losses the earlier one stays: it has
    /// seen the clips less often.
    pub fn admits(&self, count: usize, loss: f64) -> bool {
        let worst = self.places.get(count.wrapping_sub(1));
        count > 0 && loss.is_finite() && worst.is_none_or(|worst| loss < worst.loss)
    }

    /// Adds an admitted state; returns the one that drops out.
    pub fn enter(&mut self, count: usize, place: StepLoss) -> Option<StepLoss> {
        let at = self.places.partition_point(|other| other.loss <= place.loss);
        self.places.insert(at, place);
        if self.places.len() > count { self.places.pop() } else { None }
    }

    pub fn places(&self) -> &[StepLoss] {
        &self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_counts_validations_without_a_real_improvement() {
        let settings = EarlyStopSettings { patience: 2, min_delta: 0.1 };
        let mut stop = EarlyStop::default();
        let ends = |stop: &mut EarlyStop, losses: &[f64]| {
            losses.iter().map(|loss| stop.update(&settings, *loss)).collect::<Vec<_>>()
        };
        assert_eq!(ends(&mut stop, &[3.0, 2.95, 2.8]), [false, false, false]);
        assert_eq!(ends(&mut stop, &[2.75, 2.71]), [false, true]);
    }

    #[test]
    fn what_is_no_number_never_is_the_best() {
        let settings = EarlyStopSettings { patience: 2, min_delta: 0.0 };
        let mut stop = EarlyStop::default();
        assert!(!stop.update(&settings, f64::NAN));
        assert!(!stop.update(&settings, 5.0));
        assert!(!stop.update(&settings, f64::NAN));
        assert!(stop.update(&settings, f64::NAN));
        assert!(!Ranking::default().admits(1, f64::NAN));
    }

    #[test]
    fn the_best_are_kept_in_order_and_the_worst_falls_out() {
        let mut ranking = Ranking::default();
        let mut out = Vec::new();
        for (step, loss) in [(1, 5.0), (2, 3.0), (3, 4.0), (4, 3.0), (5, 9.0)] {
            if ranking.admits(2, loss) {
                out.extend(ranking.enter(2, StepLoss { step, loss }).map(|place| place.step));
            }
        }
        let steps: Vec<u64> = ranking.places().iter().map(|place| place.step).collect();
        assert_eq!((steps, out), (vec![2, 4], vec![1, 3]));
        assert!(!ranking.admits(2, 3.0), "the earlier of equal ones stays");
        assert!(!Ranking::default().admits(0, 1.0));
    }
}
