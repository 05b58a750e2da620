//! `xtts.finetune`, `xtts.lora` and `xtts.merge` as the engine calls them, on a small random model.
#![allow(clippy::unwrap_used)]

mod adapters;
mod clips;
mod training;

use std::collections::BTreeMap;

use cache::Digest;
use stage_core::device::DeviceId;
use stage_core::{
    Context, Fields, Item, Job, Kind, Output, ParameterValue, PortInput, Reject, Setup, StageError,
    Value,
};
use stage_families::artifact;
use stage_families::kinds::vq;
use stage_families::xtts::kinds::INIT;
use stage_families::xtts::speech;
use stage_families::xtts::tune::{FINETUNE, LORA, MERGE};
use stage_formats::checkpoint;

use super::trial::{
    Ports, Written, artifact_of, gather, gathered, open, parameters, text, weights_of, whole,
};
use crate::npy;
use crate::runtime::threads::one_thread;
use crate::sound::codec::Codes;
use crate::stored;
use crate::testing::{Bench, wave_item};

const RATE: u32 = 22_050;
const STRIDE: usize = 1_024;
const TEXTS: [&str; 6] = ["sana", "toinen sana", "kolmas", "on aika", "hei", "viides sana"];

fn model(bench: &mut Bench) -> Fields {
    let written = [
        ("width", whole(32)),
        ("heads", whole(2)),
        ("layers", whole(2)),
        ("languages", text("en fr")),
    ];
    gather(&INIT, &written, Vec::new(), bench).unwrap().remove("model").unwrap()
}

/// Slightly more than half a second, longer for each clip.
fn samples(number: usize) -> usize {
    11_500 + 1_300 * number
}

fn clip_of(bench: &mut Bench, number: usize, samples: usize) -> Item {
    let pitch = 0.03 + 0.01 * number as f32;
    let wave: Vec<f32> = (0..samples).map(|at| 0.4 * (pitch * at as f32).sin()).collect();
    let mut item = wave_item(bench, number, RATE, &wave);
    let frames = samples.div_ceil(STRIDE);
    let values = (0..frames).map(|at| ((7 * at + 3 * number) % 32) as u16).collect();
    let tokens = npy::write(&Codes { codebooks: 1, frames, values }).unwrap();
    let tokens = bench.keep(npy::KIND, &tokens);
    item.fields.set("tokens", Value::Blob(tokens.into()));
    item.fields.set("text", Value::text(TEXTS[number % TEXTS.len()]));
    item.fields.set("language", Value::text(if number.is_multiple_of(3) { "fr" } else { "en" }));
    item
}

fn clip(bench: &mut Bench, number: usize) -> Item {
    clip_of(bench, number, samples(number))
}

fn clips(bench: &mut Bench) -> Vec<Item> {
    (0..TEXTS.len()).map(|number| clip(bench, number)).collect()
}

/// The same with the codes that the DVAE of a model gives.
fn encoded(items: Vec<Item>, model: &Fields, bench: &mut Bench) -> Vec<Item> {
    let setup = Setup {
        parameters: parameters(&vq::ENCODE, &[]),
        artifacts: [("codec".to_owned(), vec![model.clone()])].into(),
        device: DeviceId::Cpu,
        ..Setup::default()
    };
    let Job::Item(job) = open(&vq::ENCODE, setup, bench).unwrap() else { panic!("no item job") };
    let outputs = job.process(&items, bench).unwrap();
    let token = |(mut item, output): (Item, Result<Output, Reject>)| {
        let tokens = bench.keep_all(output.unwrap()).get("tokens").cloned().unwrap();
        item.fields.set("tokens", tokens);
        item
    };
    items.into_iter().zip(outputs).map(token).collect()
}

/// Writes a value into the first place of a tensor of a model.
fn spoil(model: &mut Fields, name: &str, value: f64, bench: &mut Bench) {
    let field = artifact::tensor_field(name);
    let tensor = stored::recall(model.blob(&field).unwrap(), bench).unwrap();
    let _ = tensor.view(-1).get(0).fill_(value);
    let blob = stored::keep(&tensor, bench).unwrap();
    model.set(field, Value::Blob(blob.into()));
}

const PREFLIGHT: (&str, ParameterValue) = ("preflight", ParameterValue::Flag(true));

/// Three steps of two clips each.
fn quick() -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("steps", whole(3)),
        ("batch", whole(1)),
        ("accumulation", whole(2)),
        ("learning_rate", ParameterValue::Number(1e-3)),
        ("validate_every", whole(2)),
        ("save_every", whole(1)),
        ("validation_fraction", ParameterValue::Number(0.3)),
        ("preflight", ParameterValue::Flag(false)),
    ]
}

fn tune_on(
    kind: &'static Kind,
    items: Vec<Item>,
    more: Written,
    base: &Fields,
    bench: &mut Bench,
) -> Result<Ports, StageError> {
    // As in a worker.
    one_thread();
    if bench.stop_after.is_none() {
        bench.checkpoints.clear();
    }
    let written = [&quick()[..], more].concat();
    let dataset = PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() };
    gather(kind, &written, vec![("input", dataset), ("base", artifact_of(base))], bench)
}

fn tune(more: Written, base: &Fields, bench: &mut Bench) -> Result<Ports, StageError> {
    let items = clips(bench);
    tune_on(&FINETUNE, items, more, base, bench)
}

/// The tensors of a model, by content.
fn contents(fields: &Fields) -> BTreeMap<String, Digest> {
    artifact::tensors(fields).map(|(name, blob)| (name.to_owned(), blob.digest)).collect()
}

/// The tensors that differ between two models.
fn moved(one: &Fields, other: &Fields) -> Vec<String> {
    let other = contents(other);
    let moved = contents(one).into_iter().filter(|(name, digest)| other[name] != *digest);
    moved.map(|(name, _)| name).collect()
}

fn log(ports: &Ports, bench: &mut Bench) -> serde_json::Value {
    let blob = ports["log"].blob("metrics").unwrap();
    serde_json::from_slice(&Context::read(bench, blob).unwrap()).unwrap()
}

fn patterns(patterns: &[&str]) -> ParameterValue {
    ParameterValue::List(patterns.iter().map(|one| text(one)).collect())
}
