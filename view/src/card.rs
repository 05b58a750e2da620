//! The card of a model for a hub: licences, origin and measures, from the cache alone.

use std::collections::{BTreeMap, BTreeSet};

use engine::history;
use engine::pipeline::{Pipeline, Reference, StageId, StageSpec, StageWork};
use engine::record::{PortValue, StageRecord};
use engine::store::{ReadError, Store};
use engine::units;
use stage_core::{Fields, Kind, Parameters};

use crate::report::figures::figures;
use crate::report::training::TrainingResult;

/// Licences under their names on the hub; others are `other` with a name.
const LICENSES: [&str; 14] = [
    "apache-2.0",
    "mit",
    "cc0-1.0",
    "cc-by-4.0",
    "cc-by-sa-4.0",
    "cc-by-nc-4.0",
    "cc-by-nc-sa-4.0",
    "cc-by-nc-nd-4.0",
    "cc-by-3.0",
    "cc-by-sa-3.0",
    "bsd-3-clause",
    "gpl-3.0",
    "mpl-2.0",
    "openrail",
];
/// Numbers of items that say how long or where something is, and judge nothing.
const SIZES: [&str; 10] = [
    "step",
    "frames",
    "seconds",
    "pieces",
    "start",
    "text_start",
    "text_end",
    "line",
    "rate",
    "halves",
];
/// Parameters that say where the machine's files are, or nothing.
const LEFT_OUT: [&str; 4] = ["table", "audio", "folder", "file"];

/// The details that only the author knows.
#[derive(Clone, Debug, Default)]
pub struct CardDetails {
    pub title: String,
    /// The model on the hub that this one was made from.
    pub base: Option<String>,
    pub language: Option<String>,
    pub data: Option<String>,
    /// The library that loads the files.
    pub library: Option<String>,
}

/// A stage on the way to the model.
struct Step<'a> {
    spec: &'a StageSpec,
    outcome: Option<StageRecord>,
}

/// The card of the model that a stage outputs or exports.
///
/// # Errors
///
/// If the cache cannot be read.
pub fn card(
    pipeline: &Pipeline,
    store: &Store,
    spec: &StageSpec,
    said: &CardDetails,
) -> Result<String, ReadError> {
    let mut steps = Vec::new();
    for id in pipeline.with_upstream(&[spec.id]) {
        steps.push(step(pipeline, store, id)?);
    }
    let mut text = head(pipeline, spec, said);
    text.push_str(&format!("\n# {}\n\n", plain(&said.title)));
    text.push_str(&licences(pipeline, spec));
    text.push_str("\n## How it was made\n\n| stage | use | result |\n|---|---|---|\n");
    for step in &steps {
        let (name, kind) = (plain(&step.spec.name), step.spec.kind.name);
        text.push_str(&format!("| {name} | `{kind}` | {} |\n", result(step)));
    }
    text.push_str(&trained(&steps));
    let measures = measures(pipeline, store, spec)?;
    if !measures.is_empty() {
        text.push_str("\n## Measures\n\n| measure | value |\n|---|---|\n");
        for (name, value) in &measures {
            text.push_str(&format!("| {} | {} |\n", plain(name), number(*value)));
        }
    }
    text.push_str(if is_graph(spec) {
        "\nMade with throstle for programs that run ONNX graphs.\n"
    } else {
        "\nMade with throstle; `throstle say DIR \"text\"` speaks with these files.\n"
    });
    Ok(text)
}

fn step<'a>(pipeline: &'a Pipeline, store: &Store, id: StageId) -> Result<Step<'a>, ReadError> {
    let spec = pipeline.stage(id);
    let cache = store.cache();
    let last = history::last(cache, &pipeline.name, &spec.name).map_err(ReadError::Cache)?;
    let outcome = match last {
        Some(last) => history::outcome(cache, &last).map_err(ReadError::Cache)?,
        None => None,
    };
    Ok(Step { spec, outcome })
}

/// An export as a graph, which the library of the model does not load.
fn is_graph(spec: &StageSpec) -> bool {
    spec.parameters.text("format").is_ok_and(|format| format == "onnx")
}

