//! `quality.regression`: compares means of measures with those of a good run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, ParameterValue, Parameters,
    PortOutput, Reject, Setup, StageError,
};

use stage_formats::shapes::listed;

use crate::numbers::{mean, rounded};
use crate::plain::{JSON, to_json, unknown_choice};

/// The better direction of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
    /// Neither: any change is worse.
    Same,
}

/// A compared measure.
#[derive(Debug, Clone, PartialEq)]
struct ComparedMeasure {
    field: String,
    better: Better,
    tolerance: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Same,
    Better,
    Worse,
    /// The baseline does not have it.
    New,
    /// The baseline has it, and the items do not.
    Missing,
}

impl Verdict {
    fn is_regression(self) -> bool {
        matches!(self, Verdict::Worse | Verdict::Missing)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct RegressionReport {
    measures: BTreeMap<String, MeasureResult>,
    regressions: Vec<String>,
}

/// The result for one measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct MeasureResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<f64>,
    /// Items that have it.
    items: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    /// Of the mean, over the items.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<MeanInterval>,
    tolerance: f64,
    verdict: Verdict,
    /// The worst first.
    worst: Vec<Worst>,
}

/// The bounds of a mean over items.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct MeanInterval {
    confidence: f64,
    low: f64,
    high: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Worst {
    id: String,
    value: f64,
}

/// The part of a report that a later run is compared with.
#[derive(Debug, Default, Deserialize)]
struct Baseline {
    measures: BTreeMap<String, Figure>,
}

#[derive(Debug, Deserialize)]
struct Figure {
    #[serde(default)]
    mean: Option<f64>,
}

/// The number of items named for each measure.
const WORST: usize = 5;
/// The confidence of intervals, and the distance of its bounds in standard errors of a normal distribution.
const CONFIDENCE: f64 = 0.9;
const STANDARD_ERRORS: f64 = 1.645;

impl MeanInterval {
    /// From the standard error of the mean; None for fewer than two values.
    fn of(values: &[f64], mean: f64) -> Option<MeanInterval> {
        let count = values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let far = STANDARD_ERRORS * (squares / (count - 1.0) / count).sqrt();
        let [low, high] = [mean - far, mean + far].map(rounded);
        (values.len() > 1).then_some(MeanInterval { confidence: CONFIDENCE, low, high })
    }
}

impl ComparedMeasure {
    fn read(written: &ParameterValue) -> Result<ComparedMeasure, StageError> {
        let ParameterValue::Map(map) = written else {
            return Err(StageError::failed(format!("a measure must be a table, not {written}")));
        };
        let table = Parameters(map.clone());
        Ok(ComparedMeasure {
            field: table.text("field")?.to_owned(),
            better: match table.text("better")? {
                "lower" => Better::Lower,
                "higher" => Better::Higher,
                "same" => Better::Same,
                other => return Err(unknown_choice("better", other)),
            },
            tolerance: table.number("tolerance")?,
        })
    }

    /// The amount by which one value is worse than another: positive if it is.
    fn worse_by(&self, value: f64, than: f64) -> f64 {
        match self.better {
            Better::Lower => value - than,
            Better::Higher => than - value,
            Better::Same => (value - than).abs(),
        }
    }

    fn verdict(&self, mean: Option<f64>, baseline: Option<f64>) -> Verdict {
        let (mean, baseline) = match (mean, baseline) {
            (_, None) => return Verdict::New,
            (None, Some(_)) => return Verdict::Missing,
            (Some(mean), Some(baseline)) => (mean, baseline),
        };
        // Rounded like the means, so that a change of exactly the tolerance is within it.
        let worse_by = rounded(self.worse_by(mean, baseline));
        if worse_by > self.tolerance {
            Verdict::Worse
        } else if worse_by < -self.tolerance {
            Verdict::Better
        } else {
            Verdict::Same
        }
    }

    fn value(&self, item: &Item) -> Option<f64> {
        item.fields.number(&self.field).filter(|value| value.is_finite())
    }

