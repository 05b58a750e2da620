//! `report.tensorboard` on a few short clips.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use stage_core::{Item, NewValue, PortInput, PortOutput, StageError, Value};
use stage_formats::tensorboard::whole_records;
use support::Bench;

/// A mono WAV file of 16 bits.
fn wav(samples: &[i16]) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 8_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
    writer.finalize().unwrap();
    bytes.into_inner()
}

fn heard(bench: &mut Bench, id: &str, step: f64, audio: &[u8]) -> Item {
    let fields = [
        ("audio", bench.blob("audio/wav", audio.to_vec())),
        ("text", Value::text("Hyvää päivää.")),
        ("sentence", Value::text("greeting")),
        ("step", Value::Number(step)),
    ];
    Item::new(id, fields.into_iter().collect())
}

fn events(bench: &mut Bench, items: Vec<Item>) -> Result<Vec<u8>, StageError> {
    let input = PortInput::Dataset { stage: "above".into(), items, rejects: Vec::new() };
    let output = bench.gather("report.tensorboard", &[], vec![input])?;
    let PortOutput::Artifact(values) = &output.ports["output"] else { panic!("no artifact") };
    match &values[0] {
        (name, NewValue::Bytes { bytes, .. }) if name == "events" => Ok(bytes.to_vec()),
        other => panic!("{other:?}"),
    }
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part).count()
}

#[test]
fn a_sentence_is_one_sound_with_its_steps_and_its_text() {
    let mut bench = Bench::default();
    let (early, late) = (wav(&[1, 2, 3, 4]), wav(&[5, 6, 7, 8]));
    let first = heard(&mut bench, "greeting@step-40", 40.0, &early);
    let second = heard(&mut bench, "greeting@step-80", 80.0, &late);
    let file = events(&mut bench, vec![first.clone(), second.clone()]).unwrap();
    assert_eq!(whole_records(&file), file.len());
    assert_eq!(count(&file, "Hyvää päivää.".as_bytes()), 1);
    assert_eq!(count(&file, b"greeting"), 3, "a text and two sounds");
    let place = |wav: &[u8]| file.windows(wav.len()).position(|window| window == wav);
    assert!(place(&early).unwrap() < place(&late).unwrap());
    assert_eq!(events(&mut bench, vec![second, first]).unwrap(), file, "whatever the order");
}

#[test]
fn a_file_that_is_no_sound_is_named() {
    let mut bench = Bench::default();
    let broken = heard(&mut bench, "greeting@step-40", 40.0, b"<html>");
    let error = events(&mut bench, vec![broken]).unwrap_err().to_string();
    assert!(error.starts_with("the audio of `greeting@step-40` cannot be shown: "), "{error}");
}
