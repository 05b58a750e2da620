//! The points of a search: the values that a trial has for the swept parameters.
//!
//! A point follows from the seed and its number alone, so that more trials leave those before them
//! as they are. Trial 0 has the values as they are written, and takes no point.

use stage_core::ParameterValue;

/// The values that a parameter may have.
#[derive(Clone, Debug, PartialEq)]
pub enum Range {
    List(Vec<ParameterValue>),
    Numbers { from: f64, to: f64, scale: Scale },
    Integers { from: i64, to: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// Equal ratios are equally likely.
    Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// A scrambled Sobol sequence, balanced after 2, 4, 8, ... points.
    Sobol,
    Random,
    /// Every combination; of a range three values.
    Grid,
}

/// Values of a range in a grid.
const GRID: usize = 3;
/// The points and dimensions of the Sobol sequence.
pub const MOST_POINTS: usize = 1 << 16;
pub const MOST_AXES: usize = 256;
/// Significant digits of a drawn number, which people read and write.
const DIGITS: i32 = 4;

impl Range {
    /// The value at a place from 0 up to 1.
    fn at(&self, place: f64) -> ParameterValue {
        match self {
            Range::List(values) => {
                let at = (place * values.len() as f64) as usize;
                values.get(at.min(values.len().saturating_sub(1))).cloned().unwrap_or_default()
            }
            Range::Integers { from, to } => {
                let count = (*to - *from) as f64 + 1.0;
                ParameterValue::Integer((*from + (place * count) as i64).min(*to))
            }
            Range::Numbers { from, to, scale } => {
                let value = match scale {
                    Scale::Linear => from + place * (to - from),
                    Scale::Log => from * (to / from).powf(place),
                };
                ParameterValue::Number(readable(value).clamp(*from, *to))
            }
        }
    }

