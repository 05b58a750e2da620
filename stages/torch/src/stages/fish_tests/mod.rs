//! The stages of Fish Speech as the engine calls them, on a model of a few thousand parameters.
#![allow(clippy::unwrap_used)]

mod checkpoints;
mod choices;
mod init;
mod lineage;
mod refusals;
mod speech;
mod training;

use std::collections::BTreeMap;

use cache::Digest;
use stage_core::device::DeviceId;
use stage_core::{
    Blob, Context, Fields, Item, Job, Kind, ParameterValue, PortInput, Reject, Setup, StageError,
    Value,
};
use stage_families::artifact;
use stage_families::dual_ar::kinds as fish;

use super::trial::{Ports, Written, artifact_of, gather, gathered, open, parameters, text, whole};
use crate::fish::vocabulary::byte_level;
use crate::npy;
use crate::sound::codec::Codes;
use crate::sound::mel::MelShape;
use crate::sound::mel_rvq::{Config, MelRvq};
use crate::testing::Bench;

/// A model of 3 codebooks of 24 entries.
fn base(bench: &mut Bench) -> Fields {
    let written = [
        ("codebooks", whole(3)),
        ("entries", whole(24)),
        ("layers", whole(1)),
        ("dim", whole(16)),
        ("heads", whole(2)),
        ("key_heads", whole(1)),
        ("max_length", whole(96)),
    ];
    gather(&fish::INIT, &written, Vec::new(), bench).unwrap().remove("model").unwrap()
}

fn clip(bench: &mut Bench, number: usize, codebooks: usize) -> Item {
    let code = |at: usize| ((at * 5 + number * 7) % 24) as u16;
    let codes = Codes { codebooks, frames: 6, values: (0..codebooks * 6).map(code).collect() };
    let mut item = bench.item(number, "tokens", npy::KIND, &npy::write(&codes).unwrap());
    item.fields.set("text", Value::text(format!("sana {number}")));
    item
}

fn clips(bench: &mut Bench, codebooks: usize) -> PortInput {
    let items = (0..6).map(|number| clip(bench, number, codebooks)).collect();
    PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() }
}

/// Four steps of two rows each, with short phases around them.
fn quick() -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("steps", whole(4)),
        ("batch", whole(1)),
        ("accumulation", whole(2)),
        ("warm_up", whole(0)),
        ("validate_every", whole(2)),
        ("save_every", whole(2)),
        ("validation_fraction", ParameterValue::Number(0.3)),
    ]
}

fn tune(
    kind: &'static Kind,
    more: Written,
    base: &Fields,
    bench: &mut Bench,
) -> Result<Ports, StageError> {
    let clips = clips(bench, 3);
    let written = [&quick()[..], more].concat();
    gather(kind, &written, vec![("input", clips), ("base", artifact_of(base))], bench)
}

fn refusal(result: Result<Ports, StageError>) -> (String, String) {
    let error = result.unwrap_err();
    (error.to_string(), error.help().unwrap_or_default().to_owned())
}

fn codec(codebooks: usize, entries: usize, bench: &mut Bench) -> Fields {
    let config = Config::new(MelShape::at_rate(16_000), codebooks, entries);
    let bands = config.mel.bands;
    let books = (0..codebooks * entries * bands).map(|at| (at % 7) as f32 * 0.1).collect();
    let codec = MelRvq::from_parts(config, vec![-3.0; bands], books);
    let blob = bench.keep("model/safetensors", &codec.save().unwrap());
    [("model", Value::Blob(blob.into()))].into_iter().collect()
}

fn speak(
    model: &Fields,
    codec: &Fields,
    sentences: &[&str],
    bench: &mut Bench,
) -> Result<Vec<Fields>, StageError> {
    spoken(&[("model", model), ("codec", codec)], &items_of(sentences), bench)
}

fn items_of(sentences: &[&str]) -> Vec<Item> {
    let item = |text: &&str| Item::new("", [("text", Value::text(*text))].into_iter().collect());
    sentences.iter().map(item).collect()
}

fn spoken(
    artifacts: &[(&str, &Fields)],
    items: &[Item],
    bench: &mut Bench,
) -> Result<Vec<Fields>, StageError> {
    Ok(said(artifacts, items, bench)?.into_iter().map(Result::unwrap).collect())
}

/// The results of sentences in one batch.
fn said(
    artifacts: &[(&str, &Fields)],
    items: &[Item],
    bench: &mut Bench,
) -> Result<Vec<Result<Fields, Reject>>, StageError> {
    let own = |(port, fields): &(&str, &Fields)| ((*port).to_owned(), vec![(*fields).clone()]);
    let setup = Setup {
        parameters: parameters(&fish::SYNTHESIZE, &[("max_frames", whole(12))]),
        artifacts: artifacts.iter().map(own).collect(),
        device: DeviceId::Cpu,
        ..Setup::default()
    };
    let Job::Item(job) = open(&fish::SYNTHESIZE, setup, bench)? else { panic!("no item job") };
    let outputs = job.process(items, bench)?;
    Ok(outputs.into_iter().map(|output| output.map(|output| bench.keep_all(output))).collect())
}

const KINDS: [&Kind; 2] = [&fish::FINETUNE, &fish::LORA];

const QUIET: (&str, ParameterValue) = ("preflight", ParameterValue::Flag(false));

/// The trained result, of either kind.
fn learnt(mut ports: Ports) -> Fields {
    ports.remove("model").or_else(|| ports.remove("adapters")).unwrap()
}

/// The tensors of a model or of adapters, by content.
fn contents(fields: &Fields) -> BTreeMap<String, Digest> {
    artifact::tensors(fields).map(|(name, blob)| (name.to_owned(), blob.digest)).collect()
}

fn lineage_of(fields: &Fields) -> serde_json::Value {
    serde_json::from_str(fields.text(artifact::LINEAGE).unwrap()).unwrap()
}

/// The artifact with one of its texts changed.
fn edited(
    fields: &Fields,
    name: &str,
    bench: &mut Bench,
    change: impl Fn(&str) -> String,
) -> Fields {
    let blob = fields.blob(name).unwrap();
    let (kind, bytes) = (blob.kind.clone(), Context::read(bench, blob).unwrap());
    let text = std::str::from_utf8(&bytes).unwrap();
    let changed = change(text);
    assert_ne!(changed, text);
    let mut edited = fields.clone();
    edited.set(name, Value::Blob(bench.keep(&kind, changed.as_bytes()).into()));
    edited
}
