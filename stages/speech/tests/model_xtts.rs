//! `model.import` on the published files of a small XTTS model.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::support;

use stage_families::xtts::{DVAE_PREFIX, MEL_STATS, XttsConfig, XttsVocabulary};
use stage_formats::{Dtype, Tensor};
use support::Bench;
use support::models::{Tensors, import, model, numbered, pth};

const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";

type Files = Vec<(&'static str, Vec<u8>)>;

/// The statistics are in the model and in a file of their own, as published.
fn published() -> (XttsConfig, Files) {
    let languages = ["en".to_owned()];
    let vocabulary = XttsVocabulary::fresh("abc", &languages, None).unwrap();
    let rows = vocabulary.text_tokens().unwrap().rows;
    let config = XttsConfig { languages: languages.to_vec(), ..XttsConfig::small(rows) };
    let (mut own, mut dvae) = (Tensors::new(), Tensors::new());
    for (name, tensor) in numbered(config.tensors(), Dtype::F32) {
        match name.strip_prefix(DVAE_PREFIX) {
            Some(part) => dvae.insert(part.to_owned(), tensor),
            None => own.insert(name, tensor),
        };
    }
    let stats: Tensors = [(MEL_STATS.to_owned(), own[MEL_STATS].clone())].into();
    let files = vec![
        ("model.pth", pth(&own)),
        ("dvae.pth", pth(&dvae)),
        ("mel_stats.pth", pth(&stats)),
        ("config.json", config.published_file(None).unwrap()),
        ("vocab.json", vocabulary.to_json().unwrap()),
    ];
    (config, files)
}

fn refusal(name: &'static str, bytes: Vec<u8>) -> String {
    let (_, mut files) = published();
    files.retain(|(own, _)| *own != name);
    files.push((name, bytes));
    import(&mut Bench::default(), &files, &[]).map(drop).unwrap_err().to_string()
}

#[test]
fn the_published_files_become_a_model() {
    let (config, files) = published();
    let mut bench = Bench::default();
    let output = import(&mut bench, &files, &[]).unwrap();
    let tensors = model(&output).into_keys().filter(|name| name.starts_with("tensor/")).count();
    assert_eq!(tensors, config.tensors().len());
    let noted: Vec<&str> = output.notes.iter().map(|(note, _)| note.as_str()).collect();
    assert_eq!(noted, ["tensors", "tensors left out"]);
}

#[test]
fn statistics_beside_the_model_are_read_although_it_has_its_own() {
    let (config, _) = published();
    let mels = config.gpt.mels as usize;
    let stats = |values: Vec<f32>| {
        let tensor = Tensor::from_f32([values.len()], &values).unwrap();
        refusal("mel_stats.pth", pth(&[(MEL_STATS.to_owned(), tensor)].into()))
    };
    let other = "`mel_stats.pth` does not match `mel_stats` of the model";
    assert_eq!(stats(vec![1.0; mels]), other);
    assert_eq!(stats(vec![1.0; mels - 1]), other);
    assert_eq!(stats(vec![f32::NAN; mels]), other);
    let pointer = refusal("mel_stats.pth", POINTER.to_vec());
    assert_eq!(pointer, "`mel_stats.pth`: it is a git-lfs pointer, not weights");
}

#[test]
fn a_broken_file_is_named() {
    for name in ["model.pth", "dvae.pth", "speakers_xtts.pth"] {
        let error = refusal(name, POINTER.to_vec());
        assert_eq!(error, format!("`{name}`: it is a git-lfs pointer, not weights"));
    }
    let error = refusal("speakers_xtts.pth", b"PK\x03\x04".to_vec());
    assert!(error.starts_with("`speakers_xtts.pth`: "), "{error}");
}

#[test]
fn a_vocabulary_and_a_configuration_that_cannot_be_used_are_refused_at_the_import() {
    let changed = |name: &'static str, from: &str, to: &str| {
        let (_, files) = published();
        let (_, bytes) = files.into_iter().find(|(own, _)| *own == name).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(from), "{text}");
        refusal(name, text.replace(from, to).into_bytes())
    };
    let told = changed("vocab.json", r#""dropout":null"#, r#""dropout":0.5"#);
    assert!(told.contains("`model.dropout` is set"), "{told}");
    let told = changed("vocab.json", r#""merges":[]"#, r#""merges":["zz qq"]"#);
    assert!(told.contains("`zz`"), "{told}");
    let told = changed("config.json", r#""sample_rate": 22050"#, r#""sample_rate": 16000"#);
    assert!(told.contains("is 16000, expected 22050"), "{told}");
    let told = changed("config.json", r#""top_p": 0.85"#, r#""top_p": 7.0"#);
    assert!(told.contains("`top_p` is 7.0"), "{told}");
}

#[test]
fn numbers_that_the_vocabulary_replaces_are_noted() {
    let (_, mut files) = published();
    for (name, bytes) in &mut files {
        if *name == "config.json" {
            let mut file: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            file["model_args"]["gpt_start_text_token"] = 1000.into();
            *bytes = file.to_string().into_bytes();
        }
    }
    let output = import(&mut Bench::default(), &files, &[]).unwrap();
    let is_note = |(note, _): &(String, u64)| note.starts_with("`gpt_start_text_token` of");
    assert!(output.notes.iter().any(is_note), "{:?}", output.notes);
}

#[test]
fn a_configuration_without_sizes_is_completed_from_the_tensors() {
    let (config, files) = published();
    let read = |json: &str| {
        let mut own = files.clone();
        own.retain(|(name, _)| *name != "config.json");
        own.push(("config.json", json.as_bytes().to_vec()));
        import(&mut Bench::default(), &own, &[]).map_err(|error| error.to_string())
    };
    let output = read(r#"{"languages": ["en"], "model_args": {"gpt_n_heads": 4}}"#).unwrap();
    let stored = config.to_json().unwrap();
    assert_eq!(model(&output)["config"], stage_core::NewValue::bytes("model/config", stored));
    let told = read(r#"{"model_args": {}}"#).map(drop).unwrap_err();
    assert!(told.contains("`gpt_n_heads` of `model_args` is missing"), "{told}");
}

/// The trainer writes `best_model_N.pth`, copies the newest to `best_model.pth`, and saves
/// `checkpoint_N.pth` on the way.
#[test]
fn of_the_folder_of_a_trainer_the_newest_best_state_is_taken_or_else_the_newest() {
    let (_, files) = published();
    let taken = |states: &[&'static str]| {
        let mut own = files.clone();
        let (_, weights) = own.remove(0);
        own.extend(states.iter().map(|name| (*name, weights.clone())));
        let output = import(&mut Bench::default(), &own, &[]).map_err(|error| error.to_string())?;
        let mut notes = output.notes.into_iter().map(|(note, _)| note);
        Ok::<_, String>(notes.next_back().unwrap_or_default())
    };
    let all = ["checkpoint_9000.pth", "best_model_900.pth", "best_model_1200.pth"];
    assert_eq!(taken(&all).unwrap(), "taken: `best_model_1200.pth`");
    let latest = ["best_model_900.pth", "best_model.pth"];
    assert_eq!(taken(&latest).unwrap(), "taken: `best_model.pth`");
    let saved = ["checkpoint_900.pth", "checkpoint_1000.pth"];
    assert_eq!(taken(&saved).unwrap(), "taken: `checkpoint_1000.pth`");
    let error = taken(&["best_model_900.pth", "other.pth"]).unwrap_err();
    assert!(error.contains("choose one with `file`"), "{error}");
    let error = taken(&["a/best_model_1.pth", "b/best_model_2.pth"]).unwrap_err();
    assert!(error.contains("choose one with `file`"), "{error}");
}
