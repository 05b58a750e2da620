//! Strengths from pairwise votes: the model of Bradley and Terry (1952) with a Gaussian prior.
//!
//! Without a prior there is no estimate where one side never lost. The prior is on the log strengths,
//! around 0. A tie counts as half a win for each.

/// Votes by winner and loser: `wins[i][j]` is how often `i` was preferred to `j`.
#[derive(Debug, Clone, Default)]
pub struct WinCounts {
    wins: Vec<Vec<f64>>,
}

/// The log strengths, and the covariance of their errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Strengths {
    pub values: Vec<f64>,
    pub covariance: Vec<Vec<f64>>,
}

/// Steps of Newton's method; a strictly concave function of a few dimensions needs about six.
const STEPS: usize = 100;
const EXACT: f64 = 1e-12;

impl WinCounts {
    pub fn new(competitors: usize) -> WinCounts {
        WinCounts { wins: vec![vec![0.0; competitors]; competitors] }
    }

    pub fn win(&mut self, winner: usize, loser: usize) {
        self.wins[winner][loser] += 1.0;
    }

    pub fn tie(&mut self, one: usize, other: usize) {
        self.wins[one][other] += 0.5;
        self.wins[other][one] += 0.5;
    }

    /// Adds votes of this weight.
    pub fn add(&mut self, winner: usize, loser: usize, weight: f64) {
        self.wins[winner][loser] += weight;
    }

    pub fn count(&self) -> f64 {
        self.wins.iter().flatten().sum()
    }

    /// The most probable strengths; `deviation` is that of the prior.
    pub fn fit(&self, deviation: f64) -> Strengths {
        let count = self.wins.len();
        let mut values = vec![0.0; count];
        for _ in 0..STEPS {
            let (gradient, information) = self.derivatives(&values, deviation);
            let step = solve(information, &gradient);
            // Halved where the quadratic is far from the function.
            let largest = step.iter().fold(0.0_f64, |largest, one| largest.max(one.abs()));
            let scale = if largest > 2.0 { 2.0 / largest } else { 1.0 };
            values.iter_mut().zip(&step).for_each(|(value, step)| *value += scale * step);
            if largest < EXACT {
                break;
            }
        }
        let (_, information) = self.derivatives(&values, deviation);
        let unit =
            |at: usize| (0..count).map(|own| f64::from(u8::from(own == at))).collect::<Vec<_>>();
        let covariance = (0..count).map(|at| solve(information.clone(), &unit(at))).collect();
        Strengths { values, covariance }
    }

    /// The gradient of the log posterior, and its negative second derivatives.
    fn derivatives(&self, values: &[f64], deviation: f64) -> (Vec<f64>, Vec<Vec<f64>>) {
        let (count, precision) = (values.len(), deviation.powi(-2));
        let mut gradient: Vec<f64> = values.iter().map(|value| -value * precision).collect();
        let mut information = vec![vec![0.0; count]; count];
        for one in 0..count {
            information[one][one] += precision;
            for other in 0..count {
                let votes = self.wins[one][other] + self.wins[other][one];
                if one == other || votes == 0.0 {
                    continue;
                }
                let chance = 1.0 / (1.0 + (values[other] - values[one]).exp());
                gradient[one] += self.wins[one][other] - votes * chance;
                let weight = votes * chance * (1.0 - chance);
                information[one][one] += weight;
                information[one][other] -= weight;
            }
        }
        (gradient, information)
    }
}

impl Strengths {
    /// The difference of two, and its standard error.
    pub fn difference(&self, one: usize, other: usize) -> (f64, f64) {
        let of = |a: usize, b: usize| self.covariance[a][b];
        let variance = of(one, one) + of(other, other) - 2.0 * of(one, other);
        (self.values[one] - self.values[other], variance.max(0.0).sqrt())
    }
}

/// Solves a positive definite system by elimination.
fn solve(mut matrix: Vec<Vec<f64>>, right: &[f64]) -> Vec<f64> {
    let count = right.len();
    let mut right = right.to_vec();
    for at in 0..count {
        let pivot = matrix[at].clone();
        for row in at + 1..count {
            let factor = matrix[row][at] / pivot[at];
            matrix[row].iter_mut().zip(&pivot).for_each(|(own, pivot)| *own -= factor * pivot);
            right[row] -= factor * right[at];
        }
    }
    for at in (0..count).rev() {
        let known: f64 = (at + 1..count).map(|other| matrix[at][other] * right[other]).sum();
        right[at] = (right[at] - known) / matrix[at][at];
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_votes_are_equal_strengths() {
        let mut votes = WinCounts::new(2);
        (0..5).for_each(|_| votes.tie(0, 1));
        let found = votes.fit(1.0);
        assert_eq!(found.values, [0.0, 0.0]);
        assert_eq!(votes.count(), 5.0);
    }

    /// Without a prior its strength would be infinite.
    #[test]
    fn one_that_never_lost_has_a_finite_strength() {
        let mut votes = WinCounts::new(3);
        (0..10).for_each(|_| votes.win(0, 1));
        (0..10).for_each(|_| votes.win(0, 2));
        let found = votes.fit(1.0);
        assert!(found.values[0] > 1.0 && found.values[0] < 5.0, "{found:?}");
        assert!((found.values[1] - found.values[2]).abs() < 1e-9);
        let (difference, error) = found.difference(0, 1);
        assert!(difference > 1.645 * error);
    }

    #[test]
    fn one_without_votes_is_as_uncertain_as_the_prior() {
        let mut votes = WinCounts::new(3);
        votes.win(0, 1);
        let found = votes.fit(0.7);
        assert_eq!(found.values[2], 0.0);
        assert!((found.covariance[2][2] - 0.49).abs() < 1e-12);
    }
}
