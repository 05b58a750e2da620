//! Statistics of numbers.

/// A quantile, linearly interpolated: 0.5 is the median. Sorts the numbers; None without any.
pub(crate) fn quantile(numbers: &mut [f64], share: f64) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * numbers.len().saturating_sub(1) as f64;
    let (low, high) = (numbers.get(place.floor() as usize)?, numbers.get(place.ceil() as usize)?);
    let part = place.fract();
    // An infinite number times 0 is NaN.
    Some(if part == 0.0 { *low } else { low * (1.0 - part) + high * part })
}

/// Summed in sorted order, so that the input order does not matter.
pub(crate) fn mean(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let sum: f64 = numbers.iter().sum();
    (!numbers.is_empty()).then(|| sum / numbers.len() as f64)
}

/// Rounded to four decimals: machines may differ in the last bits.
pub(crate) fn rounded(number: f64) -> f64 {
    // Adding 0 makes -0 and 0 the same bits.
    (number * 10_000.0).round() / 10_000.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_numbers() {
        let mut numbers = [4.0, 1.0, 3.0, 2.0, 10.0];
        let found = [0.0, 0.5, 0.875, 1.0].map(|share| quantile(&mut numbers, share));
        assert_eq!(found, [Some(1.0), Some(3.0), Some(7.0), Some(10.0)]);
        assert_eq!(quantile(&mut [1.0, 2.0], 0.5), Some(1.5));
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    #[test]
    fn a_mean_does_not_depend_on_the_order() {
        assert_eq!(mean(&mut [0.1, 0.2, 0.3]), mean(&mut [0.3, 0.2, 0.1]));
        assert_eq!(mean(&mut []), None);
    }

    #[test]
    fn rounding_keeps_four_decimals_and_has_one_zero() {
        assert_eq!([1.234_56, -0.000_01].map(rounded), [1.234_6, 0.0]);
        assert!(rounded(-0.000_01).is_sign_positive());
    }
}