    fn line(&self, items: &[Item], baseline: &Baseline) -> MeasureResult {
        let value = |item: &Item| Some(Worst { id: item.id.to_string(), value: self.value(item)? });
        let mut worst: Vec<Worst> = items.iter().filter_map(value).collect();
        let mut values: Vec<f64> = worst.iter().map(|one| one.value).collect();
        let mean = mean(&mut values).map(rounded);
        let baseline = baseline.measures.get(&self.field).and_then(|figure| figure.mean);
        // If neither direction is better, values far from the mean are bad.
        let bad = |one: &Worst| self.worse_by(one.value, mean.unwrap_or_default());
        worst.sort_by(|one, other| {
            bad(other).total_cmp(&bad(one)).then_with(|| one.id.cmp(&other.id))
        });
        worst.truncate(WORST);
        let verdict = self.verdict(mean, baseline);
        MeasureResult {
            baseline,
            items: values.len(),
            mean,
            interval: mean.and_then(|mean| MeanInterval::of(&values, mean)),
            tolerance: self.tolerance,
            verdict,
            worst,
        }
    }
}

struct Regression {
    measures: Vec<ComparedMeasure>,
    baseline: Baseline,
    fails: bool,
}

pub fn open(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let measures: Result<Vec<ComparedMeasure>, StageError> =
        setup.parameters.list("measures")?.iter().map(ComparedMeasure::read).collect();
    let baseline = match setup.files.get("baseline") {
        None => Baseline::default(),
        Some(blob) => serde_json::from_slice(&context.read(blob)?).map_err(|error| {
            StageError::with_help(
                format!("the baseline is not a report of `quality.regression`: {error}"),
                "use a file that an earlier run has exported",
            )
        })?,
    };
    let (measures, fails) = (measures?, setup.parameters.flag("fail")?);
    let mut fields = BTreeSet::new();
    if let Some(again) = measures.iter().find(|measure| !fields.insert(&measure.field)) {
        return Err(StageError::failed(format!("`measures` names `{}` twice", again.field)));
    }
    Ok(Job::Gather(Box::new(Regression { measures, baseline, fails })))
}

impl GatherJob for Regression {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let items = input.items("input")?;
        context.set_aside("input", self.unmeasured(items))?;
        let lines = self.measures.iter();
        let measures: BTreeMap<String, MeasureResult> = lines
            .map(|measure| (measure.field.clone(), measure.line(items, &self.baseline)))
            .collect();
        let regressed = measures.iter().filter(|(_, line)| line.verdict.is_regression());
        let regressions: Vec<String> = regressed.map(|(field, _)| field.clone()).collect();
        let report = RegressionReport { measures, regressions };
        if self.fails && !report.regressions.is_empty() {
            return Err(report.failure());
        }
        let count = report.regressions.len();
        let artifact = PortOutput::Artifact(vec![
            ("report".to_owned(), NewValue::bytes(JSON, to_json(&report)?)),
            ("regressions".to_owned(), NewValue::Number(count as f64)),
        ]);
        let mut output = GatherOutput::default().with("output", artifact);
        output.notes =
            report.regressions.iter().map(|field| (format!("`{field}` is worse"), 1)).collect();
        Ok(output)
    }
}

impl Regression {
    /// Items without any measure.
    fn unmeasured(&self, items: &[Item]) -> Vec<(usize, Reject)> {
        let is_measured =
            |item: &Item| self.measures.iter().any(|measure| measure.value(item).is_some());
        let fields: Vec<&str> = self.measures.iter().map(|measure| &*measure.field).collect();
        let reason = format!("it has none of the measures {}", listed(fields.into_iter()));
        let places = items.iter().enumerate().filter(|(_, item)| !is_measured(item));
        places.map(|(place, _)| (place, Reject::new("no-measure", reason.clone()))).collect()
    }
}

impl RegressionReport {
    fn failure(&self) -> StageError {
        let line = |field: &String| {
            let line = self.measures.get(field)?;
            let baseline = line.baseline?;
            Some(match line.mean {
                Some(mean) => format!(
                    "`{field}` is {mean} instead of {baseline}, with {} allowed",
                    line.tolerance
                ),
                None => format!("`{field}` is missing on all items and was {baseline}"),
            })
        };
        let lines: Vec<String> = self.regressions.iter().filter_map(line).collect();
        StageError::with_help(
            format!("worse than the baseline: {}", lines.join("; ")),
            "without `fail` the report names the worst items; a new baseline accepts them",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_shrinks_with_the_number_of_items() {
        let values = |count: usize| (0..count).map(|at| (at % 2) as f64).collect::<Vec<f64>>();
        // The deviation is 0.5: 1.645 * 0.5 / 10, with 99 in place of 100.
        let hundred = MeanInterval::of(&values(100), 0.5).map(|own| (own.low, own.high));
        assert_eq!(hundred, Some((0.4173, 0.5827)));
        let four = MeanInterval::of(&values(4), 0.5).map(|own| (own.low, own.high));
        assert_eq!(four, Some((0.0251, 0.9749)));
        assert_eq!(MeanInterval::of(&[0.3], 0.3), None);
    }
}
