//! Least squares over any number of observations, stored as six sums.

use crate::figure::Figure;
use serde::{Deserialize, Serialize};

/// Above this number of observations, all old ones count half, so that new ones count more.
const MOST: f64 = 4096.0;
/// Below this number of observations, their spread means little.
const FEW: f64 = 3.0;
/// The relative widening of the band while there are few observations.
const DOUBT: f64 = 0.5;
/// Standard errors on either side.
const WIDTH: f64 = 2.0;
/// A spread of sizes below this share of their squares is rounding.
const ROUNDING: f64 = 1e-9;

/// A quantity `y` for things of size `x`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub count: f64,
    x: f64,
    xx: f64,
    y: f64,
    xy: f64,
    yy: f64,
}

/// A line through the observations.
struct LineFit {
    intercept: f64,
    slope: f64,
    /// The variance of one observation around it.
    variance: f64,
    /// The summed squares of the sizes around their mean.
    sizes: f64,
}

impl Line {
    pub fn add(&mut self, x: f64, y: f64) {
        let one = Line { count: 1.0, x, xx: x * x, y, xy: x * y, yy: y * y };
        *self = self.with(&one);
    }

    /// All observations of both.
    pub fn with(&self, other: &Line) -> Line {
        let sum = Line {
            count: self.count + other.count,
            x: self.x + other.x,
            xx: self.xx + other.xx,
            y: self.y + other.y,
            xy: self.xy + other.xy,
            yy: self.yy + other.yy,
        };
        if sum.count > MOST { sum.halved() } else { sum }
    }

    fn halved(self) -> Line {
        let Line { count, x, xx, y, xy, yy } = self;
        let half = 0.5;
        Line {
            count: count * half,
            x: x * half,
            xx: xx * half,
            y: y * half,
            xy: xy * half,
            yy: yy * half,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count <= 0.0
    }

    /// The mean size.
    pub fn mean_size(&self) -> f64 {
        self.x / self.count.max(1.0)
    }

    /// The expected value for this number of things with this total size. The band covers the
    /// variation between things, and `doubt`, a relative error that past values do not show.
    pub fn total(&self, count: f64, size: f64, doubt: f64) -> Option<Figure> {
        if self.is_empty() {
            return None;
        }
        let fit = self.fit();
        let likely = (fit.intercept * count + fit.slope * size).max(0.0);
        let off = size - count * self.mean_size();
        let by_slope = if fit.sizes > 0.0 { off * off / fit.sizes } else { 0.0 };
        let spread = (fit.variance * (count + count * count / self.count + by_slope)).sqrt();
        let doubt = if self.count < FEW { doubt.max(DOUBT) } else { doubt };
        Some(Figure::around(likely, WIDTH * spread + doubt * likely))
    }

    /// A negative intercept and a negative slope are rejected.
    fn fit(&self) -> LineFit {
        let Line { count, x, xx, y, xy, yy } = *self;
        let sizes = xx - x * x / count;
        let sizes = if sizes > ROUNDING * xx { sizes } else { 0.0 };
        let slope = if sizes > 0.0 { (xy - x * y / count) / sizes } else { 0.0 };
        let (intercept, slope) = match (y - slope * x) / count {
            _ if slope <= 0.0 => (y / count, 0.0),
            intercept if intercept < 0.0 => (0.0, xy / xx),
            intercept => (intercept, slope),
        };
        let squares = yy - 2.0 * (intercept * y + slope * xy)
            + count * intercept * intercept
            + 2.0 * intercept * slope * x
            + slope * slope * xx;
        let variance = squares.max(0.0) / (count - 2.0).max(1.0);
        LineFit { intercept, slope, variance, sizes }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn line(observed: impl IntoIterator<Item = (f64, f64)>) -> Line {
        let mut line = Line::default();
        observed.into_iter().for_each(|(x, y)| line.add(x, y));
        line
    }

    /// Sizes 1 to 100 at 2 + 3 x, alternately 1 above and 1 below.
    fn noisy() -> Line {
        line((1..=100).map(|x| {
            let x = f64::from(x);
            (x, 2.0 + 3.0 * x + if x % 2.0 == 0.0 { 1.0 } else { -1.0 })
        }))
    }

    #[test]
    fn the_total_of_new_things_follows_their_number_and_their_size() {
        let figure = noisy().total(10.0, 2_000.0, 0.0).unwrap();
        assert!((figure.likely - 6_020.0).abs() < 10.0, "{figure:?}");
        assert!(figure.low < 6_020.0 && 6_020.0 < figure.high, "{figure:?}");
    }

    #[test]
    fn far_from_what_was_seen_the_band_is_wider() {
        let width = |size: f64| {
            let figure = noisy().total(10.0, size, 0.0).unwrap();
            figure.high - figure.low
        };
        assert!(width(20_000.0) > 2.0 * width(505.0));
    }

    #[test]
    fn without_sizes_it_is_the_mean() {
        let figure = line([(0.0, 1.0), (0.0, 3.0), (0.0, 2.0)]).total(4.0, 0.0, 0.0).unwrap();
        assert_eq!(figure.likely, 8.0);
        assert_eq!(Line::default().total(4.0, 0.0, 0.0), None);
    }

    #[test]
    fn nothing_takes_less_than_nothing() {
        let falling = line([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]);
        assert_eq!(falling.total(1.0, 100.0, 0.0).unwrap().likely, 2.0);
        let steep = line([(1.0, 0.0), (2.0, 2.0), (3.0, 4.0)]);
        assert!(steep.total(1.0, 0.1, 0.0).unwrap().likely >= 0.0);
    }

    #[test]
    fn one_observation_is_doubted() {
        let figure = line([(5.0, 10.0)]).total(1.0, 5.0, 0.1).unwrap();
        assert_eq!((figure.low, figure.likely, figure.high), (5.0, 10.0, 15.0));
    }

    #[test]
    fn what_is_new_counts_more_in_the_long_run() {
        let mut line = line((0..MOST as usize).map(|_| (0.0, 1.0)));
        (0..MOST as usize).for_each(|_| line.add(0.0, 3.0));
        assert!(line.count <= MOST);
        assert!(line.total(1.0, 0.0, 0.0).unwrap().likely > 2.2);
    }
}