/// The header that hubs read.
fn head(pipeline: &Pipeline, spec: &StageSpec, said: &CardDetails) -> String {
    let mut head = String::from("---\n");
    let mut line = |key: &str, value: &str| head.push_str(&format!("{key}: {}\n", quoted(value)));
    let licenses: Vec<&str> = spec.licenses.iter().map(String::as_str).collect();
    match licenses.as_slice() {
        [] => {}
        [one] if LICENSES.contains(&one.to_lowercase().as_str()) => {
            line("license", &one.to_lowercase());
        }
        several => {
            line("license", "other");
            line("license_name", &several.join(" and "));
        }
    }
    if let Some(language) = &said.language {
        line("language", language);
    }
    line("pipeline_tag", "text-to-speech");
    if let Some(library) = said.library.as_ref().filter(|_| !is_graph(spec)) {
        line("library_name", library);
    }
    if let Some(base) = &said.base {
        line("base_model", base);
        line("base_model_relation", relation(pipeline, spec));
    }
    if let Some(data) = &said.data {
        line("datasets", data);
    }
    line("tags", "throstle");
    head.push_str("---\n");
    head
}

/// Adapters, a model with adapters merged in, or a trained one.
fn relation(pipeline: &Pipeline, spec: &StageSpec) -> &'static str {
    let made = pipeline.with_upstream(&[spec.id]);
    let takes_adapters = |id: &StageId| pipeline.stage(*id).inputs.contains_key("adapters");
    let gives = |spec: &StageSpec| spec.kind.outputs.first().map_or("", |port| port.name);
    let model = match spec.inputs.get("model").and_then(|input| input.references.first()) {
        Some(Reference::Stage { stage, .. }) => pipeline.stage(*stage),
        _ => spec,
    };
    match gives(model) {
        "adapters" => "adapter",
        _ if made.iter().any(takes_adapters) => "merge",
        _ => "finetune",
    }
}

fn licences(pipeline: &Pipeline, spec: &StageSpec) -> String {
    let made = pipeline.with_upstream(&[spec.id]);
    let reads = |name: &str| {
        made.iter().any(|id| {
            let inputs = pipeline.stage(*id).inputs.values();
            let mut references = inputs.flat_map(|input| &input.references);
            references.any(|reference| matches!(reference, Reference::Asset(own) if own == name))
        })
    };
    let mut text = String::new();
    for (name, asset) in pipeline.assets.iter().filter(|(name, _)| reads(name)) {
        let license = asset.license.as_deref().unwrap_or("unknown licence");
        text.push_str(&format!("- made from `{}`: {}\n", plain(name), plain(license)));
    }
    if spec.licenses.is_empty() {
        "No licence is known: add one before you publish.\n".to_owned() + &text
    } else {
        text
    }
}

fn result(step: &Step) -> String {
    let Some(outcome) = &step.outcome else { return "unknown".to_owned() };
    let port = step.spec.kind.outputs.first().map_or("", |port| port.name);
    let made = match outcome.outputs.get(port) {
        Some(PortValue::Dataset { items, .. }) => units::items(*items),
        Some(PortValue::Artifact(fields)) => described(fields),
        None => "nothing".to_owned(),
    };
    match outcome.rejects.len() as u64 {
        0 => made,
        rejects => format!("{made}, {} quarantined", units::count(rejects)),
    }
}

fn described(fields: &Fields) -> String {
    let sizes: u64 = fields.blobs().map(|blob| blob.size).sum();
    let parts = units::counted(fields.blobs().count() as u64, "part");
    format!("{} in {parts}", units::bytes(sizes))
}

/// The parameters of the trainings.
fn trained(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps.iter().filter(|step| step.spec.work == StageWork::Train) {
        let shown = step.spec.parameters.0.iter().filter(|(name, value)| {
            let is_set = !matches!(value, stage_core::ParameterValue::Absent);
            is_set && !LEFT_OUT.contains(&name.as_str())
        });
        let shown: Vec<String> = shown.map(|(name, value)| format!("{name} = {value}")).collect();
        let name = plain(&step.spec.name);
        text.push_str(&format!(
            "\nParameters of `{name}`:\n\n```toml\n{}\n```\n",
            shown.join("\n")
        ));
    }
    text
}

