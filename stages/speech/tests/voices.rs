//! `speaker.match`: voices by reference clips, and groups of clips without them.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support;

use serde_json::Value as Json;
use stage_core::{GatherOutput, Item, NewValue, ParameterValue, StageError, Value};
use stage_formats::npy::{FloatArray, write_floats};
use support::*;

/// Directions of three voices; clips are near them.
const VOICES: [[f32; 3]; 3] = [[1.0, 0.1, 0.0], [0.0, 1.0, 0.1], [0.1, 0.0, 1.0]];

fn embedded(bench: &mut Bench, numbers: &[f32]) -> Value {
    let array = FloatArray { shape: vec![numbers.len() as u64], values: numbers.to_vec() };
    bench.blob("embedding/npy", write_floats(&array).unwrap())
}

/// A clip of a voice, with a little of its own.
fn clip(bench: &mut Bench, id: &str, voice: usize) -> Item {
    let own = f32::from(id.bytes().fold(0_u8, u8::wrapping_add)) / 2_560.0;
    let numbers = VOICES[voice].map(|number| number + own);
    let embedding = embedded(bench, &numbers);
    item(id, &[("embedding", embedding)])
}

fn with(item: &Item, name: &'static str, value: Value) -> Item {
    let mut fields = item.fields.clone();
    fields.set(name, value);
    Item::new(item.id.clone(), fields)
}

fn matched(
    bench: &mut Bench,
    written: &[(&str, ParameterValue)],
    clips: &[Item],
    references: Option<&[Item]>,
) -> Result<GatherOutput, StageError> {
    let mut ports = vec![("input", vec![dataset("embedded", clips.to_vec())])];
    ports.extend(references.map(|known| ("reference", vec![dataset("known", known.to_vec())])));
    bench.gather_ports("speaker.match", written, ports)
}

fn named(output: &GatherOutput) -> Vec<(String, String)> {
    let value = |values: &[(String, NewValue)], name: &str| {
        shown(&values.iter().find(|(own, _)| own == name).unwrap().1)
    };
    let kept = items(output, "output").iter();
    kept.map(|item| (item.id.clone(), value(&item.values, "speaker"))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(id, name)| ((*id).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn clips_get_the_name_of_the_nearest_reference_and_strangers_are_set_aside() {
    let mut bench = Bench::default();
    let bench = &mut bench;
    let known = [clip(bench, "k1", 0), clip(bench, "k2", 0), clip(bench, "k3", 1)];
    let known: Vec<Item> = known
        .iter()
        .zip(["aino", "aino", "eero"])
        .map(|(item, name)| with(item, "speaker", Value::text(name)))
        .collect();
    let mut clips = vec![clip(bench, "a", 0), clip(bench, "b", 1), clip(bench, "c", 2)];
    clips.push(with(&clip(bench, "d", 1), "halves", Value::Number(0.2)));
    clips.push(with(&clip(bench, "e", 0), "halves", Value::Number(0.9)));
    clips.push(item("f", &[]));
    let short = embedded(bench, &[1.0]);
    clips.push(item("g", &[("embedding", short)]));
    let zeros = embedded(bench, &[0.0; 3]);
    clips.push(item("h", &[("embedding", zeros)]));
    let output = matched(bench, &[], &clips, Some(&known)).unwrap();
    assert_eq!(named(&output), pairs(&[("a", "aino"), ("b", "eero"), ("e", "aino")]));
    let expected = [
        "input 2 other-speaker",
        "input 3 two-voices",
        "input 5 no-embedding",
        "input 6 other-embedding",
        "input 7 damaged-embedding",
    ];
    assert_eq!(bench.set_aside(), expected);
    assert!(bench.aside[0].2.reason.starts_with("the nearest voice is `"));
    assert_eq!(bench.aside[1].2.reason, "the cosine between its halves is 0.20, below 0.4");
    let report: Json = serde_json::from_str(&shown(artifact(&output, "voices")["report"])).unwrap();
    assert_eq!((&report[0]["speaker"], &report[0]["clips"]), (&"aino".into(), &2.into()));
    assert_eq!(report[0]["nearest"]["speaker"], "eero");
    assert!(report[0]["lowest_cosine"].as_f64().unwrap() > 0.9);
}

#[test]
fn without_references_clips_of_one_voice_become_a_group() {
    let mut bench = Bench::default();
    let bench = &mut bench;
    let clips: Vec<Item> = [("a", 1), ("b", 0), ("c", 0), ("d", 1), ("e", 0), ("f", 2)]
        .map(|(id, voice)| clip(bench, id, voice))
        .to_vec();
    let output = matched(bench, &[], &clips, None).unwrap();
    let expected = [
        ("a", "voice-2"),
        ("b", "voice-1"),
        ("c", "voice-1"),
        ("d", "voice-2"),
        ("e", "voice-1"),
        ("f", "voice-3"),
    ];
    assert_eq!(named(&output), pairs(&expected));
    assert!(bench.aside.is_empty());
    let all = [("min_cosine", ParameterValue::Number(-1.0))];
    let output = matched(bench, &all, &clips, None).unwrap();
    assert!(named(&output).iter().all(|(_, name)| name == "voice-1"));
}

#[test]
fn references_that_cannot_be_used_are_an_error() {
    let mut bench = Bench::default();
    let bench = &mut bench;
    let clips = [clip(bench, "a", 0)];
    let short = embedded(bench, &[1.0]);
    let short = item("s", &[("embedding", short)]);
    for (known, told) in [
        (vec![], "no clip with a speaker"),
        (vec![item("x", &[])], "no field `embedding`"),
        (vec![clip(bench, "k", 0), short], "3 and 1 numbers"),
    ] {
        let error = matched(bench, &[], &clips, Some(&known)).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn embeddings_in_json_are_read_like_arrays() {
    let mut bench = Bench::default();
    let json = bench.blob("application/json", b"[1.0, 0.1, 0.0]".to_vec());
    let clips = [item("a", &[("embedding", json)]), clip(&mut bench, "b", 0)];
    let output = matched(&mut bench, &[], &clips, None).unwrap();
    assert_eq!(named(&output), pairs(&[("a", "voice-1"), ("b", "voice-1")]));
}
