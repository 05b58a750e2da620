//! `vits.finetune` as the engine calls it, on a model of a few thousand parameters.
#![allow(clippy::unwrap_used)]

mod clips;
mod discriminator;
mod speakers;
mod training;

use std::collections::BTreeMap;

use cache::Digest;
use stage_core::{Context, Fields, Item, ParameterValue, PortInput, PortOutput, StageError, Value};
use stage_families::artifact;
use stage_families::vits::tune::FINETUNE;

use super::trial::{Ports, Written, artifact_of, gather, gathered, text, whole};
use super::vits_tests::model;
use crate::runtime::threads::one_thread;
use crate::testing::{Bench, wave_item};
use crate::train::notes::Notes;

const RATE: u32 = 16_000;

const TEXTS: [&str; 6] = ["sana", "toinen sana", "kolmas", "on aika", "hei", "viides sana"];

/// Half a second of two tones, slightly longer for each clip.
fn wave(number: usize) -> Vec<f32> {
    let pitch = 0.05 + 0.01 * number as f32;
    let sample = |at: usize| {
        let at = at as f32;
        0.4 * (pitch * at).sin() + 0.2 * (3.1 * pitch * at).sin()
    };
    (0..8_000 + 700 * number).map(sample).collect()
}

fn clip(bench: &mut Bench, number: usize) -> Item {
    let mut item = wave_item(bench, number, RATE, &wave(number));
    item.fields.set("text", Value::text(TEXTS[number % TEXTS.len()]));
    item
}

fn clips(bench: &mut Bench) -> Vec<Item> {
    (0..TEXTS.len()).map(|number| clip(bench, number)).collect()
}

fn dataset(items: Vec<Item>) -> PortInput {
    PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() }
}

/// Four steps of two clips each, with segments of a tenth of a second.
fn quick() -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("steps", whole(4)),
        ("batch", whole(1)),
        ("accumulation", whole(2)),
        ("learning_rate", ParameterValue::Number(1e-3)),
        ("segment", ParameterValue::Seconds(0.1)),
        ("validate_every", whole(2)),
        ("save_every", whole(2)),
        ("validation_fraction", ParameterValue::Number(0.3)),
        ("preflight", ParameterValue::Flag(false)),
    ]
}

fn tune(more: Written, base: &Fields, bench: &mut Bench) -> Result<Ports, StageError> {
    let items = clips(bench);
    tune_on(items, more, &[("base", base)], bench)
}

fn tune_on(
    items: Vec<Item>,
    more: Written,
    artifacts: &[(&str, &Fields)],
    bench: &mut Bench,
) -> Result<Ports, StageError> {
    // As in a worker.
    one_thread();
    if bench.stop_after.is_none() {
        bench.checkpoints.clear();
    }
    let written = [&quick()[..], more].concat();
    let mut ports = vec![("input", dataset(items))];
    ports.extend(artifacts.iter().map(|(port, fields)| (*port, artifact_of(fields))));
    gather(&FINETUNE, &written, ports, bench)
}

/// A step that changes nothing, so that the result is the start of training.
fn still() -> [(&'static str, ParameterValue); 5] {
    [
        ("steps", whole(1)),
        ("validate_every", whole(1)),
        ("save_every", whole(1)),
        ("learning_rate", ParameterValue::Number(0.0)),
        ("take", text("last")),
    ]
}

/// The tensors of a model, by content.
fn contents(fields: &Fields) -> BTreeMap<String, Digest> {
    artifact::tensors(fields).map(|(name, blob)| (name.to_owned(), blob.digest)).collect()
}

fn log(ports: &Ports, bench: &mut Bench) -> serde_json::Value {
    let blob = ports["log"].blob("metrics").unwrap();
    serde_json::from_slice(&Context::read(bench, blob).unwrap()).unwrap()
}

fn notes(items: Vec<Item>, more: Written, base: &Fields, bench: &mut Bench) -> Notes {
    one_thread();
    bench.checkpoints.clear();
    let ports = vec![("input", dataset(items)), ("base", artifact_of(base))];
    let written = [&quick()[..], more].concat();
    Notes(gathered(&FINETUNE, &written, ports, bench).unwrap().notes)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, StageError>) -> (String, String) {
    let error = result.unwrap_err();
    (error.to_string(), error.help().unwrap_or_default().to_owned())
}

const PREFLIGHT: (&str, ParameterValue) = ("preflight", ParameterValue::Flag(true));
