//! Monotonic rational-quadratic splines (Durkan et al., Neural Spline Flows, arXiv 1906.04032,
//! section 3.1), linear outside an interval.

use tch::{Kind, Tensor};

/// The smallest relative width and height of a bin, and the smallest derivative.
const LEAST_BIN: f64 = 1e-3;
const LEAST_SLOPE: f64 = 1e-3;
/// The offset of the last knot when a value's bin is searched, so that the end of the interval
/// belongs to the last bin.
const BEYOND: f64 = 1e-6;

/// A spline for each value of a tensor of shape [..]: knots [.., K + 1].
#[derive(Debug)]
pub struct Spline {
    bound: f64,
    /// The knots on both axes.
    across: Tensor,
    up: Tensor,
    /// The derivatives at the knots.
    slopes: Tensor,
}

/// The bin of a value: [..] each.
struct Bin {
    left: Tensor,
    width: Tensor,
    bottom: Tensor,
    height: Tensor,
    /// Height over width.
    delta: Tensor,
    slope: Tensor,
    next_slope: Tensor,
    /// The sum of the derivatives at both ends, minus twice the slope of the straight line.
    bend: Tensor,
}

impl Spline {
    /// From unbounded numbers: widths and heights [.., K], derivatives at the inner knots [.., K -
    /// 1]. The interval is from -bound to bound on both axes.
    pub fn new(widths: &Tensor, heights: &Tensor, slopes: &Tensor, bound: f64) -> Spline {
        let slopes = slopes.to_kind(Kind::Float);
        // At the ends the derivative is one, as outside.
        let ends = ends(&slopes, 1.0);
        let inner = slopes.softplus() + LEAST_SLOPE;
        Spline {
            bound,
            across: knots(&widths.to_kind(Kind::Float), bound),
            up: knots(&heights.to_kind(Kind::Float), bound),
            slopes: Tensor::cat(&[&ends, &inner, &ends], -1),
        }
    }

    /// The spline at x, and its log-derivative there: [..] each.
    pub fn forward(&self, x: &Tensor) -> (Tensor, Tensor) {
        let inside = self.inside(x);
        let bin = self.bin(&inside, &self.across);
        let theta = (&inside - &bin.left) / &bin.width;
        let both = &theta * (1f64 - &theta);
        let rise = &bin.height * (&bin.delta * theta.square() + &bin.slope * &both);
        let y = &bin.bottom + rise / (&bin.delta + &bin.bend * &both);
        let slope = bin.log_slope(&theta);
        let is_inside = self.is_inside(x);
        (y.where_self(&is_inside, x), slope.where_scalarother(&is_inside, 0.0))
    }

    /// The inverse of the spline at y.
    pub fn reverse(&self, y: &Tensor) -> Tensor {
        let inside = self.inside(y);
        let bin = self.bin(&inside, &self.up);
        let rise = &inside - &bin.bottom;
        let bent = &rise * &bin.bend;
        let a = &bin.height * (&bin.delta - &bin.slope) + &bent;
        let b = &bin.height * &bin.slope - bent;
        let c = -(&bin.delta * rise);
        // Rounding can make it negative.
        let discriminant = (b.square() - a * &c * 4.0).clamp_min(0.0);
        let theta = c * 2.0 / (-b - discriminant.sqrt());
        (theta * bin.width + bin.left).where_self(&self.is_inside(y), y)
    }

    fn inside(&self, x: &Tensor) -> Tensor {
        x.to_kind(Kind::Float).clamp(-self.bound, self.bound)
    }

    fn is_inside(&self, x: &Tensor) -> Tensor {
        x.abs().le(self.bound)
    }

