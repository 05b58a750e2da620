//! Ranks of voices from votes, with intervals that hold for all pairs of voices at once.

use super::rater_checks::PairVote;
use super::sheet::Pair;
use super::votes::VotePreference;
use crate::statistics::bradley_terry::{Strengths, WinCounts};
use crate::statistics::random::Random;
use crate::statistics::simultaneous::{Bounds, bounds};

/// With fewer raters their spread is unknown.
const SEVERAL: usize = 3;
/// The difference that a test without votes is planned for: the better voice wins 70 % of the pairs.
const PLANNED: f64 = 0.847;
/// The normal deviate of that plan: 90 %, two-sided.
const NORMAL: f64 = 1.645;

#[derive(Clone, Copy, Debug)]
pub struct RankOptions {
    pub prior: f64,
    pub confidence: f64,
    pub draws: usize,
    pub seed: u64,
}

/// A difference of two voices: the first minus the second.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub one: usize,
    pub other: usize,
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub wins: usize,
    pub losses: usize,
    pub ties: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ranks {
    /// With bounds beside the mean of all voices.
    pub strengths: Vec<(f64, Bounds)>,
    /// 1 is the best; voices that nothing separates share a rank.
    pub ranks: Vec<usize>,
    /// Every two voices.
    pub differences: Vec<Difference>,
    pub votes: usize,
}

/// The positions of both voices of a vote, and the preference.
struct RankedVote {
    one: usize,
    other: usize,
    preferred: VotePreference,
    rater: usize,
}

/// The ranks by votes on pairs; repeats and traps are left out.
pub fn ranks(voices: &[&str], pairs: &[Pair], heard: &[&PairVote], options: RankOptions) -> Ranks {
    let mut raters: Vec<&str> = Vec::new();
    let place = |name: &str| voices.iter().position(|own| *own == name);
    let mut votes = Vec::new();
    for vote in heard {
        let pair = &pairs[vote.pair];
        let (Some(one), Some(other)) = (place(&pair.one), place(&pair.other)) else { continue };
        let known = raters.iter().position(|name| **name == *vote.rater);
        let rater = known.unwrap_or_else(|| {
            raters.push(&vote.rater);
            raters.len() - 1
        });
        votes.push(RankedVote { one, other, preferred: vote.preferred, rater });
    }
    let fit = |weights: &[f64]| fit(voices.len(), &votes, weights, options.prior);
    let found = fit(&vec![1.0; raters.len()]);
    let mut random = Random::new(options.seed);
    let drawn = normal_draws(&found, options.draws, &mut random);
    let mut both = Intervals::of(&found.values, &drawn, options.confidence);
    if raters.len() >= SEVERAL {
        // Raters differ more than their votes do.
        let draw = |_| {
            let mut weights = vec![0.0; raters.len()];
            (0..raters.len()).for_each(|_| weights[random.below(raters.len())] += 1.0);
            fit(&weights).values
        };
        let drawn: Vec<Vec<f64>> = (0..options.draws).map(draw).collect();
        both.widen(Intervals::of(&found.values, &drawn, options.confidence));
    }
    both.ranks(&found.values, &votes)
}

fn fit(voices: usize, votes: &[RankedVote], weights: &[f64], prior: f64) -> Strengths {
    let mut all = WinCounts::new(voices);
    for vote in votes {
        let weight = weights[vote.rater];
        match vote.preferred {
            VotePreference::One => all.add(vote.one, vote.other, weight),
            VotePreference::Other => all.add(vote.other, vote.one, weight),
            VotePreference::Same => {
                all.add(vote.one, vote.other, weight / 2.0);
                all.add(vote.other, vote.one, weight / 2.0);
            }
        }
    }
    all.fit(prior)
}

/// Strengths as uncertain as the votes leave them.
fn normal_draws(found: &Strengths, draws: usize, random: &mut Random) -> Vec<Vec<f64>> {
    let count = found.values.len();
    let root = root(&found.covariance);
    let draw = |_| {
        let noise: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let moved = |at: usize| -> f64 { root[at].iter().zip(&noise).map(|(a, b)| a * b).sum() };
        (0..count).map(|at| found.values[at] + moved(at)).collect()
    };
    (0..draws).map(draw).collect()
}

