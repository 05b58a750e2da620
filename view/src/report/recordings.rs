//! The fate of long recordings: the reports of `report.recordings`.

use std::collections::BTreeMap;

use engine::store::ReadError;
use serde::Deserialize;

use super::run_data::{RunData, json};

/// The stage kind, and the place of its report.
const KIND: &str = "report.recordings";
const REPORT: (&str, &str) = ("output", "report");

/// The report of one stage.
#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct Timelines {
    pub recordings: Vec<RecordingSummary>,
    /// Quarantined recordings.
    pub whole: Vec<Whole>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct RecordingSummary {
    pub name: String,
    pub seconds: f64,
    pub kept: Total,
    /// By code.
    pub lost: BTreeMap<String, Total>,
    pub uncut: f64,
    /// Start, end and fate.
    pub spans: Vec<(f64, f64, Fate)>,
    pub rejected: Vec<LostSegment>,
    pub more_rejected: u64,
    pub unheard_words: u64,
    pub unheard: Vec<Unheard>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
pub struct Total {
    pub segments: u64,
    pub seconds: f64,
}

/// From the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    Kept,
    Uncut,
    NoText,
    Rejected,
}

#[derive(Debug, PartialEq, Deserialize)]
pub struct LostSegment {
    pub id: String,
    pub start: f64,
    pub seconds: f64,
    pub stage: String,
    pub reason: String,
}

#[derive(Debug, PartialEq, Deserialize)]
pub struct Unheard {
    pub words: u64,
    pub text: String,
}

#[derive(Debug, PartialEq, Deserialize)]
pub struct Whole {
    pub id: String,
    pub stage: String,
    pub reason: String,
}

/// All of them, by the stages in their order. A report that cannot be read is left out.
pub fn timelines(seen: &RunData) -> Result<Vec<Timelines>, ReadError> {
    let mut found = Vec::new();
    for stage in seen.stages.iter().filter(|stage| stage.spec.kind.name == KIND) {
        let Some(outcome) = &stage.outcome else { continue };
        let report = json(seen.store, outcome, REPORT)?;
        found.extend(report.and_then(|report| serde_json::from_value(report).ok()));
    }
    Ok(found)
}

/// A part of a row of a timeline, in cells, and its fate.
pub type Run = (usize, usize, Fate);

impl RecordingSummary {
    /// Rows of equal length, each of at most this number of cells. A cell has the worst fate of
    /// anything in it.
    pub fn rows(&self, row_seconds: f64, cells: usize) -> Vec<Vec<Run>> {
        let cell = row_seconds / cells as f64;
        let count = (self.seconds / cell).ceil().max(0.0) as usize;
        let mut fates: Vec<Option<Fate>> = vec![None; count];
        for (start, end, fate) in &self.spans {
            // A cell that a span only touches does not belong to it.
            let from = (start / cell + 1e-6).floor().max(0.0) as usize;
            let to = ((end / cell - 1e-6).ceil().max(0.0) as usize).min(count);
            for own in fates.iter_mut().take(to).skip(from) {
                *own = Some(own.map_or(*fate, |own| own.max(*fate)));
            }
        }
        fates.chunks(cells).map(runs).collect()
    }
}

fn runs(fates: &[Option<Fate>]) -> Vec<Run> {
    let mut found: Vec<Run> = Vec::new();
    for (at, fate) in fates.iter().enumerate() {
        let Some(fate) = fate else { continue };
        match found.last_mut() {
            Some(last) if last.2 == *fate && last.1 == at => last.1 = at + 1,
            _ => found.push((at, at + 1, *fate)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn recording(spans: Vec<(f64, f64, Fate)>) -> RecordingSummary {
        let seconds = spans.last().map_or(0.0, |span| span.1);
        RecordingSummary { seconds, spans, ..RecordingSummary::default() }
    }

    #[test]
    fn a_cell_has_the_worst_fate_in_it() {
        let spans = vec![
            (0.0, 30.0, Fate::Kept),
            (30.0, 30.5, Fate::Rejected),
            (30.5, 60.0, Fate::Kept),
            (60.0, 70.0, Fate::NoText),
        ];
        let rows = recording(spans).rows(60.0, 6);
        let expected = [
            vec![(0, 3, Fate::Kept), (3, 4, Fate::Rejected), (4, 6, Fate::Kept)],
            vec![(0, 1, Fate::NoText)],
        ];
        assert_eq!(rows, expected);
        assert!(recording(Vec::new()).rows(60.0, 6).is_empty());
    }

    #[test]
    fn the_report_of_the_stage_is_read() {
        let json = serde_json::json!({ "recordings": [{
            "name": "a", "seconds": 2.0, "kept": { "segments": 1, "seconds": 1.0 },
            "lost": { "cut-word": { "segments": 1, "seconds": 1.0 } }, "uncut": 0.0,
            "spans": [[0.0, 1.0, "kept"], [1.0, 2.0, "no-text"]], "more_rejected": 0,
            "rejected": [{ "id": "a/x", "start": 1.0, "seconds": 1.0, "stage": "aligned",
                "code": "cut-word", "reason": "why" }],
            "unheard_words": 2, "unheard": [{ "recordings": ["a"], "words": 2, "text": "so it" }],
        }], "whole": [{ "id": "b", "stage": "pauses", "code": "x", "reason": "why" }] });
        let found: Timelines = serde_json::from_value(json).unwrap();
        assert_eq!(found.recordings[0].spans[1], (1.0, 2.0, Fate::NoText));
        assert_eq!((found.whole.len(), found.recordings[0].unheard[0].words), (1, 2));
    }
}
