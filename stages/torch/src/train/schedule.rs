//! The learning rate of each step.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The highest learning rate.
    pub rate: f64,
    /// The number of warm-up steps.
    pub warm_up: u64,
    /// The very first step has rate 0, as in the original recipes, instead of a first share.
    pub from_zero: bool,
    pub decay: Decay,
}

/// The decay of the rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Decay {
    Constant,
    /// Linear decay to `floor` of the rate at step `end`.
    Linear {
        end: u64,
        floor: f64,
    },
    /// Cosine decay to `floor` of the rate at step `end`.
    Cosine {
        end: u64,
        floor: f64,
    },
    /// Exponential decay: by `factor` after every `every` steps.
    Exponential {
        factor: f64,
        every: u64,
    },
}

impl Schedule {
    /// The rate of a step; the first step is 0.
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warm_up {
            let risen = if self.from_zero { step } else { step + 1 };
            return self.rate * risen as f64 / self.warm_up as f64;
        }
        let past = step - self.warm_up;
        let left = |end: u64| {
            let length = end.saturating_sub(self.warm_up).max(1);
            1.0 - (past as f64 / length as f64).min(1.0)
        };
        let share = match self.decay {
            Decay::Constant => 1.0,
            Decay::Linear { end, floor } => floor + (1.0 - floor) * left(end),
            Decay::Cosine { end, floor } => {
                let cosine = (std::f64::consts::PI * (1.0 - left(end))).cos();
                floor + (1.0 - floor) * 0.5 * (1.0 + cosine)
            }
            Decay::Exponential { factor, every } => factor.powf((past / every.max(1)) as f64),
        };
        self.rate * share
    }

    /// The rate of a step with an optimiser that restarted this number of steps ago: it warms up
    /// again.
    pub fn rate_again(&self, step: u64, since: u64) -> f64 {
        let risen = (since + 1) as f64 / self.warm_up.max(1) as f64;
        self.rate(step) * risen.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(decay: Decay, from_zero: bool, steps: &[u64]) -> Vec<f64> {
        let schedule = Schedule { rate: 8.0, warm_up: 4, from_zero, decay };
        steps.iter().map(|step| schedule.rate(*step)).collect()
    }

    fn close(got: &[f64], expected: &[f64]) {
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12, "{got} {expected}");
        }
    }

    #[test]
    fn the_warm_up_ends_at_the_full_rate() {
        close(&rates(Decay::Constant, true, &[0, 1, 3, 4, 999]), &[0.0, 2.0, 6.0, 8.0, 8.0]);
        close(&rates(Decay::Constant, false, &[0, 1, 3, 4]), &[2.0, 4.0, 8.0, 8.0]);
        let none = Schedule { rate: 1.0, warm_up: 0, from_zero: true, decay: Decay::Constant };
        close(&[none.rate(0)], &[1.0]);
    }

    #[test]
    fn a_new_optimiser_rises_again_to_where_the_rate_is_by_then() {
        let decay = Decay::Linear { end: 12, floor: 0.5 };
        let schedule = Schedule { rate: 8.0, warm_up: 4, from_zero: true, decay };
        let rates: Vec<f64> = (0..5).map(|since| schedule.rate_again(8 + since, since)).collect();
        close(&rates, &[1.5, 2.75, 3.75, 4.5, 4.0]);
        let none = Schedule { warm_up: 0, ..schedule };
        close(&[none.rate_again(12, 0)], &[4.0]);
    }

    #[test]
    fn a_line_and_a_cosine_end_at_the_floor_and_stay_there() {
        let linear = Decay::Linear { end: 12, floor: 0.5 };
        close(&rates(linear, false, &[4, 8, 12, 50]), &[8.0, 6.0, 4.0, 4.0]);
        let cosine = Decay::Cosine { end: 12, floor: 0.0 };
        let quarter = 4.0 * (1.0 + std::f64::consts::FRAC_1_SQRT_2);
        close(&rates(cosine, false, &[4, 6, 8, 12, 50]), &[8.0, quarter, 4.0, 0.0, 0.0]);
    }

    #[test]
    fn an_exponential_falls_by_its_factor_after_each_interval() {
        let decay = Decay::Exponential { factor: 0.5, every: 3 };
        close(&rates(decay, false, &[4, 6, 7, 10]), &[8.0, 8.0, 4.0, 2.0]);
    }

    #[test]
    fn a_decay_that_ends_within_the_warm_up_is_at_its_floor_after_it() {
        close(&rates(Decay::Linear { end: 2, floor: 0.0 }, false, &[4, 5]), &[8.0, 0.0]);
    }
}
