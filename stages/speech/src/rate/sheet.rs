//! The order in which a rater hears pairs: rounds with one pair for each sentence.

use std::collections::{BTreeMap, BTreeSet};

use cache::Digest;
use stage_core::{Item, Parameters, StageError};

use crate::statistics::random::Random;

/// The fewest trials between a pair and its repetition, if there are enough.
const APART: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairRole {
    Pair,
    /// One recording twice.
    Same,
    /// A recording, and a muffled copy of it as the second one.
    Dull,
}

impl PairRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            PairRole::Pair => "pair",
            PairRole::Same => "same",
            PairRole::Dull => "dull",
        }
    }
}

/// Two recordings of a sentence, without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    pub id: String,
    pub role: PairRole,
    pub sentence: String,
    pub one: String,
    pub other: String,
}

impl Pair {
    /// Reads an item of `rate.pairs`.
    pub fn of(item: &Item) -> Option<Pair> {
        let text = |name: &str| item.fields.text(name).map(str::to_owned);
        let roles = [PairRole::Pair, PairRole::Same, PairRole::Dull];
        let role = item.fields.text("role")?;
        Some(Pair {
            id: item.id.to_string(),
            role: roles.into_iter().find(|own| own.name() == role)?,
            sentence: text("sentence")?,
            one: text("one")?,
            other: text("other")?,
        })
    }
}

/// The rules of a test, from the parameters of `rate.pairs`.
#[derive(Clone, Debug)]
pub struct Rules {
    pub repeats: f64,
    pub traps: usize,
    /// "No difference" is an answer.
    pub tie: bool,
    pub seed: u64,
}

impl Rules {
    /// Reads the parameters of a stage `rate.pairs`.
    ///
    /// # Errors
    ///
    /// If they are those of another kind.
    pub fn read(parameters: &Parameters) -> Result<Rules, StageError> {
        Ok(Rules {
            repeats: parameters.number("repeats")?,
            traps: usize::try_from(parameters.integer("traps")?).unwrap_or_default(),
            tie: parameters.flag("tie")?,
            seed: parameters.integer("seed")? as u64,
        })
    }
}

/// A pair as it is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its position among the pairs.
    pub pair: usize,
    /// The second voice is on the left.
    pub swapped: bool,
    /// It was played before in this round, with the sides exchanged.
    pub repeat: bool,
}

/// Pairs by what is compared: the Latin square of a test.
pub struct Sheet {
    /// By sentence and by voices, in their order.
    square: Vec<Vec<Option<usize>>>,
    traps: Vec<usize>,
    rules: Rules,
}

impl Sheet {
    pub fn new(pairs: &[Pair], rules: Rules) -> Sheet {
        let of_voices = |pair: &Pair| (pair.one.clone(), pair.other.clone());
        let compared = || pairs.iter().enumerate().filter(|(_, pair)| pair.role == PairRole::Pair);
        let sentences: BTreeSet<&str> = compared().map(|(_, pair)| &*pair.sentence).collect();
        let voices: BTreeSet<(String, String)> =
            compared().map(|(_, pair)| of_voices(pair)).collect();
        let places: BTreeMap<(&str, (String, String)), usize> =
            compared().map(|(at, pair)| ((&*pair.sentence, of_voices(pair)), at)).collect();
        let row = |sentence: &&str| {
            let place = |two: &(String, String)| places.get(&(*sentence, two.clone())).copied();
            voices.iter().map(place).collect()
        };
        let square = sentences.iter().map(row).collect();
        let of_role = |role: PairRole| -> Vec<usize> {
            let own = pairs.iter().enumerate().filter(|(_, pair)| pair.role == role);
            own.map(|(at, _)| at).collect()
        };
        // Without the answer "no difference" there is no right one to a recording played twice.
        let same = if rules.tie { of_role(PairRole::Same) } else { Vec::new() };
        let dull = of_role(PairRole::Dull);
        let both = (0..same.len().max(dull.len())).flat_map(|at| [dull.get(at), same.get(at)]);
        let traps = both.flatten().copied().collect();
        Sheet { square, traps, rules }
    }