    /// The bin of each value along one of the axes.
    fn bin(&self, x: &Tensor, axis: &Tensor) -> Bin {
        let bins = axis.size().last().copied().unwrap_or(2) - 1;
        let starts = axis.detach().narrow(-1, 0, bins);
        let end = axis.detach().narrow(-1, bins, 1) + BEYOND;
        let passed = x.detach().unsqueeze(-1).ge_tensor(&Tensor::cat(&[starts, end], -1));
        let index = passed.sum_dim_intlist([-1i64].as_slice(), true, Kind::Int64) - 1;
        let index = index.clamp(0, bins - 1);
        let at = |knots: &Tensor, index: &Tensor| knots.gather(-1, index, false).squeeze_dim(-1);
        let (left, bottom) = (at(&self.across, &index), at(&self.up, &index));
        let (slope, next_slope) = (at(&self.slopes, &index), at(&self.slopes, &(&index + 1)));
        let width = at(&self.across, &(&index + 1)) - &left;
        let height = at(&self.up, &(index + 1)) - &bottom;
        let delta = &height / &width;
        let bend = &slope + &next_slope - &delta * 2.0;
        Bin { left, width, bottom, height, delta, slope, next_slope, bend }
    }
}

impl Bin {
    /// At a share of the bin's width.
    fn log_slope(&self, theta: &Tensor) -> Tensor {
        let rest = 1f64 - theta;
        let both = theta * &rest;
        let steep = &self.next_slope * theta.square()
            + &self.delta * &both * 2.0
            + &self.slope * rest.square();
        let denominator = &self.delta + &self.bend * both;
        (self.delta.square() * steep).log() - denominator.log() * 2.0
    }
}

/// A constant for each spline: [.., 1].
fn ends(like: &Tensor, value: f64) -> Tensor {
    let mut size = like.size();
    if let Some(last) = size.last_mut() {
        *last = 1;
    }
    Tensor::full(size, value, (Kind::Float, like.device()))
}

/// Cumulative shares from -bound to bound: [.., K] to [.., K + 1].
fn knots(shares: &Tensor, bound: f64) -> Tensor {
    let bins = shares.size().last().copied().unwrap_or(1);
    let shares = shares.softmax(-1, Kind::Float) * (1.0 - LEAST_BIN * bins as f64) + LEAST_BIN;
    let inner = shares.cumsum(-1, Kind::Float).narrow(-1, 0, bins - 1) * (2.0 * bound) - bound;
    // Both ends exactly.
    Tensor::cat(&[ends(&shares, -bound), inner, ends(&shares, bound)], -1)
}

/// Widths, heights and derivatives as one tensor [.., 3 K - 1], the first two divided by a number.
pub fn from_numbers(numbers: &Tensor, bins: i64, divisor: f64, bound: f64) -> Spline {
    let widths = numbers.narrow(-1, 0, bins) / divisor;
    let heights = numbers.narrow(-1, bins, bins) / divisor;
    Spline::new(&widths, &heights, &numbers.narrow(-1, 2 * bins, bins - 1), bound)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tch::Device;

    use super::*;
    use crate::nn::random::Random;

    fn spline(bins: i64, values: i64) -> Spline {
        let (mut random, count) = (Random::new(5), values * (3 * bins - 1));
        let numbers: Vec<f32> = (0..count).map(|_| 8.0 * random.fraction() as f32 - 4.0).collect();
        let numbers = Tensor::from_slice(&numbers).view([values, 3 * bins - 1]);
        from_numbers(&numbers, bins, 1.0, 5.0)
    }

    #[test]
    fn the_way_back_leads_to_where_one_came_from() {
        for bins in [1, 2, 10] {
            let x = Tensor::linspace(-7.0, 7.0, 401, (Kind::Float, Device::Cpu));
            let spline = spline(bins, 401);
            let (y, _) = spline.forward(&x);
            // In flat parts of a spline many positions are equally good, so heights are compared.
            let (again, _) = spline.forward(&spline.reverse(&y));
            let far = (again - y).abs().max().double_value(&[]);
            assert!(far < 1e-4, "{bins} bins: off by {far}");
        }
    }

    #[test]
    fn the_slope_is_the_derivative_and_the_outside_stays() {
        let x = Tensor::linspace(-6.0, 6.0, 101, (Kind::Float, Device::Cpu));
        let x = x.set_requires_grad(true);
        let (y, log_slope) = spline(10, 101).forward(&x);
        y.sum(Kind::Float).backward();
        let far = (x.grad().log() - &log_slope).abs().max().double_value(&[]);
        assert!(far < 1e-3, "{far}");
        assert_eq!(y.double_value(&[0]), -6.0);
        assert_eq!(log_slope.double_value(&[100]), 0.0);
    }
}