    /// The values of a grid.
    fn grid(&self) -> Vec<ParameterValue> {
        match self {
            Range::List(values) => values.clone(),
            Range::Integers { from, to } if ((to - from) as usize) < GRID => {
                (*from..=*to).map(ParameterValue::Integer).collect()
            }
            Range::Integers { .. } | Range::Numbers { .. } => {
                // Both ends: a place below 1 is the last one.
                let place = |at: usize| at as f64 / (GRID - 1) as f64;
                let last = 1.0 - f64::EPSILON;
                (0..GRID).map(|at| self.at(place(at).min(last))).collect()
            }
        }
    }
}

/// Rounded to a few significant digits.
fn readable(value: f64) -> f64 {
    let text = format!("{value:.*e}", (DIGITS - 1) as usize);
    text.parse().unwrap_or(value)
}

/// The number of points that are drawn for this number of trials.
pub fn count(ranges: &[Range], draw: Draw, trials: usize) -> usize {
    match draw {
        Draw::Grid => ranges.iter().map(|range| range.grid().len()).product(),
        Draw::Sobol | Draw::Random => trials.saturating_sub(1).min(MOST_POINTS),
    }
}

/// One point: a value for each range.
pub fn point(ranges: &[Range], draw: Draw, seed: u64, number: usize) -> Vec<ParameterValue> {
    if draw == Draw::Grid {
        let mut rest = number;
        let mut values: Vec<ParameterValue> = ranges
            .iter()
            .rev()
            .map(|range| {
                let grid = range.grid();
                let value = grid.get(rest % grid.len().max(1)).cloned().unwrap_or_default();
                rest /= grid.len().max(1);
                value
            })
            .collect();
        values.reverse();
        return values;
    }
    let place = |axis: usize| match draw {
        Draw::Sobol => {
            let (number, axis) = (number % MOST_POINTS, axis % MOST_AXES);
            f64::from(sobol_burley::sample(number as u32, axis as u32, fold(seed)))
        }
        Draw::Random | Draw::Grid => {
            let mixed = scramble(scramble(scramble(seed) ^ number as u64) ^ axis as u64);
            (mixed >> 11) as f64 / (1_u64 << 53) as f64
        }
    };
    ranges.iter().enumerate().map(|(axis, range)| range.at(place(axis))).collect()
}

fn fold(seed: u64) -> u32 {
    (scramble(seed) >> 32) as u32
}

/// The output function of SplitMix64.
fn scramble(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Range = Range::Numbers { from: 0.0, to: 1.0, scale: Scale::Linear };
    const RATES: Range = Range::Numbers { from: 1e-5, to: 1e-3, scale: Scale::Log };

    fn number(value: &ParameterValue) -> f64 {
        match value {
            ParameterValue::Number(number) => *number,
            ParameterValue::Integer(number) => *number as f64,
            other => panic!("{other}"),
        }
    }

    fn drawn(range: &Range, draw: Draw, points: usize) -> Vec<f64> {
        let ranges = [range.clone()];
        (0..points).map(|at| number(&point(&ranges, draw, 7, at)[0])).collect()
    }

    #[test]
    fn a_point_follows_from_the_seed_and_its_number() {
        let ranges = [UNIT, RATES];
        for draw in [Draw::Sobol, Draw::Random] {
            assert_eq!(point(&ranges, draw, 1, 5), point(&ranges, draw, 1, 5));
            assert_ne!(point(&ranges, draw, 1, 5), point(&ranges, draw, 2, 5));
            assert_ne!(point(&ranges, draw, 1, 5), point(&ranges, draw, 1, 6));
            // Another axis leaves the values of the first ones.
            assert_eq!(point(&ranges[..1], draw, 1, 5)[0], point(&ranges, draw, 1, 5)[0]);
        }
    }

    /// Of 2^m points one is in each interval of length 2^-m, in every dimension.
    #[test]
    fn a_sobol_sequence_is_balanced_at_every_power_of_two() {
        let ranges = [UNIT, UNIT, UNIT];
        for points in [2_usize, 4, 8, 16, 32] {
            for axis in 0..ranges.len() {
                let mut counts = vec![0; points];
                for at in 0..points {
                    let value = number(&point(&ranges, Draw::Sobol, 3, at)[axis]);
                    // Four digits may round up to the next interval.
                    let place = (value - 1e-4).max(0.0) * points as f64;
                    counts[place as usize] += 1;
                }
                assert!(counts.iter().all(|count| *count == 1), "{points}: {counts:?}");
            }
        }
    }

    #[test]
    fn a_log_range_has_as_many_values_in_each_decade() {
        let values = drawn(&RATES, Draw::Sobol, 64);
        let low = values.iter().filter(|value| **value < 1e-4).count();
        assert!((31..=33).contains(&low), "{low}");
        assert!(values.iter().all(|value| (1e-5..=1e-3).contains(value)));
        let linear = Range::Numbers { from: 1e-5, to: 1e-3, scale: Scale::Linear };
        let low = drawn(&linear, Draw::Sobol, 64).iter().filter(|value| **value < 1e-4).count();
        assert!(low < 8, "{low}");
    }

    #[test]
    fn drawn_numbers_can_be_read() {
        for value in drawn(&RATES, Draw::Random, 50) {
            assert!(format!("{value:e}").len() <= 8, "{value:e}");
        }
    }

    #[test]
    fn integers_and_lists_have_all_of_their_values() {
        let integers = drawn(&Range::Integers { from: 4, to: 7 }, Draw::Sobol, 64);
        let list = Range::List([8, 16, 32].map(ParameterValue::Integer).to_vec());
        let listed = drawn(&list, Draw::Random, 64);
        for (values, wanted) in
            [(integers, vec![4.0, 5.0, 6.0, 7.0]), (listed, vec![8.0, 16.0, 32.0])]
        {
            let mut found = values;
            found.sort_by(f64::total_cmp);
            found.dedup();
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn a_grid_has_every_combination_once() {
        let list = Range::List(vec![ParameterValue::Flag(true), ParameterValue::Flag(false)]);
        let ranges = [list, RATES, Range::Integers { from: 1, to: 2 }];
        let all = count(&ranges, Draw::Grid, 5);
        assert_eq!(all, 2 * 3 * 2);
        let points: Vec<Vec<ParameterValue>> =
            (0..all).map(|at| point(&ranges, Draw::Grid, 1, at)).collect();
        assert!((1..all).all(|at| !points[..at].contains(&points[at])), "{points:?}");
        let rates: Vec<f64> = points[..6].iter().map(|point| number(&point[1])).collect();
        assert_eq!(rates, [1e-5, 1e-5, 1e-4, 1e-4, 1e-3, 1e-3]);
        assert_eq!(count(&ranges, Draw::Sobol, 8), 7);
    }
}
