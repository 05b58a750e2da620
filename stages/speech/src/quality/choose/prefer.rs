//! Preferences: the order of the candidates that meet the requirements.

use stage_core::expression::{self, Whole};
use stage_core::{ParameterValue, Parameters, StageError};

use super::candidate::Candidate;
use super::options::Options;
use crate::plain::unknown_choice;
use crate::statistics::aggregate::{Measured, all};
use crate::statistics::bootstrap::Draws;
use crate::statistics::simultaneous::bounds;
use crate::statistics::table::Table;

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
                return Err(StageError::failed(format!("a preference is a table, not {value}")));
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
struct Scores {
    values: Vec<f64>,
    /// By position: this one is better than that one.
    beats: Vec<Vec<bool>>,
}

impl Scores {
    fn of(
        preference: &Preference,
        measured: &[Measured],
        draws: &Draws,
        sentences: usize,
        options: &Options,
    ) -> Scores {
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
            return Scores { values, beats };
        }
        let drawn = |own: &Measured| -> Vec<f64> {
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
        Scores { values, beats }
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

/// The position of the preferred candidate: of those that meet the requirements the ones that no
/// other beats (the Pareto front), then by each measure in order, then the earliest.
pub fn preferred(
    candidates: &mut [Candidate],
    table: &Table<'_>,
    draws: &Draws,
    options: &Options,
) -> Result<Option<usize>, StageError> {
    let mut measured: Vec<(usize, Vec<Measured>)> = Vec::new();
    for (at, candidate) in candidates.iter_mut().enumerate() {
        if !candidate.is_in() {
            continue;
        }
        let of = |preference: &Preference| Measured::of(&preference.measure, &candidate.id, table);
        match options.prefer.iter().map(of).collect::<Result<Vec<_>, _>>() {
            Ok(own) if own.iter().all(|one| one.total(table.sentences.len()).is_finite()) => {
                measured.push((at, own));
            }
            Ok(_) => candidate.leave("a preferred measure gives no finite number"),
            Err(missing) => candidate.leave(missing.to_string()),
        }
    }
    let of = |number: usize, preference: &Preference| {
        let own: Vec<Measured> = measured.iter().map(|(_, own)| own[number].clone()).collect();
        Scores::of(preference, &own, draws, table.sentences.len(), options)
    };
    let scores: Vec<Scores> =
        options.prefer.iter().enumerate().map(|(number, one)| of(number, one)).collect();
    let ids: Vec<String> = measured.iter().map(|(at, _)| candidates[*at].id.clone()).collect();
    let mut among: Vec<usize> = (0..measured.len()).collect();
    let mut leave = |among: &mut Vec<usize>, kept: Vec<usize>, reason: &dyn Fn(usize) -> String| {
        among.iter().filter(|one| !kept.contains(one)).for_each(|one| {
            candidates[measured[*one].0].leave(reason(*one));
        });
        *among = kept;
    };

    let beaten_by = |one: usize, among: &[usize]| {
        among.iter().copied().find(|other| dominates(&scores, *other, one))
    };
    let front: Vec<usize> =
        among.iter().copied().filter(|one| beaten_by(*one, &among).is_none()).collect();
    // Intervals are no order: if each is beaten by another one, all stay.
    if !front.is_empty() {
        let others = among.clone();
        leave(&mut among, front, &|one| match beaten_by(one, &others) {
            Some(other) => format!("`{}` is better in one measure and in none worse", ids[other]),
            None => String::new(),
        });
    }
    for (preference, scores) in options.prefer.iter().zip(&scores) {
        let Some(best) = scores.best(&among) else { break };
        let kept = among.iter().copied().filter(|one| !scores.beats[best][*one]).collect();
        leave(&mut among, kept, &|_| format!("`{}` is better in `{}`", ids[best], preference.text));
    }
    // In the order of steps.
    let chosen = among.first().copied();
    leave(&mut among, chosen.into_iter().collect(), &|_| {
        format!("no measure tells it from `{}`, which is earlier", ids[chosen.unwrap_or_default()])
    });
    Ok(chosen.map(|one| measured[one].0))
}

/// Better in one measure, and worse in none.
fn dominates(scores: &[Scores], one: usize, other: usize) -> bool {
    scores.iter().any(|scores| scores.beats[one][other])
        && !scores.iter().any(|scores| scores.beats[other][one])
}
