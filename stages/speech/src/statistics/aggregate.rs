//! Measures of a candidate: functions of its sentences, of all of them or of drawn ones.

use stage_expression::{Aggregate, Whole};

use super::table::{Missing, SentenceTable};
use crate::numbers::quantile;

/// A measure of one candidate, with its numbers for each sentence.
#[derive(Debug, Clone)]
pub enum MeasureValues {
    Number(f64),
    Mean(Vec<f64>),
    Quantile(f64, Vec<f64>),
    Sum(Vec<f64>),
    /// The value of the base for the other side.
    Base,
    Negative(Box<MeasureValues>),
    Binary(stage_expression::Operator, Box<MeasureValues>, Box<MeasureValues>),
}

impl MeasureValues {
    /// The numbers of a candidate.
    ///
    /// # Errors
    ///
    /// If a sentence lacks one.
    pub fn of(
        whole: &Whole,
        candidate: &str,
        table: &SentenceTable<'_>,
    ) -> Result<MeasureValues, Missing> {
        let boxed = |whole: &Whole| MeasureValues::of(whole, candidate, table).map(Box::new);
        Ok(match whole {
            Whole::Number(number) => MeasureValues::Number(*number),
            Whole::Base => MeasureValues::Base,
            Whole::Negative(inner) => MeasureValues::Negative(boxed(inner)?),
            Whole::Binary(operator, left, right) => {
                MeasureValues::Binary(*operator, boxed(left)?, boxed(right)?)
            }
            Whole::Aggregate(aggregate) => match aggregate {
                Aggregate::Mean(each) => MeasureValues::Mean(table.numbers(candidate, each)?),
                Aggregate::Median(each) => {
                    MeasureValues::Quantile(0.5, table.numbers(candidate, each)?)
                }
                Aggregate::P90(each) => {
                    MeasureValues::Quantile(0.9, table.numbers(candidate, each)?)
                }
                Aggregate::Min(each) => {
                    MeasureValues::Quantile(0.0, table.numbers(candidate, each)?)
                }
                Aggregate::Max(each) => {
                    MeasureValues::Quantile(1.0, table.numbers(candidate, each)?)
                }
                Aggregate::Share(test) => MeasureValues::Mean(table.passes(candidate, test)?),
                Aggregate::Count(test) => MeasureValues::Sum(table.passes(candidate, test)?),
            },
        })
    }

    /// The value over these sentences; `base` is that of the other side for the base.
    pub fn value(&self, places: &[u32], base: f64) -> f64 {
        match self {
            MeasureValues::Number(number) => *number,
            MeasureValues::Base => base,
            MeasureValues::Negative(inner) => -inner.value(places, base),
            MeasureValues::Binary(operator, left, right) => {
                operator.apply(left.value(places, base), right.value(places, base))
            }
            MeasureValues::Mean(numbers) => sum(numbers, places) / places.len() as f64,
            MeasureValues::Sum(numbers) => sum(numbers, places),
            MeasureValues::Quantile(share, numbers) => {
                let mut drawn: Vec<f64> = at(numbers, places).collect();
                quantile(&mut drawn, *share).unwrap_or(f64::NAN)
            }
        }
    }

    /// The value over all sentences, which does not depend on `base`.
    pub fn total(&self, sentences: usize) -> f64 {
        self.value(&all(sentences), f64::NAN)
    }
}

/// Every sentence once.
pub fn all(sentences: usize) -> Vec<u32> {
    (0..sentences as u32).collect()
}

fn at<'a>(numbers: &'a [f64], places: &'a [u32]) -> impl Iterator<Item = f64> + 'a {
    places.iter().filter_map(|place| numbers.get(*place as usize).copied())
}

fn sum(numbers: &[f64], places: &[u32]) -> f64 {
    at(numbers, places).sum()
}
