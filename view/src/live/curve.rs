//! The curve of a figure over a whole training, in the available columns.

/// The number of points; beyond it neighbours are averaged, so that the whole course stays.
const MOST: usize = 1024;
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

#[derive(Clone, Debug)]
pub struct LossCurve {
    points: Vec<f64>,
    /// The number of values in the mean of a point.
    each: u32,
    /// Values that are not a point yet: their number and their sum.
    rest: (u32, f64),
}

impl Default for LossCurve {
    fn default() -> LossCurve {
        LossCurve { points: Vec::new(), each: 1, rest: (0, 0.0) }
    }
}

impl LossCurve {
    /// Skips NaN and infinity, which have no height.
    pub fn push(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.rest = (self.rest.0 + 1, self.rest.1 + value);
        if self.rest.0 < self.each {
            return;
        }
        let (count, sum) = std::mem::take(&mut self.rest);
        self.points.push(sum / f64::from(count));
        if self.points.len() == MOST {
            self.points = self.points.chunks(2).map(mean).collect();
            self.each *= 2;
        }
    }

    /// From the lowest block for the smallest shown value to the highest for the largest.
    pub fn line(&self, columns: usize) -> String {
        let bins = self.bins(columns);
        let least = bins.iter().copied().fold(f64::INFINITY, f64::min);
        let span = bins.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
        let step = |value: &f64| {
            if span > 0.0 {
                ((value - least) / span * (STEPS.len() - 1) as f64).round() as usize
            } else {
                STEPS.len() / 2 - 1
            }
        };
        bins.iter().map(|value| STEPS[step(value).min(STEPS.len() - 1)]).collect()
    }

    fn bins(&self, columns: usize) -> Vec<f64> {
        let count = self.points.len();
        if count <= columns {
            self.points.clone()
        } else {
            (0..columns)
                .map(|at| mean(&self.points[at * count / columns..(at + 1) * count / columns]))
                .collect()
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: impl IntoIterator<Item = f64>) -> LossCurve {
        let mut curve = LossCurve::default();
        values.into_iter().for_each(|value| curve.push(value));
        curve
    }

    #[test]
    fn a_curve_goes_from_its_highest_to_its_lowest() {
        assert_eq!(curve((0..8).rev().map(f64::from)).line(8), "█▇▆▅▄▃▂▁");
        assert_eq!(curve((0..16).map(f64::from)).line(8), "▁▂▃▄▅▆▇█");
        assert_eq!(curve([2.0, f64::NAN, 2.0]).line(8), "▄▄");
        assert_eq!(curve([]).line(8), "");
    }

    #[test]
    fn of_a_million_steps_the_whole_course_is_kept_in_little_room() {
        let curve = curve((0..1_000_000).map(f64::from));
        assert!(curve.points.len() < MOST);
        assert_eq!(curve.line(8), "▁▂▃▄▅▆▇█");
    }
}
