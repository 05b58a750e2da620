//! The stages of XTTS as the engine calls them, on a model of a few thousand parameters.
#![allow(clippy::unwrap_used)]

mod codes;
mod speech;
mod voice;

use stage_core::device::DeviceId;
use stage_core::{
    Fields, Item, ItemJob, Job, Kind, Output, PortInput, Reject, Setup, StageError, Value,
};
use stage_families::artifact;
use stage_families::xtts::{kinds, speech as spoken};

use super::trial::{Written, artifact_of, gather, open, parameters, text, weights_of, whole};
use crate::nn::random::Random;
use crate::stored;
use crate::testing::{Bench, wave_item};

const RATE: u32 = 22_050;

fn model(more: Written, bench: &mut Bench) -> Fields {
    let tiny = [("layers", whole(1)), ("languages", text("en fi"))];
    let written = [&tiny[..], more].concat();
    gather(&kinds::INIT, &written, Vec::new(), bench).unwrap().remove("model").unwrap()
}

fn noise(seconds: f64, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    let count = (seconds * f64::from(RATE)) as usize;
    (0..count).map(|_| 0.4 * (random.fraction() as f32 - 0.5)).collect()
}

fn references(all: &[(u32, Vec<f32>)], bench: &mut Bench) -> PortInput {
    let item = |(number, (rate, samples)): (usize, &(u32, Vec<f32>))| {
        wave_item(bench, number, *rate, samples)
    };
    let items = all.iter().enumerate().map(item).collect();
    PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() }
}

fn voice_of(
    written: Written,
    model: &Fields,
    clips: &[(u32, Vec<f32>)],
    bench: &mut Bench,
) -> Result<Fields, StageError> {
    let ports = vec![("model", artifact_of(model)), ("input", references(clips, bench))];
    Ok(gather(&spoken::VOICE, written, ports, bench)?.remove("voice").unwrap())
}

fn job(
    kind: &'static Kind,
    written: Written,
    artifacts: &[(&str, &Fields)],
    bench: &mut Bench,
) -> Result<Box<dyn ItemJob>, StageError> {
    let own = |(port, fields): &(&str, &Fields)| ((*port).to_owned(), vec![(*fields).clone()]);
    let setup = Setup {
        parameters: parameters(kind, written),
        artifacts: artifacts.iter().map(own).collect(),
        device: DeviceId::Cpu,
        ..Setup::default()
    };
    match open(kind, setup, bench)? {
        Job::Item(job) => Ok(job),
        _ => panic!("no item job"),
    }
}

fn kept(results: Vec<Result<Output, Reject>>, bench: &mut Bench) -> Vec<Result<Fields, Reject>> {
    results.into_iter().map(|result| result.map(|output| bench.keep_all(output))).collect()
}

fn sentence(words: &str, language: &str) -> Item {
    let fields = [("text", Value::text(words)), ("language", Value::text(language))];
    Item::new("", fields.into_iter().collect())
}

/// Writes a value into all places of a tensor of a model or a voice.
fn spoilt(fields: &Fields, name: &str, value: f64, bench: &mut Bench) -> Fields {
    let (mut spoilt, field) = (fields.clone(), artifact::tensor_field(name));
    let tensor = stored::recall(spoilt.blob(&field).unwrap(), bench).unwrap();
    let blob = stored::keep(&tensor.full_like(value), bench).unwrap();
    spoilt.set(field, Value::Blob(blob.into()));
    spoilt
}

fn is_voice(fields: &Fields) -> bool {
    fields.text(artifact::FAMILY) == Some(artifact::XTTS_VOICE)
}
