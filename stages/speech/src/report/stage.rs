//! The stage of the family `report`.

use std::sync::Arc;

use crate::report::kinds;
use bytes::Bytes;
use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, PortInput,
    PortOutput, Setup, Stage, StageError, Value,
};

use super::summary::{Sum, Summary, ValueSummary};
use crate::plain::{JSON, stage};

pub fn stages() -> Vec<Arc<dyn Stage>> {
    vec![
        stage(&kinds::SUMMARY, open),
        stage(&kinds::RECORDINGS, super::recordings::open),
        super::tensorboard::stage(),
    ]
}

struct SummaryJob;

fn open(_: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    Ok(Job::Gather(Box::new(SummaryJob)))
}

/// JSON up to this size is included completely.
const MAX_INLINE_BYTES: u64 = 1 << 20;

impl GatherJob for SummaryJob {
    fn sum(&self, items: &[Item]) -> Option<Bytes> {
        postcard::to_stdvec(&Sum::of(items)).ok().map(Bytes::from)
    }

    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let mut summary = Summary::default();
        for arrived in input.ports.into_values().flatten() {
            match arrived {
                PortInput::Dataset { stage, items, rejects } => {
                    summary.add_dataset(&stage, Sum::of(&items), &rejects);
                }
                PortInput::Sums { stage, sums, rejects } => {
                    summary.add_dataset(&stage, total(&sums)?, &rejects);
                }
                PortInput::Artifact { stage, fields } => {
                    summary.artifacts.insert(stage, entries(&fields, context)?);
                }
            }
        }
        let json = ("summary".to_owned(), NewValue::bytes(JSON, summary.to_json()));
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(vec![json])))
    }
}

fn total(sums: &[Bytes]) -> Result<Sum, StageError> {
    let mut total = Sum::default();
    for sum in sums {
        total.merge(postcard::from_bytes(sum).map_err(|error| {
            StageError::failed(format!("the totals of some items cannot be read: {error}"))
        })?);
    }
    Ok(total)
}

fn entries(
    fields: &Fields,
    context: &mut dyn Context,
) -> Result<std::collections::BTreeMap<String, ValueSummary>, StageError> {
    let mut entries = std::collections::BTreeMap::new();
    for (name, value) in fields.iter() {
        entries.insert(name.to_string(), entry(value, context)?);
    }
    Ok(entries)
}

fn entry(value: &Value, context: &mut dyn Context) -> Result<ValueSummary, StageError> {
    let blob = match value {
        Value::Text(text) => return Ok(ValueSummary::Text(text.to_string())),
        Value::Number(number) => return Ok(ValueSummary::Number(*number)),
        Value::Blob(blob) => blob,
    };
    if &*blob.kind == JSON && blob.size <= MAX_INLINE_BYTES {
        let bytes = context.read(blob)?;
        if let Ok(json) = serde_json::from_slice(&bytes) {
            return Ok(ValueSummary::Json(json));
        }
    }
    Ok(ValueSummary::Blob { bytes: blob.size, kind: blob.kind.to_string() })
}
