//! Preferences: the order of the candidates that meet the requirements.

use stage_core::{ParameterValue, Parameters, StageError};
use stage_expression::{self as expression, Whole};

use super::candidate::Candidate;
use super::options::ChoiceOptions;
use crate::plain::unknown_choice;
use crate::rate::RatingReport;
use crate::statistics::aggregate::{MeasureValues, all};
use crate::statistics::bootstrap::Draws;
use crate::statistics::simultaneous::bounds;
use crate::statistics::table::SentenceTable;

#[derive(Debug, Clone)]
pub struct Preference {
    pub text: String,
    pub measure: Whole,
    pub is_higher_better: bool,
}

impl Preference {
    pub fn read(written: &[ParameterValue]) -> Result<Vec<Preference>, StageError> {
        let one = |value: &ParameterValue| {
            let ParameterValue::Map(map) = value else {
                return Err(StageError::failed(format!(
                    "a preference must be a table, not {value}"
                )));
            };
            let table = Parameters(map.clone());
            let text = table.text("measure")?.to_owned();
            let measure = expression::measure(&text)
                .map_err(|fault| StageError::failed(format!("`{text}`: {}", fault.message)))?;
            let is_higher_better = match table.text("better")? {
                "lower" => false,
                "higher" => true,
                other => return Err(unknown_choice("better", other)),
            };
            Ok(Preference { text, measure, is_higher_better })
        };
        written.iter().map(one).collect()
    }

    fn sign(&self) -> f64 {
        if self.is_higher_better { 1.0 } else { -1.0 }
    }
}

/// The values of one preferred measure, higher being better, and which candidate is better than
/// which.
struct MeasureScores {
    values: Vec<f64>,
    /// By position: this one is better than that one.
    beats: Vec<Vec<bool>>,
}

/// The name of the ranks of a listening test.
const EARS: &str = "what people prefer";

impl MeasureScores {
    /// The strengths by people, of candidates that all were rated.
    fn of_people(rated: &RatingReport, ids: &[&str]) -> MeasureScores {
        let strength = |id: &str| {
            let voice = rated.voices.iter().find(|voice| voice.id == id);
            voice.map_or(f64::NAN, |voice| voice.strength.value)
        };
        let beats = |one: &str, other: &str| {
            rated.pairs.iter().any(|pair| {
                let difference = pair.difference;
                (pair.one == one && pair.other == other && difference.low > 0.0)
                    || (pair.one == other && pair.other == one && difference.high < 0.0)
            })
        };
        let row = |one: &&str| ids.iter().map(|other| beats(one, other)).collect();
        MeasureScores {
            values: ids.iter().map(|id| strength(id)).collect(),
            beats: ids.iter().map(row).collect(),
        }
    }

    fn of(
        preference: &Preference,
        measured: &[MeasureValues],
        draws: &Draws,
        sentences: usize,
        options: &ChoiceOptions,
    ) -> MeasureScores {
        let (sign, places) = (preference.sign(), all(sentences));
        let values: Vec<f64> =
            measured.iter().map(|own| sign * own.value(&places, f64::NAN)).collect();
        let count = values.len();
        let mut beats = vec![vec![false; count]; count];
        let pairs: Vec<(usize, usize)> =
            (0..count).flat_map(|one| (one + 1..count).map(move |other| (one, other))).collect();
        if !options.ties {
            for (one, other) in pairs {
                beats[one][other] = values[one] > values[other];
                beats[other][one] = values[other] > values[one];
            }
            return MeasureScores { values, beats };
        }
        let drawn = |own: &MeasureValues| -> Vec<f64> {
            draws.iter().map(|draw| sign * own.value(draw, f64::NAN)).collect()
        };
        let drawn: Vec<Vec<f64>> = measured.iter().map(drawn).collect();
        let differences: Vec<f64> =
            pairs.iter().map(|(one, other)| values[*one] - values[*other]).collect();
        let of_draws: Vec<Vec<f64>> = pairs
            .iter()
            .map(|(one, other)| {
                drawn[*one].iter().zip(&drawn[*other]).map(|(one, other)| one - other).collect()
            })
            .collect();
        let bounds = bounds(&differences, &of_draws, options.confidence);
        for ((one, other), bounds) in pairs.into_iter().zip(bounds) {
            beats[one][other] = bounds.low > 0.0;
            beats[other][one] = bounds.high < 0.0;
        }
        MeasureScores { values, beats }
    }

    /// The one with the best value; the first of equal ones.
    fn best(&self, among: &[usize]) -> Option<usize> {
        among.iter().copied().reduce(
            |best, one| {
                if self.values[one] > self.values[best] { one } else { best }
            },
        )
    }
}

/// The candidates that can be ordered, and by what.
struct OrderedCandidates {
    /// Positions among all candidates, in the order of steps.
    places: Vec<usize>,
    ids: Vec<String>,
    /// The ranks of a listening test if there was one, then the preferred measures, each with its
    /// name.
    scores: Vec<(String, MeasureScores)>,
    is_rated: bool,
}

