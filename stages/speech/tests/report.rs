//! `report.tensorboard` on a few short clips, and `report.recordings` on segments.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use stage_core::{Item, NewValue, PortInput, PortOutput, Reject, StageError, Value};
use stage_formats::tensorboard::whole_records;
use support::{Bench, artifact, item, shown};

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

fn segment(id: &str, start: f64) -> Item {
    let recording = id.split('/').next().unwrap();
    let fields = [
        ("recording", Value::text(recording)),
        ("start", Value::Number(start)),
        ("seconds", Value::Number(2.0)),
    ];
    item(id, &fields)
}

fn stage(name: &str, ids: &[&str], rejects: &[(&str, &str)]) -> PortInput {
    let rejects = rejects.iter().map(|(id, code)| ((*id).to_owned(), Reject::new(*code, "why")));
    PortInput::Dataset {
        stage: name.to_owned(),
        items: ids.iter().map(|id| item(id, &[])).collect(),
        rejects: rejects.collect(),
    }
}

#[test]
fn the_fate_of_each_segment_is_told_by_the_first_stage_that_lost_it() {
    let mut bench = Bench::default();
    let all = ["a/1", "a/2", "a/3", "a/4", "b/1"];
    let segments = all.iter().enumerate().map(|(at, id)| segment(id, at as f64 * 2.0)).collect();
    let passages =
        br#"[{"recordings": ["a"], "start": 0, "end": 9, "words": 2, "text": "not read"}]"#;
    let passages = bench.blob("application/json", passages.to_vec());
    let ports = vec![
        (
            "segments",
            vec![PortInput::Dataset { stage: "segments".into(), items: segments, rejects: vec![] }],
        ),
        (
            "input",
            vec![
                stage("recordings", &["a", "b"], &[("c", "two-texts")]),
                stage("aligned", &["a/1", "a/2", "a/3", "b/1"], &[("a/4", "no-text")]),
                stage("fitting", &["a/1", "a/3", "b/1"], &[("a/2", "bad-transcript")]),
                stage("clips", &["a/1", "b/1"], &[]),
            ],
        ),
        (
            "unheard",
            vec![PortInput::Artifact {
                stage: "aligned".into(),
                fields: [("unheard", passages)].into_iter().collect(),
            }],
        ),
    ];
    let output = bench.gather_ports("report.recordings", &[], ports).unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&shown(artifact(&output, "output")["report"])).unwrap();
    let one = &report["recordings"][0];
    let lost: Vec<(&str, &str, &str)> = one["rejected"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lost| {
            let part = |name: &str| lost[name].as_str().unwrap();
            (part("id"), part("stage"), part("code"))
        })
        .collect();
    let expected = [
        ("a/2", "fitting", "bad-transcript"),
        ("a/3", "clips", "left-out"),
        ("a/4", "aligned", "no-text"),
    ];
    assert_eq!(lost, expected);
    assert_eq!(one["kept"], serde_json::json!({ "segments": 1, "seconds": 2.0 }));
    assert_eq!(
        (&one["unheard_words"], &one["unheard"][0]["text"]),
        (&2.into(), &"not read".into())
    );
    let spans =
        serde_json::json!([[0.0, 2.0, "kept"], [2.0, 6.0, "rejected"], [6.0, 8.0, "no-text"]]);
    assert_eq!(one["spans"], spans);
    assert_eq!(report["recordings"][1]["rejected"], serde_json::json!([]));
    let whole = &report["whole"];
    assert_eq!((whole.as_array().unwrap().len(), &whole[0]["id"]), (1, &"c".into()));
}