/// The measures of stages that judge the model: those downstream of it, and of its training.
fn measures(
    pipeline: &Pipeline,
    store: &Store,
    spec: &StageSpec,
) -> Result<BTreeMap<String, f64>, ReadError> {
    let upstream = pipeline.with_upstream(&[spec.id]);
    let models: BTreeSet<StageId> =
        upstream.into_iter().filter(|id| pipeline.stage(*id).work == StageWork::Train).collect();
    let mut all = BTreeMap::new();
    for id in pipeline.ids() {
        let is_after = pipeline.with_upstream(&[id]).iter().any(|own| models.contains(own));
        if !is_after {
            continue;
        }
        let step = step(pipeline, store, id)?;
        let Some(outcome) = &step.outcome else { continue };
        let figures = figures(store, outcome, &|_| true)?.into_iter();
        let (kind, parameters) = (step.spec.kind, &step.spec.parameters);
        for (name, value) in figures.filter(|(name, _)| is_measure(kind, parameters, name)) {
            all.entry(name).or_insert(value);
        }
    }
    Ok(all)
}

/// True for a figure that judges the model: how training ended, a number of a report, or a mean of a
/// number that the stage itself gives each item.
fn is_measure(kind: &Kind, parameters: &Parameters, name: &str) -> bool {
    let of_items = name.strip_prefix("mean of `").and_then(|rest| rest.strip_suffix('`'));
    let Some(field) = of_items else {
        let makes_model = kind.outputs.first().is_some_and(|port| !port.gives.is_empty());
        return !makes_model || TrainingResult::FIGURES.contains(&name);
    };
    let is_written =
        kind.outputs.iter().flat_map(|port| port.writes).any(|(written, _)| *written == field);
    let is_declared =
        |table| parameters.map(table).is_ok_and(|outputs| outputs.contains_key(field));
    !SIZES.contains(&field) && (is_written || is_declared("outputs") || is_declared("item_outputs"))
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else {
        format!("{value:.4}")
    }
}

/// A text in one line of Markdown.
fn plain(text: &str) -> String {
    let one_line: Vec<&str> = text.split_whitespace().collect();
    one_line.join(" ").replace('|', "\\|").replace('<', "&lt;")
}

/// A string of YAML.
fn quoted(text: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-._/".contains(sign);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use stage_core::ParameterValue;

    use super::*;

    #[test]
    fn a_measure_judges_the_model_and_is_made_by_the_stage_itself() {
        let catalogue = stage_speech::catalogue();
        let none = Parameters::default();
        let is = |kind: &str, name: &str| {
            is_measure(catalogue.get(kind).unwrap(), &none, &format!("mean of `{name}`"))
        };
        // Of a family whose synthesis has a measure.
        let speaks =
            |kind: &&Kind| kind.name.ends_with(".synthesize") && is(kind.name, "duration_ratio");
        let synthesis = catalogue.iter().find(speaks).unwrap().name;
        let training = synthesis.replace(".synthesize", ".finetune");
        assert!(is("quality.compare", "mcd"));
        for (kind, name) in [
            (synthesis, "frames"),
            (synthesis, "seconds"),
            (&training, "step"),
            // The number of an earlier stage, which is passed on.
            ("quality.compare", "snr"),
        ] {
            assert!(!is(kind, name), "{kind} {name}");
        }
        let kind = |kind: &str| catalogue.get(kind).unwrap();
        assert!(is_measure(kind(&training), &none, "best held-out loss"));
        assert!(!is_measure(kind(&training), &none, "hop"));
        let outputs = [("pitch".to_owned(), ParameterValue::Text("number".to_owned()))].into();
        let declared = [("outputs".to_owned(), ParameterValue::Map(outputs))].into();
        assert!(is_measure(kind("python"), &Parameters(declared), "mean of `pitch`"));
    }

    #[test]
    fn texts_from_elsewhere_stay_within_their_place() {
        assert_eq!(quoted("cc-by-4.0"), "cc-by-4.0");
        assert_eq!(quoted("a: b\n---"), "\"a: b\\n---\"");
        assert_eq!(plain("a\n| <b>"), "a \\| &lt;b>");
        assert_eq!((number(3.0), number(0.12345)), ("3".to_owned(), "0.1235".to_owned()));
    }
}
