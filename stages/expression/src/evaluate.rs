//! The value of a measure over sentences.

use super::{Aggregate, Each, Test, Whole};
use stage_core::{Fields, Value};

/// A value that an expression needs and a sentence lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lacks {
    #[error("no number `{0}`")]
    Number(String),
    #[error("no text `{0}`")]
    Text(String),
    #[error("no finite number")]
    Finite,
    #[error("no sentence")]
    Sentences,
}

impl Each {
    /// # Errors
    ///
    /// If a number is missing or not finite.
    pub fn of(&self, fields: &Fields) -> Result<f64, Lacks> {
        let found = match self {
            Each::Number(number) => *number,
            Each::Field(field) => {
                let found = fields.number(field).filter(|number| number.is_finite());
                return found.ok_or_else(|| Lacks::Number(field.clone()));
            }
            Each::Negative(inner) => -inner.of(fields)?,
            Each::Binary(operator, left, right) => {
                operator.apply(left.of(fields)?, right.of(fields)?)
            }
        };
        if found.is_finite() { Ok(found) } else { Err(Lacks::Finite) }
    }
}

impl Test {
    /// Both sides of `and` and `or` are needed, so that a missing value is never passed over.
    ///
    /// # Errors
    ///
    /// If a value is missing.
    pub fn of(&self, fields: &Fields) -> Result<bool, Lacks> {
        Ok(match self {
            Test::Compare(left, relation, right) => {
                relation.holds(&left.of(fields)?, &right.of(fields)?)
            }
            Test::Text { field, text, is } => match fields.get(field) {
                Some(Value::Text(found)) => (**found == **text) == *is,
                _ => return Err(Lacks::Text(field.clone())),
            },
            Test::And(left, right) => {
                let (left, right) = (left.of(fields)?, right.of(fields)?);
                left && right
            }
            Test::Or(left, right) => {
                let (left, right) = (left.of(fields)?, right.of(fields)?);
                left || right
            }
            Test::Not(inner) => !inner.of(fields)?,
        })
    }
}

impl Whole {
    /// The value over these sentences, in whatever order they come. A measure does not refer to
    /// `base`.
    ///
    /// # Errors
    ///
    /// If a sentence lacks a value, or the result is not finite.
    pub fn over(&self, sentences: &[&Fields]) -> Result<f64, Lacks> {
        let found = match self {
            Whole::Number(number) => *number,
            Whole::Base => return Err(Lacks::Number("base".to_owned())),
            Whole::Negative(inner) => -inner.over(sentences)?,
            Whole::Binary(operator, left, right) => {
                operator.apply(left.over(sentences)?, right.over(sentences)?)
            }
            Whole::Aggregate(aggregate) => aggregate.over(sentences)?,
        };
        if found.is_finite() { Ok(found) } else { Err(Lacks::Finite) }
    }
}

impl Aggregate {
    fn over(&self, sentences: &[&Fields]) -> Result<f64, Lacks> {
        let numbers = |each: &Each| -> Result<Vec<f64>, Lacks> {
            let numbers = sentences.iter().map(|fields| each.of(fields));
            let mut numbers = numbers.collect::<Result<Vec<f64>, _>>()?;
            // The order of the sentences must not move the last bit of a sum.
            numbers.sort_by(f64::total_cmp);
            if numbers.is_empty() { Err(Lacks::Sentences) } else { Ok(numbers) }
        };
        let passed = |test: &Test| -> Result<f64, Lacks> {
            let passed = sentences.iter().map(|fields| test.of(fields));
            let passed = passed.collect::<Result<Vec<bool>, _>>()?;
            if passed.is_empty() {
                Err(Lacks::Sentences)
            } else {
                Ok(passed.into_iter().filter(|passed| *passed).count() as f64)
            }
        };
        Ok(match self {
            Aggregate::Mean(each) => {
                let numbers = numbers(each)?;
                numbers.iter().sum::<f64>() / numbers.len() as f64
            }
            Aggregate::Median(each) => quantile(&numbers(each)?, 0.5),
            Aggregate::P90(each) => quantile(&numbers(each)?, 0.9),
            Aggregate::Min(each) => quantile(&numbers(each)?, 0.0),
            Aggregate::Max(each) => quantile(&numbers(each)?, 1.0),
            Aggregate::Share(test) => passed(test)? / sentences.len() as f64,
            Aggregate::Count(test) => passed(test)?,
        })
    }
}

/// Of sorted numbers, linearly interpolated.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * sorted.len().saturating_sub(1) as f64;
    let at = |place: f64| sorted.get(place as usize).copied().unwrap_or(f64::NAN);
    at(place.floor()) + place.fract() * (at(place.ceil()) - at(place.floor()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::measure;
    use super::*;

    fn sentence(cer: Option<f64>, stop: Option<&str>) -> Fields {
        let cer = cer.map(|cer| ("cer", Value::Number(cer)));
        let stop = stop.map(|stop| ("stop", Value::text(stop)));
        cer.into_iter().chain(stop).collect()
    }

    fn value(text: &str, sentences: &[Fields]) -> Result<f64, Lacks> {
        measure(text).unwrap().over(&sentences.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_measure_is_one_number_of_all_sentences_in_any_order() {
        let mut sentences =
            [0.1, 0.5, 0.2, 0.4].map(|cer| sentence(Some(cer), Some("end"))).to_vec();
        for _ in 0..2 {
            for (text, expected) in [
                ("mean(cer)", 0.3),
                ("median(cer)", 0.3),
                ("min(cer)", 0.1),
                ("max(cer) - min(cer)", 0.4),
                ("p90(cer)", 0.47),
                ("share(cer > 0.3 or stop != 'end')", 0.5),
                ("count(not cer > 0.3)", 2.0),
                ("-mean(2 * cer)", -0.6),
            ] {
                let found = value(text, &sentences).unwrap();
                assert!((found - expected).abs() < 1e-12, "{text}: {found}");
            }
            sentences.reverse();
        }
    }

    #[test]
    fn a_missing_value_is_an_error_and_never_zero() {
        let good = sentence(Some(0.1), Some("end"));
        for (other, text, expected) in [
            (sentence(None, Some("end")), "mean(cer)", Lacks::Number("cer".into())),
            (sentence(Some(f64::NAN), None), "min(cer)", Lacks::Number("cer".into())),
            (
                sentence(Some(0.9), None),
                "share(cer > 0.3 or stop != 'end')",
                Lacks::Text("stop".into()),
            ),
            (sentence(Some(0.0), None), "mean(1 / cer)", Lacks::Finite),
            (good.clone(), "mean(cer) / (min(cer) - min(cer))", Lacks::Finite),
        ] {
            assert_eq!(value(text, &[good.clone(), other]), Err(expected), "{text}");
        }
        assert_eq!(value("mean(cer)", &[]), Err(Lacks::Sentences));
        assert_eq!(value("count(cer > 1)", &[]), Err(Lacks::Sentences));
    }
}
