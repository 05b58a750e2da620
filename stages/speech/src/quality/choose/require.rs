//! Requirements: shown by the bound of an interval, not by the mean.
//!
//! A candidate passes `mean(cer) <= base + 0.01` if the whole interval of the difference is below
//! the margin. The interval holds for all candidates at once, so that more candidates do not make
//! it easier for one of them to pass by chance.

use stage_core::StageError;
use stage_expression::{self as expression, Comparison, Relation, Requirement};

use super::candidate::{Candidate, ComparisonResult};
use super::options::ChoiceOptions;
use crate::numbers::rounded;
use crate::statistics::aggregate::{MeasureValues, all};
use crate::statistics::bootstrap::Draws;
use crate::statistics::simultaneous::{Bounds, bounds};
use crate::statistics::table::SentenceTable;

/// A requirement as it was written.
#[derive(Debug, Clone)]
pub struct RequirementText {
    pub text: String,
    pub requirement: Requirement,
}

impl RequirementText {
    pub fn read(texts: &[&str]) -> Result<Vec<RequirementText>, StageError> {
        let rule = |text: &&str| match expression::requirement(text) {
            Ok(requirement) => Ok(RequirementText { text: (*text).to_owned(), requirement }),
            Err(fault) => Err(StageError::failed(format!("`{text}`: {}", fault.message))),
        };
        texts.iter().map(rule).collect()
    }

    /// Leaves out the candidates that do not meet it.
    pub fn judge(
        &self,
        candidates: &mut [Candidate],
        table: &SentenceTable<'_>,
        draws: &Draws,
        options: &ChoiceOptions,
    ) -> Result<(), StageError> {
        let mut met = self.requirement.judge(candidates, table, draws, options)?;
        for (candidate, met) in candidates.iter_mut().zip(&mut met) {
            if !*met && candidate.is_in() {
                let told: Vec<String> =
                    candidate.lines.iter().filter_map(ComparisonResult::told).collect();
                candidate.leave(if told.is_empty() {
                    format!("`{}` does not hold", self.text)
                } else {
                    told.join("; ")
                });
            }
        }
        Ok(())
    }

    /// The comparisons in it.
    pub fn comparisons(&self) -> Vec<&Comparison> {
        let mut found = Vec::new();
        self.requirement.collect(&mut found);
        found
    }
}

/// The parts of a requirement, as methods of this crate.
trait RequirementParts {
    fn judge(
        &self,
        candidates: &mut [Candidate],
        table: &SentenceTable<'_>,
        draws: &Draws,
        options: &ChoiceOptions,
    ) -> Result<Vec<bool>, StageError>;

    fn collect<'a>(&'a self, found: &mut Vec<&'a Comparison>);
}

impl RequirementParts for Requirement {
    fn judge(
        &self,
        candidates: &mut [Candidate],
        table: &SentenceTable<'_>,
        draws: &Draws,
        options: &ChoiceOptions,
    ) -> Result<Vec<bool>, StageError> {
        let (left, right, joined): (_, _, fn(bool, bool) -> bool) = match self {
            Requirement::Compare(comparison) => {
                return compared(comparison, candidates, table, draws, options);
            }
            Requirement::And(left, right) => (left, right, |left, right| left && right),
            Requirement::Or(left, right) => (left, right, |left, right| left || right),
        };
        let left = left.judge(candidates, table, draws, options)?;
        let right = right.judge(candidates, table, draws, options)?;
        Ok(left.into_iter().zip(right).map(|(left, right)| joined(left, right)).collect())
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Comparison>) {
        match self {
            Requirement::Compare(comparison) => found.push(comparison),
            Requirement::And(left, right) | Requirement::Or(left, right) => {
                left.collect(found);
                right.collect(found);
            }
        }
    }
}

/// The two sides of a comparison for one candidate, with those of the base.
struct Sides {
    left: MeasureValues,
    right: MeasureValues,
    base: [Option<MeasureValues>; 2],
}

impl Sides {
    fn difference(&self, places: &[u32]) -> f64 {
        let base =
            |at: usize| self.base[at].as_ref().map_or(f64::NAN, |own| own.value(places, f64::NAN));
        self.left.value(places, base(1)) - self.right.value(places, base(0))
    }
}

fn compared(
    comparison: &Comparison,
    candidates: &mut [Candidate],
    table: &SentenceTable<'_>,
    draws: &Draws,
    options: &ChoiceOptions,
) -> Result<Vec<bool>, StageError> {
    let of_base = |is_needed: bool, side| {
        let measured = || MeasureValues::of(side, &options.base, table);
        is_needed.then(measured).transpose().map_err(|missing| broken_base(options, &missing))
    };
    let base = [
        of_base(comparison.right.has_base(), &comparison.left)?,
        of_base(comparison.left.has_base(), &comparison.right)?,
    ];
    let places = all(table.sentences.len());
    let (mut judged, mut values, mut drawn) = (Vec::new(), Vec::new(), Vec::new());
    for (at, candidate) in candidates.iter_mut().enumerate() {
        if candidate.out.is_some() && !table.has(&candidate.id) {
            continue;
        }
        let left = MeasureValues::of(&comparison.left, &candidate.id, table);
        let right = MeasureValues::of(&comparison.right, &candidate.id, table);
        let sides = match (left, right) {
            (Ok(left), Ok(right)) => Sides { left, right, base: base.clone() },
            (Err(missing), _) | (_, Err(missing)) => {
                candidate.leave(missing.to_string());
                continue;
            }
        };
        let value = sides.difference(&places);
        let own: Vec<f64> = draws.iter().map(|draw| sides.difference(draw)).collect();
        if !value.is_finite() || own.iter().any(|one| !one.is_finite()) {
            candidate.leave(format!("`{}` gives no finite number", comparison.text));
            continue;
        }
        judged.push(at);
        values.push(value);
        drawn.push(own);
    }
    let bounds = bounds(&values, &drawn, options.confidence);
    let mut met = vec![false; candidates.len()];
    for ((at, value), Bounds { low, high }) in judged.into_iter().zip(values).zip(bounds) {
        met[at] = match comparison.relation {
            Relation::Less => high < 0.0,
            Relation::LessOrEqual => high <= 0.0,
            Relation::Greater => low > 0.0,
            Relation::GreaterOrEqual => low >= 0.0,
            Relation::Equal | Relation::NotEqual => false,
        };
        candidates[at].lines.push(ComparisonResult {
            comparison: comparison.text.clone(),
            difference: rounded(value),
            low: rounded(low),
            high: rounded(high),
            met: met[at],
        });
    }
    Ok(met)
}

/// Nothing can be compared with a base that lacks a figure.
pub fn broken_base(options: &ChoiceOptions, missing: &impl std::fmt::Display) -> StageError {
    StageError::with_help(
        format!("the base `{}` cannot be compared: {missing}", options.base),
        "`throstle items --quarantined` of the upstream stages shows sentences that were left \
         out; a comparison needs the measure on all sentences",
    )
}
