//! Raters who do not listen: repeats, traps and sides show them.
//!
//! Each repeat and each trap is passed or failed. A rater is left out if random answers explain these
//! checks thirty times better than care does, and also if one side is preferred more often than a fair
//! coin would do in one of a thousand cases.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::sheet::{Pair, PairRole};
use super::votes::VotePreference;

/// A rater is left out if random answers explain the checks this many times better.
const RANDOM_BY: f64 = 30.0;
/// The chance of as many votes for one side below which it is not by chance.
const SIDED: f64 = 1e-3;

/// The chances that a careful and a random rater pass a check.
struct Chances {
    careful: f64,
    random: f64,
}

/// Voices can be so alike that the answer to a repeat differs honestly.
const REPEAT: Chances = Chances { careful: 0.7, random: 0.5 };
const DULL: Chances = Chances { careful: 0.95, random: 0.5 };
/// With three answers. Some people hear a difference where there is none.
const SAME: Chances = Chances { careful: 0.7, random: 1.0 / 3.0 };

/// A vote with its pair.
#[derive(Clone, Debug)]
pub struct PairVote {
    pub rater: String,
    /// Its position among the pairs.
    pub pair: usize,
    pub preferred: VotePreference,
    /// The voice on the left was preferred; None for no difference.
    pub left: Option<bool>,
    pub repeat: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rater {
    pub name: String,
    /// Votes on pairs, without repeats and traps.
    pub votes: usize,
    pub ties: usize,
    /// All votes for a side, and those for the left one.
    pub sided: usize,
    pub left: usize,
    pub repeats: usize,
    /// Repeats with the same answer.
    pub agreed: usize,
    pub traps: usize,
    pub passed: usize,
    /// The reason why the votes do not count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub out: Option<String>,
}

/// The raters by name.
pub fn raters(pairs: &[Pair], heard: &[PairVote]) -> Vec<Rater> {
    let names: BTreeSet<&str> = heard.iter().map(|vote| &*vote.rater).collect();
    let own = |name: &str| heard.iter().filter(|vote| vote.rater == name).collect::<Vec<_>>();
    names.into_iter().map(|name| rater(name, pairs, &own(name))).collect()
}

fn rater(name: &str, pairs: &[Pair], heard: &[&PairVote]) -> Rater {
    let mut rater = Rater { name: name.to_owned(), ..Rater::default() };
    let first: BTreeMap<usize, VotePreference> =
        heard.iter().filter(|vote| !vote.repeat).map(|vote| (vote.pair, vote.preferred)).collect();
    let mut random_by = 1.0;
    let mut check = |passed: bool, chances: Chances| {
        random_by *= if passed {
            chances.random / chances.careful
        } else {
            (1.0 - chances.random) / (1.0 - chances.careful)
        };
        usize::from(passed)
    };
    for vote in heard {
        if let Some(left) = vote.left {
            rater.sided += 1;
            rater.left += usize::from(left);
        }
        match (pairs[vote.pair].role, vote.repeat) {
            (PairRole::Pair, false) => {
                rater.votes += 1;
                rater.ties += usize::from(vote.preferred == VotePreference::Same);
            }
            (PairRole::Pair, true) => {
                let Some(earlier) = first.get(&vote.pair) else { continue };
                rater.repeats += 1;
                rater.agreed += check(*earlier == vote.preferred, REPEAT);
            }
            (PairRole::Same, _) => {
                rater.traps += 1;
                rater.passed += check(vote.preferred == VotePreference::Same, SAME);
            }
            (PairRole::Dull, _) => {
                rater.traps += 1;
                rater.passed += check(vote.preferred == VotePreference::One, DULL);
            }
        }
    }
    rater.out = rater.reason(random_by);
    rater
}

impl Rater {
    fn reason(&self, random_by: f64) -> Option<String> {
        let Rater { sided, left, repeats, agreed, traps, passed, .. } = self;
        let right = sided - left;
        if extreme(*sided, (*left).max(right)) < SIDED {
            let (side, most) = if *left > right { ("left", left) } else { ("right", &right) };
            return Some(format!("prefers the {side} side in {most} of {sided} votes"));
        }
        (random_by >= RANDOM_BY).then(|| {
            format!(
                "answers look random: {passed} of {traps} traps passed, {agreed} of {repeats} \
                 repeats answered alike"
            )
        })
    }
}

/// The chance that a fair coin falls on one side as often, whichever side that is.
fn extreme(count: usize, most: usize) -> f64 {
    // Logarithms: the number of ways is too large for a number otherwise.
    let mut ways = 0.0_f64;
    let mut chance = 0.0;
    for side in 0..=count {
        if side > 0 {
            ways += ((count - side + 1) as f64).ln() - (side as f64).ln();
        }
        if side >= most {
            chance += (ways - count as f64 * std::f64::consts::LN_2).exp();
        }
    }
    (2.0 * chance).min(1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_chance_of_a_coin_is_exact() {
        assert!((extreme(10, 10) - 2.0 / 1024.0).abs() < 1e-12);
        assert!((extreme(10, 9) - 22.0 / 1024.0).abs() < 1e-12);
        assert_eq!(extreme(10, 5), 1.0);
        assert_eq!(extreme(0, 0), 1.0);
        assert!(extreme(2_000, 2_000) < 1e-300);
    }

    fn pairs() -> Vec<Pair> {
        let roles = [
            PairRole::Pair,
            PairRole::Pair,
            PairRole::Pair,
            PairRole::Dull,
            PairRole::Dull,
            PairRole::Dull,
        ];
        let pair = |(at, role): (usize, PairRole)| Pair {
            id: at.to_string(),
            role,
            sentence: at.to_string(),
            one: "a".into(),
            other: "b".into(),
        };
        roles.into_iter().enumerate().map(pair).collect()
    }

    fn vote(pair: usize, preferred: VotePreference, repeat: bool) -> PairVote {
        let left = Some(pair.is_multiple_of(2));
        PairVote { rater: "anna".into(), pair, preferred, left, repeat }
    }

    #[test]
    fn one_slip_leaves_nobody_out_and_failed_traps_do() {
        let traps = |answers: [VotePreference; 3]| -> Vec<PairVote> {
            answers
                .into_iter()
                .enumerate()
                .map(|(at, answer)| vote(3 + at, answer, false))
                .collect()
        };
        let (good, bad) = (VotePreference::One, VotePreference::Other);
        let slip = raters(&pairs(), &traps([good, bad, good])).remove(0);
        assert_eq!((slip.traps, slip.passed, slip.out), (3, 2, None));
        let random = raters(&pairs(), &traps([bad, bad, good])).remove(0);
        let reason = random.out.unwrap();
        assert!(reason.starts_with("answers look random: 1 of 3 traps passed"), "{reason}");
    }

    /// A repeat is no vote of its own: it is asked to see if the first one stands.
    #[test]
    fn a_repeat_is_compared_with_the_first_answer_and_counts_as_no_vote() {
        let heard = [
            vote(0, VotePreference::One, false),
            vote(1, VotePreference::Other, false),
            vote(0, VotePreference::One, true),
            vote(1, VotePreference::One, true),
            vote(2, VotePreference::One, true),
        ];
        let rater = raters(&pairs(), &heard).remove(0);
        assert_eq!((rater.votes, rater.repeats, rater.agreed), (2, 2, 1));
    }
}
