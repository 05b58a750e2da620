//! `asr.transcribe` as the engine calls it, with the recogniser of a fixture
//! (`fixtures/make_wav2vec2.py`), and its transcript of a recording there.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::path::Path;

use safetensors::tensor::SafeTensors;
use stage_core::device::DeviceId;
use stage_core::{Context, Fields, Item, Job, ParameterValue, Reject, Setup, StageError, Value};
use stage_families::artifact;
use stage_families::wav2vec2::Alphabet;
use stage_families::wav2vec2::kinds::{EMIT, TRANSCRIBE};
use stage_formats::npy;

use super::trial::{Written, open, parameters};
use crate::nn::weights::{Weights, read};
use crate::stored;
use crate::testing::{Bench, wave_item};

const RATE: u32 = 16_000;

fn file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wav2vec2_layer");
    std::fs::read(folder.join(name)).unwrap()
}

/// The recogniser as `model.import` leaves it, including the unused mask.
fn model(bench: &mut Bench) -> Fields {
    let fixture: serde_json::Value = serde_json::from_slice(&file("fixture.json")).unwrap();
    let mut fields: Fields = [
        (artifact::CONFIG, "config"),
        (artifact::PREPROCESSOR, "preprocessor"),
        (artifact::VOCABULARY, "vocabulary"),
    ]
    .map(|(field, setting)| {
        let text = fixture["settings"][setting].to_string();
        (field, Value::Blob(bench.keep(artifact::CONFIG_KIND, text.as_bytes()).into()))
    })
    .into_iter()
    .collect();
    fields.set(artifact::FAMILY, Value::text(artifact::WAV2VEC2));
    for (name, tensor) in Weights::from_safetensors(&file("model.safetensors")).unwrap() {
        let blob = stored::keep(&tensor, bench).unwrap();
        fields.set(artifact::tensor_field(&name), Value::Blob(blob.into()));
    }
    fields
}

/// The recording of the fixture, and its transcript by transformers.
fn recording() -> (Vec<f32>, String) {
    let bytes = file("tensors.safetensors");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |name: &str| read(&tensors.tensor(name).unwrap()).unwrap();
    let letters = Vec::<i32>::try_from(tensor("expected.text")).unwrap();
    let text = letters.iter().map(|letter| char::from_u32(*letter as u32).unwrap()).collect();
    (Vec::try_from(tensor("input.wave")).unwrap(), text)
}

fn transcribe(
    model: &Fields,
    written: Written,
    items: &[Item],
    bench: &mut Bench,
) -> Result<Vec<Result<String, Reject>>, StageError> {
    let setup = Setup {
        parameters: parameters(&TRANSCRIBE, written),
        artifacts: [("model".to_owned(), vec![model.clone()])].into(),
        device: DeviceId::Cpu,
        ..Setup::default()
    };
    let Job::Item(job) = open(&TRANSCRIBE, setup, bench)? else { panic!("no item job") };
    let results = job.process(items, bench)?;
    let mut heard = |output| {
        let fields = bench.keep_all(output);
        fields.text("transcript").unwrap().to_owned()
    };
    Ok(results.into_iter().map(|result| result.map(&mut heard)).collect())
}

#[test]
fn a_recording_is_heard_as_transformers_hears_it_whatever_else_is_heard() {
    let mut bench = Bench::default();
    let model = model(&mut bench);
    let (samples, expected) = recording();
    let items = [&samples[..900], &samples].map(|samples| wave_item(&mut bench, 0, RATE, samples));
    let heard = transcribe(&model, &[], &items, &mut bench).unwrap();
    assert_eq!(heard[1].as_deref(), Ok(expected.as_str()));
    let alone = transcribe(&model, &[], &items[1..], &mut bench).unwrap();
    assert_eq!(alone, heard[1..]);
}

