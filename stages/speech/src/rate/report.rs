//! The report of a listening test, which `quality.choose` and `voice.choose` read.

use serde::{Deserialize, Serialize};

use super::ranks::Ranks;
use super::rater_checks::Rater;
use crate::statistics::bootstrap::Interval;

/// A larger number of further pairs is not told.
const MANY: f64 = 1_000.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatingReport {
    /// The result in one sentence.
    pub summary: String,
    pub decided: bool,
    /// About how many more votes decide which voice is the best.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub more: Option<u64>,
    pub confidence: f64,
    /// Votes that count: without repeats, traps and raters who are left out.
    pub votes: usize,
    /// The best first.
    pub voices: Vec<VoiceRank>,
    pub pairs: Vec<Couple>,
    pub raters: Vec<Rater>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VoiceRank {
    pub id: String,
    /// Voices that nothing separates share a rank.
    pub rank: usize,
    pub strength: Interval,
    /// Half a win for each answer without a difference.
    pub wins: f64,
    pub votes: usize,
}

/// Two voices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Couple {
    pub one: String,
    pub other: String,
    pub wins: usize,
    pub losses: usize,
    pub ties: usize,
    /// The strength of the first minus that of the second.
    pub difference: Interval,
}

impl RatingReport {
    pub fn of(voices: &[&str], ranks: &Ranks, raters: Vec<Rater>, confidence: f64) -> RatingReport {
        let name = |at: usize| voices[at].to_owned();
        let couple = |own: &super::ranks::Difference| Couple {
            one: name(own.one),
            other: name(own.other),
            wins: own.wins,
            losses: own.losses,
            ties: own.ties,
            difference: Interval { value: own.value, low: own.low, high: own.high }.rounded(),
        };
        let voice = |at: usize| {
            let (value, bounds) = ranks.strengths[at];
            let (mut wins, mut votes) = (0.0, 0);
            for own in ranks.differences.iter().filter(|own| own.one == at || own.other == at) {
                let won = if own.one == at { own.wins } else { own.losses };
                wins += won as f64 + own.ties as f64 / 2.0;
                votes += own.wins + own.losses + own.ties;
            }
            let strength = Interval { value, low: bounds.low, high: bounds.high }.rounded();
            VoiceRank { id: name(at), rank: ranks.ranks[at], strength, wins, votes }
        };
        let order = ranks.order();
        let more = ranks.more();
        let mut report = RatingReport {
            summary: String::new(),
            decided: more.is_none() && ranks.votes > 0,
            more: more.filter(|more| *more <= MANY).map(|more| more as u64),
            confidence,
            votes: ranks.votes,
            voices: order.into_iter().map(voice).collect(),
            pairs: ranks.differences.iter().map(couple).collect(),
            warnings: warnings(&raters),
            raters,
        };
        report.summary = report.told();
        report
    }

    fn told(&self) -> String {
        let first = self.voices.first().map(|voice| voice.id.as_str()).unwrap_or_default();
        match (self.votes, self.decided, self.more) {
            (0, _, Some(more)) => {
                let none = self.without_votes();
                format!("{none}: about {more} pairs show a preference of 70 %")
            }
            (0, ..) => self.without_votes(),
            (_, true, _) => format!("`{first}` is preferred"),
            (_, false, Some(1)) => format!("undecided, `{first}` is ahead: about 1 more pair"),
            (_, false, Some(more)) => {
                format!("undecided, `{first}` is ahead: about {more} more pairs")
            }
            (_, false, None) => {
                "undecided: more than 1,000 further pairs needed; the voices may be equal"
                    .to_owned()
            }
        }
    }

    /// The reason why no vote counts.
    fn without_votes(&self) -> String {
        let out = self.raters.iter().filter(|rater| rater.out.is_some());
        match out.map(|rater| rater.votes).sum::<usize>() {
            0 => "no votes yet".to_owned(),
            1 => "no votes count: the only one is of a careless or one-sided rater".to_owned(),
            all => format!("no votes count: all {all} are of careless or one-sided raters"),
        }
    }
}

fn warnings(raters: &[Rater]) -> Vec<String> {
    let out = raters.iter().filter_map(|rater| {
        Some(format!("the votes of `{}` do not count: {}", rater.name, rater.out.as_deref()?))
    });
    let mut warnings: Vec<String> = out.collect();
    let mut counted = raters.iter().filter(|rater| rater.out.is_none() && rater.votes > 0);
    if let (Some(only), None) = (counted.next(), counted.next()) {
        warnings.push(format!(
            "only `{}` rated: the ranks are what one person prefers in these sentences",
            only.name
        ));
    }
    warnings
}
