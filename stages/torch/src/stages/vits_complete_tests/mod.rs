//! `vits.complete` as the engine calls it, and the training of what it makes, on a model of a few
//! thousand parameters.
#![allow(clippy::unwrap_used)]

mod training;

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::Digest;
use stage_core::{
    Context, Fields, GatherOutput, Item, ParameterValue, PortInput, StageError, Value,
};
use stage_families::artifact;
use stage_families::vits::complete::COMPLETE;

use super::trial::{Ports, Written, artifact_of, gather, gathered, whole};
use super::vits_tests::{model, sentence};
use crate::runtime::threads::one_thread;
use crate::testing::Bench;

/// Whether a tensor is in the graph of a voice.
fn speaks(name: &str) -> bool {
    let only_trains =
        ["posterior_encoder.", "duration_predictor.post_", "duration_predictor.flows.1."];
    !only_trains.iter().any(|start| name.starts_with(start)) && !name.starts_with("discriminator.")
}

/// A model as `model.import` reads it from a graph.
fn voice(more: Written, bench: &mut Bench) -> Fields {
    let whole = model(more, bench);
    let json = Context::read(bench, whole.blob(artifact::CONFIG).unwrap()).unwrap();
    let mut config: serde_json::Value = serde_json::from_slice(&json).unwrap();
    config["speaks_only"] = true.into();
    let config = bench.keep(artifact::CONFIG_KIND, config.to_string().as_bytes());
    let kept = whole.iter().filter(|(name, _)| {
        name.strip_prefix("tensor/").is_none_or(speaks) && &***name != artifact::CONFIG
    });
    let mut voice: Fields = kept.map(|(name, value)| (name.to_string(), value.clone())).collect();
    voice.set(artifact::CONFIG, Value::Blob(Arc::new(config)));
    voice
}

/// A small model speaks nothing, and its texts last as long as chance has it.
fn quick() -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("steps", whole(60)),
        ("sentences", whole(12)),
        ("frames", whole(16)),
        ("batch", whole(4)),
        ("learning_rate", ParameterValue::Number(1e-2)),
    ]
}

fn texts(names: &[&str]) -> PortInput {
    let items: Vec<Item> = names.iter().map(|text| sentence(text)).collect();
    PortInput::Dataset { stage: "texts".into(), items, rejects: Vec::new() }
}

const TEXTS: [&str; 4] = ["sana", "toinen sana", "kolmas sana on", "on aika"];

fn complete(
    more: Written,
    base: &Fields,
    input: Option<PortInput>,
    bench: &mut Bench,
) -> Result<Ports, StageError> {
    one_thread();
    if bench.stop_after.is_none() {
        bench.checkpoints.clear();
    }
    let written = [&quick()[..], more].concat();
    let input = input.map(|input| ("input", input));
    let ports = [("model", artifact_of(base))].into_iter().chain(input).collect();
    gather(&COMPLETE, &written, ports, bench)
}

fn contents(fields: &Fields) -> BTreeMap<String, Digest> {
    artifact::tensors(fields).map(|(name, blob)| (name.to_owned(), blob.digest)).collect()
}

/// The held-out errors, in the order of the validations.
fn errors(ports: &Ports, bench: &mut Bench) -> Vec<f64> {
    let metrics = Context::read(bench, ports["log"].blob("metrics").unwrap()).unwrap();
    let metrics: serde_json::Value = serde_json::from_slice(&metrics).unwrap();
    let steps = metrics["values"].as_array().unwrap().clone();
    steps.iter().filter_map(|step| step["held_out/mse"].as_f64()).collect()
}

#[test]
fn the_encoder_learns_and_nothing_else_changes() {
    let mut bench = Bench::default();
    let base = voice(&[], &mut bench);
    for input in [None, Some(texts(&TEXTS))] {
        let ports = complete(&[], &base, input, &mut bench).unwrap();
        let errors = errors(&ports, &mut bench);
        let (first, last) = (errors[0], *errors.last().unwrap());
        assert!(errors.len() > 10 && last < 0.95 * first, "{errors:?}");
        let (before, after) = (contents(&base), contents(&ports["model"]));
        assert!(before.iter().all(|(name, digest)| after[name] == *digest));
        let new = after.keys().filter(|name| !before.contains_key(*name));
        assert!(new.clone().count() > 0);
        assert!(new.into_iter().all(|name| name.starts_with("posterior_encoder.")));
    }
}

#[test]
fn the_result_follows_from_voice_texts_and_seed_alone() {
    let mut bench = Bench::default();
    let base = voice(&[], &mut bench);
    let mut of = |seed: i64, names: &[&str]| {
        let written = [("steps", whole(4)), ("seed", whole(seed))];
        contents(&complete(&written, &base, Some(texts(names)), &mut bench).unwrap()["model"])
    };
    let expected = of(1, &TEXTS);
    let turned: Vec<&str> = TEXTS.iter().rev().chain(&TEXTS[..1]).copied().collect();
    assert_eq!(of(1, &turned), expected, "order and repeats do not matter");
    assert_ne!(of(1, &TEXTS[..3]), expected);
    assert_ne!(of(8, &TEXTS), expected);
}

#[test]
fn a_completion_that_is_stopped_resumes_with_the_same_result() {
    let mut bench = Bench::default();
    let base = voice(&[], &mut bench);
    let short = [("steps", whole(6))];
    let straight = complete(&short, &base, Some(texts(&TEXTS)), &mut bench).unwrap();
    for looks in [0, 14, 20, 23] {
        bench.checkpoints.clear();
        bench.stop_after = Some(looks);
        let stopped = complete(&short, &base, Some(texts(&TEXTS)), &mut bench);
        assert_eq!(stopped.unwrap_err(), StageError::Stopped, "{looks}");
        bench.stop_after = Some(1_000);
        let resumed = complete(&short, &base, Some(texts(&TEXTS)), &mut bench).unwrap();
        assert_eq!(contents(&resumed["model"]), contents(&straight["model"]), "{looks}");
    }
}

#[test]
fn a_voice_with_several_speakers_learns_from_all() {
    let mut bench = Bench::default();
    let base = voice(&[("speakers", whole(3))], &mut bench);
    let ports = complete(&[("steps", whole(4))], &base, None, &mut bench).unwrap();
    assert!(contents(&ports["model"]).keys().any(|name| name.contains("wavenet.cond_layer")));
}

#[test]
fn texts_that_cannot_be_spoken_are_counted_and_none_at_all_are_refused() {
    let mut bench = Bench::default();
    let base = voice(&[], &mut bench);
    let written = [&quick()[..], &[("steps", whole(1))]].concat();
    let ports = |names: &[&str]| vec![("model", artifact_of(&base)), ("input", texts(names))];
    let GatherOutput { notes, .. } =
        gathered(&COMPLETE, &written, ports(&["sana", "123"]), &mut bench).unwrap();
    let left_out = notes.iter().find(|(note, _)| note.starts_with("texts left out")).unwrap();
    assert_eq!(left_out.1, 1);
    assert!(notes.contains(&("texts".into(), 1)), "{notes:?}");
    let error = gathered(&COMPLETE, &written, ports(&["123"]), &mut bench).unwrap_err();
    assert_eq!(error.to_string(), "none of the texts on port `input` can be spoken");
}

#[test]
fn a_model_that_can_be_trained_needs_no_completion() {
    let mut bench = Bench::default();
    let whole = model(&[], &mut bench);
    let error = complete(&[], &whole, None, &mut bench).unwrap_err();
    assert_eq!(error.to_string(), "the model on port `model` has a posterior encoder");
}