impl OrderedCandidates {
    /// Leaves out candidates that lack a figure, or that nobody has listened to.
    fn of(
        candidates: &mut [Candidate],
        table: &SentenceTable<'_>,
        draws: &Draws,
        options: &ChoiceOptions,
    ) -> OrderedCandidates {
        let sentences = table.sentences.len();
        let is_rated =
            |rated: &RatingReport, id: &str| rated.voices.iter().any(|voice| voice.id == *id);
        let mut measured: Vec<(usize, Vec<MeasureValues>)> = Vec::new();
        for (at, candidate) in candidates.iter_mut().enumerate() {
            if !candidate.is_in() {
                continue;
            }
            if options.heard().is_some_and(|rated| !is_rated(rated, &candidate.id)) {
                candidate.leave("it was not in the listening test");
                continue;
            }
            let of = |one: &Preference| MeasureValues::of(&one.measure, &candidate.id, table);
            match options.prefer.iter().map(of).collect::<Result<Vec<_>, _>>() {
                Ok(own) if own.iter().all(|one| one.total(sentences).is_finite()) => {
                    measured.push((at, own));
                }
                Ok(_) => candidate.leave("a preferred measure gives no finite number"),
                Err(missing) => candidate.leave(missing.to_string()),
            }
        }
        let ids: Vec<String> = measured.iter().map(|(at, _)| candidates[*at].id.clone()).collect();
        let names: Vec<&str> = ids.iter().map(String::as_str).collect();
        let of_people = options.heard().map(|rated| MeasureScores::of_people(rated, &names));
        let mut scores: Vec<(String, MeasureScores)> =
            of_people.into_iter().map(|scores| (EARS.to_owned(), scores)).collect();
        for (number, preference) in options.prefer.iter().enumerate() {
            let own: Vec<MeasureValues> =
                measured.iter().map(|(_, own)| own[number].clone()).collect();
            let scored = MeasureScores::of(preference, &own, draws, sentences, options);
            scores.push((format!("`{}`", preference.text), scored));
        }
        let places = measured.into_iter().map(|(at, _)| at).collect();
        OrderedCandidates { places, ids, scores, is_rated: options.heard().is_some() }
    }

    /// Better in one measure, and worse in none.
    fn dominates(&self, one: usize, other: usize) -> bool {
        let any = |one: usize, other: usize| {
            self.scores.iter().any(|(_, scores)| scores.beats[one][other])
        };
        any(one, other) && !any(other, one)
    }

    fn beaten_by(&self, one: usize, among: &[usize]) -> Option<usize> {
        among.iter().copied().find(|other| self.dominates(*other, one))
    }

    /// The reason for which one is behind another that dominates it.
    fn behind(&self, one: usize, other: usize) -> String {
        let people = self.scores.first().filter(|_| self.is_rated);
        let id = &self.ids[other];
        if people.is_some_and(|(_, scores)| scores.beats[other][one]) {
            format!("people prefer `{id}`")
        } else {
            format!("`{id}` is better in one measure and in none worse")
        }
    }
}

/// The position of the preferred candidate: of those that meet the requirements the ones that no
/// other beats (the Pareto front), then by what people prefer and by each measure in order, then the
/// earliest.
pub fn preferred(
    candidates: &mut [Candidate],
    table: &SentenceTable<'_>,
    draws: &Draws,
    options: &ChoiceOptions,
) -> Result<Option<usize>, StageError> {
    let field = OrderedCandidates::of(candidates, table, draws, options);
    let base = candidates.iter().position(Candidate::is_base);
    // The base alone is nothing to choose from.
    if field.places.iter().all(|at| base == Some(*at)) {
        return Ok(None);
    }
    let (ids, mut among) = (&field.ids, (0..field.ids.len()).collect::<Vec<usize>>());
    let mut leave = |among: &mut Vec<usize>, kept: Vec<usize>, reason: &dyn Fn(usize) -> String| {
        among.iter().filter(|one| !kept.contains(one)).for_each(|one| {
            candidates[field.places[*one]].leave(reason(*one));
        });
        *among = kept;
    };
    let is_free = |one: &usize| field.beaten_by(*one, &among).is_none();
    let front: Vec<usize> = among.iter().copied().filter(is_free).collect();
    // Intervals are no order: if each is beaten by another one, all stay.
    if !front.is_empty() {
        let others = among.clone();
        leave(&mut among, front, &|one| {
            let other = field.beaten_by(one, &others);
            other.map(|other| field.behind(one, other)).unwrap_or_default()
        });
    }
    for (name, scores) in &field.scores {
        let Some(best) = scores.best(&among) else { break };
        let kept = among.iter().copied().filter(|one| !scores.beats[best][*one]).collect();
        leave(&mut among, kept, &|_| format!("`{}` is better in {name}", ids[best]));
    }
    // In the order of steps.
    let chosen = among.first().copied();
    leave(&mut among, chosen.into_iter().collect(), &|one| {
        let is_base = base == Some(field.places[one]);
        let first = if is_base { "is trained" } else { options.words.first };
        format!("no measure separates it from `{}`, which {first}", ids[chosen.unwrap_or_default()])
    });
    Ok(chosen.map(|one| field.places[one]))
}
