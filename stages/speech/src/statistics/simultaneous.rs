//! Bounds that hold for all candidates at once.
//!
//! The best of many equal candidates looks better than the base. Here the width of every bound
//! follows from the draws of the largest deviation among all candidates (the maximum statistic,
//! each deviation in units of its own standard error: Westfall and Young 1993), so that all bounds
//! together are right as often as one alone would be.

use crate::numbers::quantile;

/// The bounds of one candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
}

/// The bounds of all candidates, from their values and, for each, the values of the same draws.
pub fn bounds(values: &[f64], drawn: &[Vec<f64>], confidence: f64) -> Vec<Bounds> {
    let errors: Vec<f64> = values.iter().zip(drawn).map(|(_, drawn)| deviation(drawn)).collect();
    let count = drawn.iter().map(Vec::len).min().unwrap_or_default();
    let largest = |sign: f64| {
        let at = |draw: usize| {
            let each = values.iter().zip(drawn).zip(&errors);
            let moved = each.filter(|(_, error)| **error > 0.0);
            let scaled = moved.map(|((value, drawn), error)| sign * (drawn[draw] - value) / error);
            scaled.fold(f64::NEG_INFINITY, f64::max)
        };
        let mut largest: Vec<f64> = (0..count).map(at).filter(|one| one.is_finite()).collect();
        let tail = (1.0 - confidence) / 2.0;
        quantile(&mut largest, 1.0 - tail).unwrap_or_default().max(0.0)
    };
    let (up, down) = (largest(1.0), largest(-1.0));
    let bounds = values.iter().zip(&errors);
    bounds
        .map(|(value, error)| Bounds { low: value - down * error, high: value + up * error })
        .collect()
}

/// The standard deviation, which for draws is the standard error.
fn deviation(drawn: &[f64]) -> f64 {
    let count = drawn.len() as f64;
    if drawn.len() < 2 {
        return 0.0;
    }
    let mean = drawn.iter().sum::<f64>() / count;
    let squares: f64 = drawn.iter().map(|one| (one - mean).powi(2)).sum();
    // Rounding of equal numbers is no spread.
    let deviation = (squares / (count - 1.0)).sqrt();
    if deviation > mean.abs() * 1e-12 { deviation } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(spread: f64, shift: usize) -> Vec<f64> {
        (0..1000).map(|at| spread * f64::from(((at * 37 + shift * 311) % 1000) as u32)).collect()
    }

    #[test]
    fn more_candidates_make_wider_bounds() {
        let mean = 499.5;
        let one = bounds(&[mean], &[draws(1.0, 0)], 0.9)[0];
        let three = bounds(&[mean; 3], &[draws(1.0, 0), draws(1.0, 1), draws(1.0, 2)], 0.9);
        assert!(three.iter().all(|bounds| bounds.high > one.high && bounds.low < one.low));
    }

    #[test]
    fn a_candidate_counted_twice_changes_nothing() {
        let one = bounds(&[499.5], &[draws(1.0, 0)], 0.9);
        let twice = bounds(&[499.5; 2], &[draws(1.0, 0), draws(1.0, 0)], 0.9);
        assert_eq!(twice, [one[0], one[0]]);
    }

    #[test]
    fn a_candidate_without_spread_has_its_value_and_widens_no_other() {
        let still = vec![0.3; 1000];
        let alone = bounds(&[499.5], &[draws(1.0, 0)], 0.9)[0];
        let found = bounds(&[499.5, 0.3], &[draws(1.0, 0), still], 0.9);
        assert_eq!(found, [alone, Bounds { low: 0.3, high: 0.3 }]);
    }
}
