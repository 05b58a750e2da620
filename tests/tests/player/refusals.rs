//! What cannot be spoken, and the messages about it.

use std::path::Path;

use serde_json::json;
use throstle_tests::Project;

use crate::support::{DESCRIPTION, GRAPH, PublishedVoice, throstle, told};

/// The end of a failed `say` on standard error; nothing was written.
fn refused(voice: &PublishedVoice, text: &str) -> String {
    let (code, errors) = voice.say("a", text, &[]);
    assert!(code == Some(1) || code == Some(2), "{code:?} {errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(!voice.project.file("out/a.wav").exists());
    errors.replace("\n  │ ", " ").replace('\n', " ")
}

#[test]
fn without_a_library_and_a_worker_the_message_says_how_to_get_one() {
    let project = Project::default();
    project.write(GRAPH, "graph");
    project.write(DESCRIPTION, "{}");
    let library = project.file("libonnxruntime.so.1");
    let output = throstle(&project, &library, &["say", GRAPH, "Hello."]).output().unwrap();
    let (code, errors) = told(&output);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("libonnxruntime.so.1` cannot be loaded"), "{errors}");
    assert!(errors.contains("throstle setup --player"), "{errors}");
    // A library of another kind.
    let libc = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"];
    if let Some(libc) = libc.iter().find(|path| Path::new(path).exists()) {
        let output = throstle(&project, libc.as_ref(), &["say", GRAPH, "Hello."]).output().unwrap();
        let (code, errors) = told(&output);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("is not onnxruntime"), "{errors}");
    }
}

#[test]
fn a_damaged_graph_is_refused_by_name() {
    let Some(voice) = PublishedVoice::find() else { return };
    let whole = voice.project.read(GRAPH);
    let middle = whole.len() / 2;
    let mut zeros = whole.clone();
    zeros[..4096].fill(0);
    let page = b"<!DOCTYPE html><html></html>".to_vec();
    for (kind, bytes) in [
        ("cut off", whole[..middle].to_vec()),
        ("without a head", zeros),
        ("a page", page),
        ("empty", Vec::new()),
        ("text", b"version https://git-lfs.github.com/spec/v1\n".to_vec()),
    ] {
        voice.project.remove(GRAPH);
        voice.project.write(GRAPH, bytes);
        let errors = refused(&voice, "Hello.");
        assert!(errors.contains("joe.onnx"), "{kind}: {errors}");
    }
    assert_eq!(voice.project.names("caches/throstle/players").len(), 1);
    let left = voice.project.files("caches/throstle/players");
    assert!(left.is_empty(), "nothing half-done is left: {:?}", left.keys());
}

#[test]
fn an_odd_description_is_refused_by_name() {
    let Some(voice) = PublishedVoice::find() else { return };
    let usual = voice.project.text(DESCRIPTION);
    for (description, expected) in
        [("{", "EOF while parsing"), ("[]", "invalid length 0"), ("{}", "missing field `audio`")]
    {
        voice.project.write(DESCRIPTION, description);
        let errors = refused(&voice, "Hello.");
        assert!(errors.contains(DESCRIPTION) && errors.contains(expected), "{errors}");
    }
    for (pointer, value, expected) in [
        ("/audio/sample_rate", json!(0), "`sample_rate` is 0"),
        ("/audio/sample_rate", json!("22050"), "invalid type"),
        ("/inference/length_scale", json!(0), "length of 0"),
        ("/inference/noise_scale", json!(-1), "negative"),
        ("/phoneme_type", json!("pinyin"), "`phoneme_type` is `pinyin`"),
        ("/phoneme_map", json!({"a": ["b"]}), "`phoneme_map` is not empty"),
        ("/phoneme_id_map/^", json!([1, 2]), "`^`"),
        ("/phoneme_id_map/a", json!([]), "`a` has 0 numbers"),
        ("/phoneme_id_map/a", json!([-5]), "`a` has the number -5"),
    ] {
        voice.project.write(DESCRIPTION, &usual);
        voice.describe(|description| *description.pointer_mut(pointer).unwrap() = value);
        let errors = refused(&voice, "Hello.");
        assert!(errors.contains(expected), "{pointer}: {errors}");
    }
    voice.project.remove(DESCRIPTION);
    let errors = refused(&voice, "Hello.");
    assert!(errors.contains("there is no `joe.onnx.json` beside it"), "{errors}");
}

#[test]
fn numbers_beyond_those_of_the_graph_are_an_error_and_no_crash() {
    let Some(voice) = PublishedVoice::find() else { return };
    voice.describe(|description| {
        description["num_symbols"] = 100_000.into();
        description["phoneme_id_map"]["h"] = json!([99_999]);
    });
    let errors = refused(&voice, "Hello.");
    assert!(errors.contains("onnxruntime"), "{errors}");
}

#[test]
fn letters_that_the_voice_does_not_know_are_refused() {
    let Some(voice) = PublishedVoice::find() else { return };
    let errors = refused(&voice, "Привет.");
    assert!(errors.contains("the voice does not read `П`"), "{errors}");
    let errors = refused(&voice, "...");
    assert!(errors.contains("espeak-ng says nothing"), "{errors}");
    voice.describe(|description| {
        description["phoneme_id_map"].as_object_mut().unwrap().remove("ʃ");
    });
    let errors = refused(&voice, "She.");
    assert!(errors.contains("the model does not know") && errors.contains('ʃ'), "{errors}");
    assert!(errors.contains("`--on-unknown report` speaks without them"), "{errors}");
    let (code, errors) = voice.say("b", "She.", &["--on-unknown", "report"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("left out"), "{errors}");
}

#[test]
fn speakers_and_languages_that_the_voice_lacks_are_told() {
    let Some(voice) = PublishedVoice::find() else { return };
    let (code, errors) = voice.say("a", "Hello.", &["--speaker", "anna"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("has no speaker `anna`"), "{errors}");
    let (code, errors) = voice.say("a", "Hello.", &["--language", "en"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("`--language` has no effect on `joe`"), "{errors}");
}

#[test]
fn the_voice_itself_is_not_written_over() {
    let Some(voice) = PublishedVoice::find() else { return };
    for file in [GRAPH, DESCRIPTION] {
        let before = voice.project.read(file);
        let output = voice.throstle(&["say", GRAPH, "Hello.", "-o", file]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{:?}", told(&output));
        assert!(voice.project.read(file) == before, "{file}");
    }
}
