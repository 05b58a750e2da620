//! The log of a training: figures by step, as JSON and for TensorBoard, and samples of held-out
//! clips.

use serde_json::{Map, Value, json};
use stage_core::{Context, Kind, NewValue, Parameter, Parameters, Role, StageError};
use stage_formats::tensorboard;

use super::record::Record;
use super::run::TrainingResult;
use super::samples::{EventSample, Sample};
use crate::stored;

/// The contents of a log besides the figures.
pub struct LogContext<'a> {
    pub kind: &'a Kind,
    pub parameters: &'a Parameters,
    /// More fields of the JSON.
    pub more: &'a [(&'static str, Value)],
    /// The TensorBoard name of a figure.
    pub tag: fn(&str) -> &str,
    /// The sample rate of the sound samples in Hz; 0 without any.
    pub rate: u32,
}

/// The artifact `log` of a training.
pub fn fields(
    trained: &TrainingResult,
    how: &LogContext<'_>,
    context: &mut dyn Context,
) -> Result<Vec<(String, NewValue)>, StageError> {
    let mut metrics = metrics(trained);
    how.more.iter().for_each(|(name, value)| metrics[*name] = value.clone());
    let mut json = metrics.to_string().into_bytes();
    json.push(b'\n');
    let shown = trained.samples.iter().map(|sample| shown(sample, how.rate, context));
    let shown: Vec<EventSample> = shown.collect::<Result<_, _>>()?;
    let events = trained.record.events(&table(how.kind, how.parameters), how.tag, &shown)?;
    Ok(vec![
        ("metrics".into(), NewValue::bytes("application/json", json)),
        ("events".into(), NewValue::bytes(tensorboard::KIND, events)),
    ])
}

fn shown(sample: &Sample, rate: u32, context: &mut dyn Context) -> Result<EventSample, StageError> {
    let tensor = stored::recall(&sample.kept, context)?;
    Ok(EventSample { step: sample.step, tag: sample.tag.clone(), tensor, rate })
}

/// The parameters that the result depends on, as Markdown. Others would make equal results differ.
fn table(kind: &Kind, parameters: &Parameters) -> String {
    let content = kind.parameters.iter().filter(|parameter| parameter.role == Role::Content);
    let row = |parameter: &Parameter| {
        format!("| `{}` | {} |\n", parameter.name, parameters.get(parameter.name))
    };
    let rows: String = content.map(row).collect();
    format!("| `{}` | |\n|---|---|\n{rows}", kind.name)
}

fn metrics(trained: &TrainingResult) -> Value {
    let best =
        trained.best.first().map(|(place, _)| json!({"step": place.step, "held_out": place.loss}));
    json!({
        "steps": trained.steps,
        "passes": trained.passes,
        "stopped_early": trained.stopped_early,
        "skipped": trained.skipped,
        "went_back": trained.went_back,
        "held_out": trained.held_out,
        "best": best,
        "values": steps(&trained.record),
    })
}

/// One object per step, in order, with its measurements.
fn steps(record: &Record) -> Vec<Value> {
    let mut steps: Vec<(u64, Map<String, Value>)> = Vec::new();
    for (step, name, value) in record.iter() {
        if steps.last().is_none_or(|(last, _)| *last != step) {
            steps.push((step, Map::from_iter([("step".to_owned(), step.into())])));
        }
        if let Some((_, values)) = steps.last_mut() {
            // JSON has no NaN.
            values.insert(name.to_owned(), value.into());
        }
    }
    steps.into_iter().map(|(_, values)| Value::Object(values)).collect()
}
