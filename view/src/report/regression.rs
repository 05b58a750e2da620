//! The findings of `quality.regression`: measures of syntheses compared with a good run.

use engine::store::ReadError;
use serde_json::Value;

use super::run_data::{RunData, json};

/// The stage kind, and the place of its findings.
const KIND: &str = "quality.regression";
const FINDINGS: (&str, &str) = ("output", "report");

/// One measure of one such stage.
#[derive(Debug, PartialEq)]
pub struct Finding {
    pub stage: String,
    pub measure: String,
    pub mean: Option<f64>,
    /// The mean in the good run.
    pub baseline: Option<f64>,
    pub tolerance: Option<f64>,
    pub verdict: String,
    /// The items with the worst values.
    pub worst: Vec<String>,
}

/// All of them, by the stages in their order.
pub fn findings(seen: &RunData) -> Result<Vec<Finding>, ReadError> {
    let mut findings = Vec::new();
    for stage in seen.stages.iter().filter(|stage| stage.spec.kind.name == KIND) {
        let Some(outcome) = &stage.outcome else { continue };
        if let Some(report) = json(seen.store, outcome, FINDINGS)? {
            findings.extend(read(&stage.spec.name, &report));
        }
    }
    Ok(findings)
}

fn read(stage: &str, report: &Value) -> Vec<Finding> {
    let measures = report["measures"].as_object().into_iter().flatten();
    let worst = |line: &Value| {
        let items = line["worst"].as_array().into_iter().flatten();
        items.filter_map(|item| Some(item["id"].as_str()?.to_owned())).collect()
    };
    let finding = |(measure, line): (&String, &Value)| Finding {
        stage: stage.to_owned(),
        measure: measure.clone(),
        mean: line["mean"].as_f64(),
        baseline: line["baseline"].as_f64(),
        tolerance: line["tolerance"].as_f64(),
        verdict: line["verdict"].as_str().unwrap_or_default().to_owned(),
        worst: worst(line),
    };
    measures.map(finding).collect()
}

impl Finding {
    /// Tests if it is worse than in the good run, or missing.
    pub fn is_regression(&self) -> bool {
        matches!(self.verdict.as_str(), "worse" | "missing")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_worse_or_missing_is_a_regression() {
        let report = json!({ "measures": {
            "cer": { "mean": 0.3, "baseline": 0.1, "tolerance": 0.02, "verdict": "worse",
                "worst": [{ "id": "a", "value": 0.9 }, "damaged"] },
            "mcd": { "verdict": "new" },
            "snr": "damaged",
        } });
        let findings = read("s", &report);
        let regressions: Vec<bool> = findings.iter().map(Finding::is_regression).collect();
        assert_eq!(regressions, [true, false, false]);
        assert_eq!(
            (findings[0].mean, findings[0].worst.as_slice()),
            (Some(0.3), &["a".into()][..])
        );
        assert!(read("s", &json!([])).is_empty());
    }
}
