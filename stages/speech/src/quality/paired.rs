//! Measures of a model beside those of the base: paired differences with their intervals.

use std::collections::BTreeMap;

use serde::Serialize;
use stage_core::StageError;
use stage_expression::{self as expression, Whole};

use crate::numbers::rounded;
use crate::statistics::aggregate::{MeasureValues, all};
use crate::statistics::bootstrap::{Draws, Interval};
use crate::statistics::table::{Missing, SentenceTable};

/// A measure as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureText {
    pub text: String,
    pub whole: Whole,
}

impl MeasureText {
    pub fn read(text: &str) -> Result<MeasureText, StageError> {
        match expression::measure(text) {
            Ok(whole) => Ok(MeasureText { text: text.to_owned(), whole }),
            Err(fault) => Err(StageError::failed(format!("`{text}`: {}", fault.message))),
        }
    }
}

/// One measure of one model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairedMeasure {
    /// With its own bounds, which say how exact the figure of one model is.
    #[serde(flatten)]
    pub own: Interval,
    pub base: f64,
    /// Value minus base, of the same sentences.
    pub difference: Interval,
}

/// The measures by their texts.
pub type Measures = BTreeMap<String, PairedMeasure>;

/// The measures of a model, each sentence beside the same sentence of the base.
pub fn compare_with_base(
    measures: &[MeasureText],
    (name, base): (&str, &str),
    table: &SentenceTable<'_>,
    draws: &Draws,
    confidence: f64,
) -> Result<Measures, Missing> {
    let places = all(table.sentences.len());
    let one = |measure: &MeasureText| {
        let of = |name| MeasureValues::of(&measure.whole, name, table);
        let (own, other) = (of(name)?, of(base)?);
        let difference =
            |places: &[u32]| own.value(places, f64::NAN) - other.value(places, f64::NAN);
        let interval = Interval::by(draws, confidence, difference(&places), difference);
        let beside = PairedMeasure {
            own: measure_interval(&own, &places, draws, confidence),
            base: rounded(other.value(&places, f64::NAN)),
            difference: interval.rounded(),
        };
        Ok((measure.text.clone(), beside))
    };
    measures.iter().map(one).collect()
}

/// A measure with its interval over sentences.
fn measure_interval(
    own: &MeasureValues,
    places: &[u32],
    draws: &Draws,
    confidence: f64,
) -> Interval {
    let value = |places: &[u32]| own.value(places, f64::NAN);
    Interval::by(draws, confidence, value(places), value).rounded()
}

/// The measures of one candidate alone, without those that its sentences do not have.
pub fn measure_alone(
    measures: &[MeasureText],
    name: &str,
    table: &SentenceTable<'_>,
    draws: &Draws,
    confidence: f64,
) -> BTreeMap<String, Interval> {
    let places = all(table.sentences.len());
    let one = |measure: &MeasureText| {
        let own = MeasureValues::of(&measure.whole, name, table).ok()?;
        Some((measure.text.clone(), measure_interval(&own, &places, draws, confidence)))
    };
    measures.iter().filter_map(one).collect()
}