    /// The number of rounds after which a rater has heard every pair.
    pub fn rounds(&self) -> usize {
        self.square.first().map_or(0, Vec::len)
    }

    /// The trials of a round, the same for the same rater.
    pub fn round(&self, rater: &str, number: usize) -> Vec<Trial> {
        let voices = self.rounds();
        if voices == 0 {
            return Vec::new();
        }
        let seed = self.rules.seed;
        let first = hash(&format!("rater {seed} {rater}")) as usize % voices;
        let mut random = Random::new(hash(&format!("round {seed} {rater} {number}")));
        let heard = self.square.iter().enumerate();
        let heard = heard.map(|(at, row)| ((first + at + number) % voices, row));
        let mut by_voices: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (voices, row) in heard {
            by_voices.entry(voices).or_default().extend(row[voices]);
        }
        let mut trials = Vec::new();
        // Every two voices change their sides from one sentence to the next.
        for mut pairs in by_voices.into_values() {
            shuffle(&mut pairs, &mut random);
            let coin = random.below(2);
            trials.extend(pairs.into_iter().enumerate().map(|(at, pair)| Trial {
                pair,
                swapped: (at + coin) % 2 == 1,
                repeat: false,
            }));
        }
        shuffle(&mut trials, &mut random);
        self.add_repeats(&mut trials, &mut random);
        self.add_traps(&mut trials, number, &mut random);
        trials
    }

    fn add_repeats(&self, trials: &mut Vec<Trial>, random: &mut Random) {
        let count = (trials.len() as f64 * self.rules.repeats).ceil() as usize;
        // The earlier ones leave room for others between.
        let mut places: Vec<usize> = (0..trials.len().saturating_sub(APART)).collect();
        shuffle(&mut places, random);
        let repeated: Vec<Trial> = places.iter().take(count).map(|at| trials[*at]).collect();
        for trial in repeated {
            let again = Trial { swapped: !trial.swapped, repeat: true, ..trial };
            let first = trials.iter().position(|own| own.pair == trial.pair).unwrap_or_default();
            let from = (first + APART).min(trials.len());
            trials.insert(from + random.below(trials.len() - from + 1), again);
        }
    }

    fn add_traps(&self, trials: &mut Vec<Trial>, number: usize, random: &mut Random) {
        let count = self.rules.traps.min(self.traps.len());
        for at in 0..count {
            let pair = self.traps[(number * count + at) % self.traps.len()];
            let trap = Trial { pair, swapped: random.below(2) == 1, repeat: false };
            // Trials behind the repetition stay behind it: a trap only adds to the distance.
            let place = 1 + random.below(trials.len().max(1));
            trials.insert(place.min(trials.len()), trap);
        }
    }
}

fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for at in (1..all.len()).rev() {
        all.swap(at, random.below(at + 1));
    }
}

