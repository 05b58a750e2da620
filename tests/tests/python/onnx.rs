//! An ONNX model in a Python stage, as the guide has it.
//!
//! The reference is onnxruntime of `tools/players.sh`; without it the test says that it is skipped.

use std::collections::BTreeMap;

use stage_formats::onnx::{Attribute, Element, Graph, Size, WeightType};
use throstle_tests::guide::{blocks, document};
use throstle_tests::players::players;
use throstle_tests::{Project, RanProgram};

use crate::values;

const VOICE: &str = "[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = 16000\n";

/// The mean power of a recording as its score, and its power and peak as an embedding.
fn predictor() -> Vec<u8> {
    let mut graph = Graph::new(WeightType::F32);
    let sizes = [Size::Fixed(1), Size::Named("samples")];
    let audio = graph.input("audio", Element::F32, &sizes);
    let square = graph.add("Mul", &[&audio, &audio]);
    let axes = ("axes", Attribute::Integers(vec![1]));
    let rows = [axes, ("keepdims", Attribute::Integer(1))];
    let power = graph.with("ReduceMean", &[&square], &rows);
    let peak = graph.with("ReduceMax", &[&audio], &rows);
    let both = graph.with("Concat", &[&power, &peak], &[("axis", Attribute::Integer(1))]);
    let axis = graph.integers(&[1]);
    let score = graph.add("Squeeze", &[&power, &axis]);
    graph.output("score", &score, Element::F32, &[Size::Fixed(1)]);
    graph.output("embedding", &both, Element::F32, &[Size::Fixed(1), Size::Fixed(2)]);
    graph.write("predictor", &BTreeMap::new()).unwrap()
}

#[test]
fn the_example_with_onnxruntime_gives_numbers_and_embeddings() {
    let Some(python) = players("onnxruntime, numpy") else {
        eprintln!("skipped: `.players` has no onnxruntime: tools/players.sh");
        return;
    };
    let guide = document("docs/guides/python.md");
    let stages = VOICE.to_owned() + &blocks(&guide, "toml").join("\n");
    let project = Project::of_clips(&["a", "b", "c"], &stages);
    project.write("data/wavs/c.wav", throstle_tests::wav(20_000));
    project.write("predictor.py", blocks(&guide, "python").join("\n"));
    project.write("models/predictor.onnx", predictor());
    let set = format!("--set=stage.predicted.python={}", python.display());
    let run = |more: &[&str]| {
        let arguments = [&["run", ".", "--json", &set][..], more].concat();
        let ran = RanProgram::of(project.output(&arguments));
        assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
        ran
    };
    assert_eq!(run(&[]).executed()["predicted"], 3);
    let scores = values(&project, "predicted", "score");
    for (id, score) in &scores {
        let samples = samples(&project.read(&format!("data/wavs/{id}.wav")));
        let power =
            samples.iter().map(|sample| sample * sample).sum::<f64>() / samples.len() as f64;
        assert!((score.as_f64().unwrap() - power).abs() < 1e-5, "{id}: {score} {power}");
        let array = project.output(&["cat", "predicted", id, "embedding"]).stdout;
        let peak = samples.iter().fold(f64::MIN, |peak, sample| peak.max(*sample));
        assert_eq!(numbers(&array), [score.as_f64().unwrap() as f32, peak as f32], "{id}");
    }
    let good = values(&project, "good", "score");
    assert_eq!(good, scores[2..], "the loud one");
    let again = run(&["--set=stage.predicted.batch=1"]);
    again.assert_nothing_done();
}

/// The samples of a WAV file of 16 bits.
fn samples(wav: &[u8]) -> Vec<f64> {
    let pairs = wav[44..].chunks_exact(2);
    pairs.map(|two| f64::from(i16::from_le_bytes([two[0], two[1]])) / 32768.0).collect()
}

/// The values of an array of NumPy with 32 bits each.
fn numbers(npy: &[u8]) -> Vec<f32> {
    let head = usize::from(u16::from_le_bytes([npy[8], npy[9]]));
    let values = npy[10 + head..].chunks_exact(4);
    values.map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}