/// The lower triangle with this square (Cholesky).
fn root(square: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = square.len();
    let mut root = vec![vec![0.0; count]; count];
    for row in 0..count {
        for column in 0..=row {
            let known: f64 = (0..column).map(|at| root[row][at] * root[column][at]).sum();
            let left: f64 = square[row][column] - known;
            root[row][column] = if row == column {
                left.max(0.0).sqrt()
            } else if root[column][column] > 0.0 {
                left / root[column][column]
            } else {
                0.0
            };
        }
    }
    root
}

/// Every two positions in order.
fn couples(count: usize) -> Vec<(usize, usize)> {
    (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other))).collect()
}

struct Intervals {
    strengths: Vec<Bounds>,
    differences: Vec<Bounds>,
}

impl Intervals {
    fn of(values: &[f64], drawn: &[Vec<f64>], confidence: f64) -> Intervals {
        let count = values.len();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / count.max(1) as f64;
        let centred = |of: &[f64], at: usize| of[at] - mean(of);
        let column = |of: &dyn Fn(&[f64]) -> f64| drawn.iter().map(|draw| of(draw)).collect();
        let own: Vec<f64> = (0..count).map(|at| centred(values, at)).collect();
        let own_drawn: Vec<Vec<f64>> =
            (0..count).map(|at| column(&|draw| centred(draw, at))).collect();
        let couples = couples(count);
        let apart: Vec<f64> = couples.iter().map(|(a, b)| values[*a] - values[*b]).collect();
        let apart_drawn: Vec<Vec<f64>> =
            couples.iter().map(|(a, b)| column(&|draw| draw[*a] - draw[*b])).collect();
        Intervals {
            strengths: bounds(&own, &own_drawn, confidence),
            differences: bounds(&apart, &apart_drawn, confidence),
        }
    }

    /// Contains the other intervals too.
    fn widen(&mut self, other: Intervals) {
        let own = self.strengths.iter_mut().chain(&mut self.differences);
        for (own, other) in own.zip(other.strengths.into_iter().chain(other.differences)) {
            own.low = own.low.min(other.low);
            own.high = own.high.max(other.high);
        }
    }

    fn ranks(self, values: &[f64], votes: &[RankedVote]) -> Ranks {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count.max(1) as f64;
        let mut ranks = vec![1; count];
        let mut differences = Vec::new();
        for ((one, other), Bounds { low, high }) in couples(count).into_iter().zip(self.differences)
        {
            ranks[other] += usize::from(low > 0.0);
            ranks[one] += usize::from(high < 0.0);
            let own = votes.iter().filter(|vote| vote.one == one && vote.other == other);
            let own: Vec<VotePreference> = own.map(|vote| vote.preferred).collect();
            let with = |wanted| own.iter().filter(|preferred| **preferred == wanted).count();
            differences.push(Difference {
                one,
                other,
                value: values[one] - values[other],
                low,
                high,
                wins: with(VotePreference::One),
                losses: with(VotePreference::Other),
                ties: with(VotePreference::Same),
            });
        }
        let centred = values.iter().map(|value| value - mean);
        let strengths = centred.zip(self.strengths).collect();
        Ranks { strengths, ranks, differences, votes: votes.len() }
    }
}

impl Ranks {
    /// The voices by strength, the best first.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.strengths.len()).collect();
        order.sort_by(|a, b| self.strengths[*b].0.total_cmp(&self.strengths[*a].0));
        order
    }

    /// The number of further votes after which the interval of the best voice and of each other one
    /// would not contain 0, if the strengths stay as they are. None if it is decided already.
    pub fn more(&self) -> Option<f64> {
        let best = *self.order().first()?;
        let rivals = self.differences.iter().filter(|own| own.one == best || own.other == best);
        let open = rivals.filter(|own| own.low <= 0.0 && own.high >= 0.0);
        let needed = |own: &Difference| {
            if self.votes == 0 {
                // The standard error of a difference is the root of 4 (voices - 1) / votes.
                let voices = self.strengths.len() as f64;
                return 4.0 * (voices - 1.0) * (NORMAL / PLANNED).powi(2);
            }
            let side = if own.value > 0.0 { own.value - own.low } else { own.high - own.value };
            let times = (side / own.value.abs().max(1e-9)).powi(2);
            (times - 1.0).max(0.0) * self.votes as f64
        };
        open.map(needed).reduce(f64::max).map(|more| more.ceil().max(1.0))
    }
}