fn hash(text: &str) -> u64 {
    Digest::of(text.as_bytes()).start()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(voices: &[&str], sentences: usize) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for sentence in 0..sentences {
            let pair = |role: PairRole, one: &str, other: &str| Pair {
                id: format!("{sentence} {} {one} {other}", role.name()),
                role,
                sentence: format!("s{sentence:02}"),
                one: one.to_owned(),
                other: other.to_owned(),
            };
            for (at, one) in voices.iter().enumerate() {
                pairs.extend(voices[at + 1..].iter().map(|other| pair(PairRole::Pair, one, other)));
            }
            pairs.push(pair(PairRole::Same, voices[0], voices[0]));
            pairs.push(pair(PairRole::Dull, voices[0], voices[0]));
        }
        pairs
    }

    fn rules() -> Rules {
        Rules { repeats: 0.1, traps: 2, tie: true, seed: 1 }
    }

    #[test]
    fn a_round_has_each_sentence_once_with_repeats_and_traps_between() {
        let pairs = pairs(&["a", "b", "c"], 20);
        let sheet = Sheet::new(&pairs, rules());
        assert_eq!(sheet.rounds(), 3);
        for number in 0..3 {
            let trials = sheet.round("anna", number);
            let own = |trial: &&Trial| !trial.repeat && pairs[trial.pair].role == PairRole::Pair;
            let sentences: BTreeSet<&str> =
                trials.iter().filter(own).map(|trial| &*pairs[trial.pair].sentence).collect();
            assert_eq!((sentences.len(), trials.iter().filter(own).count()), (20, 20));
            assert_eq!(trials.iter().filter(|trial| trial.repeat).count(), 2);
            assert_eq!(trials.len(), 24);
            assert_ne!(pairs[trials[0].pair].role, PairRole::Dull);
        }
    }

    #[test]
    fn after_all_rounds_a_rater_has_heard_every_pair_once() {
        let pairs = pairs(&["a", "b", "c", "d"], 7);
        let sheet = Sheet::new(&pairs, rules());
        let all = (0..sheet.rounds()).flat_map(|number| sheet.round("anna", number));
        let heard: Vec<usize> = all
            .filter(|trial| !trial.repeat && pairs[trial.pair].role == PairRole::Pair)
            .map(|trial| trial.pair)
            .collect();
        let different: BTreeSet<usize> = heard.iter().copied().collect();
        assert_eq!((heard.len(), different.len()), (42, 42));
    }

    #[test]
    fn a_repetition_comes_later_and_with_the_sides_exchanged() {
        let pairs = pairs(&["a", "b"], 20);
        let sheet = Sheet::new(&pairs, Rules { repeats: 0.3, ..rules() });
        for rater in ["anna", "ben", "eero"] {
            let trials = sheet.round(rater, 0);
            let repeats = trials.iter().enumerate().filter(|(_, trial)| trial.repeat);
            for (at, repeat) in repeats {
                let first = trials.iter().position(|own| own.pair == repeat.pair);
                let first = first.unwrap_or_default();
                assert!(first + APART <= at, "{first} {at}");
                assert_ne!(trials[first].swapped, repeat.swapped);
            }
        }
    }

    #[test]
    fn every_two_voices_are_as_often_on_either_side() {
        let pairs = pairs(&["a", "b", "c"], 24);
        let sheet = Sheet::new(&pairs, rules());
        let mut sides: BTreeMap<(&str, &str), [i32; 2]> = BTreeMap::new();
        for trial in sheet.round("anna", 0).iter().filter(|trial| !trial.repeat) {
            let pair = &pairs[trial.pair];
            let count = sides.entry((&pair.one, &pair.other)).or_default();
            count[usize::from(trial.swapped)] += i32::from(pair.role == PairRole::Pair);
        }
        assert!(sides.values().all(|[left, right]| (left - right).abs() <= 1), "{sides:?}");
    }

    #[test]
    fn the_order_is_that_of_rater_and_seed() {
        let pairs = pairs(&["a", "b", "c"], 20);
        let sheet = Sheet::new(&pairs, rules());
        let other = Sheet::new(&pairs, Rules { seed: 2, ..rules() });
        assert_eq!(sheet.round("anna", 0), sheet.round("anna", 0));
        assert_ne!(sheet.round("anna", 0), sheet.round("ben", 0));
        assert_ne!(sheet.round("anna", 0), sheet.round("anna", 1));
        assert_ne!(sheet.round("anna", 0), other.round("anna", 0));
    }

    #[test]
    fn without_the_answer_no_difference_no_trap_has_one_recording_twice() {
        let pairs = pairs(&["a", "b"], 20);
        let sheet = Sheet::new(&pairs, Rules { tie: false, traps: 10, ..rules() });
        let trials = sheet.round("anna", 0);
        let with =
            |role: PairRole| trials.iter().filter(|own| pairs[own.pair].role == role).count();
        assert_eq!((with(PairRole::Same), with(PairRole::Dull)), (0, 10));
        assert!(Sheet::new(&[], rules()).round("anna", 0).is_empty());
    }
}
