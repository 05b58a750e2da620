//! `quality.align`: segments with a text that does not fit their audio.

use stage_core::{Context, Item, ItemJob, Job, Output, Reject, Setup, StageError};

use crate::corpus::corrections::CORRECTED;

/// The measures of a segment, and their limits.
struct Fit {
    min_worst: f64,
    edge_letter: f64,
    slowest: f64,
    fastest: f64,
}

pub fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let number = |name: &str| setup.parameters.number(name);
    Ok(Job::Item(Box::new(Fit {
        min_worst: number("min_worst")?,
        edge_letter: number("edge_letter")?,
        slowest: number("slowest")?,
        fastest: number("fastest")?,
    })))
}

impl ItemJob for Fit {
    fn process(
        &self,
        items: &[Item],
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        Ok(items.iter().map(|item| self.judge(item)).collect())
    }
}

impl Fit {
    fn judge(&self, item: &Item) -> Result<Output, Reject> {
        if item.fields.text(CORRECTED).is_some() {
            let mut output = Output::default();
            output.note("texts of a person", 1);
            return Ok(output);
        }
        let measure = |name: &str| {
            item.fields.number(name).filter(|value| !value.is_nan()).ok_or_else(|| {
                let reason = format!("it has no `{name}`: read items of `text.align`");
                Reject::new("no-field", reason)
            })
        };
        let worst = measure("align_worst")?;
        let edge = measure("align_edge")?;
        let speed = measure("letters_per_second")?;
        let mut faults = Vec::new();
        let mut fault = |is_bad: bool, name: &str, value: f64, limit: (&str, f64)| {
            if is_bad {
                faults.push(format!("`{name}` is {value:.2}, {} {}", limit.0, limit.1));
            }
        };
        fault(worst < self.min_worst, "align_worst", worst, ("below", self.min_worst));
        fault(edge < self.edge_letter, "align_edge", edge, ("below", self.edge_letter));
        fault(speed < self.slowest, "letters_per_second", speed, ("below", self.slowest));
        fault(speed > self.fastest, "letters_per_second", speed, ("above", self.fastest));
        if faults.is_empty() {
            Ok(Output::default())
        } else {
            Err(Reject::new("bad-transcript", faults.join("; ")))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stage_core::Value;

    fn judged(values: [f64; 3]) -> Result<Output, String> {
        let names = ["align_worst", "align_edge", "letters_per_second"];
        let fields = names.into_iter().zip(values.map(Value::Number)).collect();
        let fit = Fit { min_worst: -1.5, edge_letter: 0.3, slowest: 4.0, fastest: 25.0 };
        fit.judge(&Item::new("a", fields)).map_err(|reject| reject.reason)
    }

    #[test]
    fn the_text_of_a_person_passes_with_any_measures() {
        let fit = Fit { min_worst: -1.5, edge_letter: 0.3, slowest: 4.0, fastest: 25.0 };
        let fields = [
            ("align_worst", Value::Number(-9.0)),
            ("align_edge", Value::Number(0.0)),
            ("letters_per_second", Value::Number(90.0)),
        ];
        let mut item = Item::new("a", fields.into_iter().collect());
        assert!(fit.judge(&item).is_err());
        item.fields.set(CORRECTED, Value::text("Yes."));
        assert_eq!(fit.judge(&item).unwrap().notes, [("texts of a person".to_owned(), 1)]);
    }

    #[test]
    fn the_reason_names_each_value_and_its_limit() {
        assert!(judged([-1.5, 0.3, 4.0]).is_ok() && judged([0.0, 1.0, 25.0]).is_ok());
        assert_eq!(judged([-2.25, 0.5, 10.0]).unwrap_err(), "`align_worst` is -2.25, below -1.5");
        let told = judged([-2.0, 0.1, 30.0]).unwrap_err();
        assert_eq!(told.matches("; ").count(), 2);
        assert!(told.ends_with("`letters_per_second` is 30.00, above 25"));
        assert!(judged([-1.0, f64::NAN, 9.0]).unwrap_err().contains("no `align_edge`"));
    }
}