#[test]
fn what_cannot_be_heard_is_set_aside_with_advice() {
    let mut bench = Bench::default();
    let model = model(&mut bench);
    let samples = recording().0;
    // The receptive field of kernels 10, 3, 2 with strides 5, 2, 2.
    let items = [(8_000, 900), (RATE, 29), (RATE, 30), (RATE, 2_000)]
        .map(|(rate, count)| wave_item(&mut bench, 0, rate, &samples[..count]));
    let longest = [("longest", ParameterValue::Seconds(0.1))];
    let heard = transcribe(&model, &longest, &items, &mut bench).unwrap();
    let reject = |at: usize| heard[at].as_ref().unwrap_err();
    assert_eq!([0, 1, 3].map(|at| reject(at).code.as_str()), ["rate", "too-short", "too-long"]);
    assert!(reject(0).reason.contains("`audio.resample` with `rate = 16000`"));
    assert!(reject(1).reason.contains("needs at least 30"));
    assert!(heard[2].is_ok());
}

#[test]
fn another_model_and_a_damaged_one_are_refused() {
    let mut bench = Bench::default();
    let mut model = model(&mut bench);
    let item = [wave_item(&mut bench, 0, RATE, &recording().0)];
    let nothing =
        bench.keep(artifact::TENSOR_KIND, &stored::encode(&tch::Tensor::from(1f32)).unwrap());
    model.set("tensor/lm_head.more", Value::Blob(nothing.into()));
    let error = transcribe(&model, &[], &item, &mut bench).unwrap_err();
    assert!(error.to_string().contains("unexpected: `lm_head.more`"), "{error}");
    assert!(matches!(error, StageError::Unable { .. }));
    model.set(artifact::FAMILY, Value::text(artifact::VITS));
    let error = transcribe(&model, &[], &[], &mut bench).unwrap_err();
    assert!(error.to_string().contains("is no speech recogniser: it is `vits`"), "{error}");
}

#[test]
fn emissions_are_probabilities_of_symbols_and_spell_the_transcript() {
    let mut bench = Bench::default();
    let model = model(&mut bench);
    let (samples, expected) = recording();
    let item = wave_item(&mut bench, 0, RATE, &samples);
    let setup = Setup {
        parameters: parameters(&EMIT, &[]),
        artifacts: [("model".to_owned(), vec![model.clone()])].into(),
        device: DeviceId::Cpu,
        ..Setup::default()
    };
    let Job::Item(job) = open(&EMIT, setup, &mut bench).unwrap() else { panic!("no item job") };
    let output = job.process(&[item], &mut bench).unwrap().remove(0).unwrap();
    let fields = bench.keep_all(output);
    assert_eq!(fields.text("transcript"), Some(expected.as_str()));
    let alphabet: Alphabet = serde_json::from_str(fields.text("alphabet").unwrap()).unwrap();
    let bytes = bench.read(fields.blob("emissions").unwrap()).unwrap();
    let array = npy::read_halves(&bytes).unwrap();
    assert_eq!(array.shape[1], alphabet.symbols.len() as u64);
    // The strides 5, 2, 2 of the fixture.
    assert_eq!(fields.number("hop"), Some(20.0 / 16_000.0));
    let (mut spelled, mut before) = (String::new(), alphabet.blank);
    for row in array.values.chunks(alphabet.symbols.len()) {
        let sum: f64 = row.iter().map(|value| f64::from(*value).exp()).sum();
        assert!((sum - 1.0).abs() < 0.01, "{sum}");
        // Halves of one frame are equal where its numbers in f32 are not: the first is the larger.
        let symbols = row.iter().enumerate().rev();
        let best = symbols.max_by(|one, other| one.1.total_cmp(other.1)).unwrap().0;
        if best != before && best != alphabet.blank {
            spelled.push_str(&alphabet.symbols[best]);
        }
        before = best;
    }
    assert_eq!(spelled.split_whitespace().collect::<Vec<_>>().join(" "), expected);
}
