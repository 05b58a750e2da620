//! `corpus.corrections`: texts of segments that a person has corrected.
//!
//! A line belongs to the sound of a segment and not to its place, so that it stays when the recording
//! is edited elsewhere, and two people's lines can be merged.

use std::collections::BTreeMap;

use serde::Deserialize;
use stage_core::{Context, Item, ItemJob, Job, NewValue, Output, Reject, Setup, StageError};

use crate::audio::long::name;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Correction {
    Text(String),
    Drop,
}

/// A line of the table. Further columns are remarks.
#[derive(Deserialize)]
struct Line {
    segment: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    action: String,
}

struct Corrections(BTreeMap<String, Correction>);

pub fn open(setup: Setup, context: &mut dyn Context) -> Result<Job, StageError> {
    let corrections = match setup.files.get("table") {
        Some(blob) => read(&context.read(blob)?).map_err(StageError::failed)?,
        None => BTreeMap::new(),
    };
    Ok(Job::Item(Box::new(Corrections(corrections))))
}

fn read(bytes: &[u8]) -> Result<BTreeMap<String, Correction>, String> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(bytes);
    let mut found: BTreeMap<String, Correction> = BTreeMap::new();
    for (at, line) in reader.deserialize::<Line>().enumerate() {
        let number = at + 2;
        let line = line.map_err(|error| format!("the table of corrections: {error}"))?;
        let correction = match (line.action.as_str(), line.text.is_empty()) {
            ("drop", _) => Correction::Drop,
            ("" | "text", false) => Correction::Text(line.text),
            ("" | "text", true) => {
                return Err(format!(
                    "line {number} of the corrections has neither a text nor `drop`"
                ));
            }
            (other, _) => {
                return Err(format!(
                    "line {number} of the corrections has the action `{other}`, expected \
                     `text` or `drop`"
                ));
            }
        };
        // An id may be written with its recording in front.
        let name = line.segment.rsplit('/').next().unwrap_or_default().to_owned();
        match found.get(&name) {
            Some(known) if *known != correction => {
                return Err(format!(
                    "line {number} corrects `{name}` in another way than a line before it"
                ));
            }
            _ => drop(found.insert(name, correction)),
        }
    }
    Ok(found)
}

impl ItemJob for Corrections {
    fn process(
        &self,
        items: &[Item],
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        Ok(items.iter().map(|item| self.correct(item)).collect())
    }
}

impl Corrections {
    fn correct(&self, item: &Item) -> Result<Output, Reject> {
        let correction =
            item.fields.blob("audio").and_then(|audio| self.0.get(&name(&audio.digest)));
        match correction {
            Some(Correction::Drop) => {
                Err(Reject::new("dropped", "the table of corrections drops it"))
            }
            Some(Correction::Text(text)) => {
                let mut output = Output::default().with("text", NewValue::Text(text.clone()));
                output.note("corrected", 1);
                Ok(output)
            }
            None => Ok(Output::default()),
        }
    }
}
