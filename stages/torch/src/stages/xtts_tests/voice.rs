//! Voices.

use stage_core::{NewValue, ParameterValue};
use stage_families::xtts::SPEAKERS_FILE;
use stage_formats::safetensors;

use super::*;

fn tensor(name: &str, voice: &Fields, bench: &mut Bench) -> tch::Tensor {
    let blob = voice.blob(&artifact::tensor_field(name)).unwrap().clone();
    stored::recall(&blob, bench).unwrap()
}

fn digests(voice: &Fields) -> Vec<cache::Digest> {
    artifact::tensors(voice).map(|(_, blob)| blob.digest).collect()
}

#[test]
fn a_voice_has_latents_of_the_gpt_and_a_vector_of_length_one() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let voice = voice_of(&[], &model, &[(RATE, noise(1.0, 1))], &mut bench).unwrap();
    assert!(is_voice(&voice));
    assert_eq!(tensor("gpt_cond_latent", &voice, &mut bench).size(), [1, 32, 64]);
    let vector = tensor("speaker_embedding", &voice, &mut bench);
    assert_eq!(vector.size(), [1, 32, 1]);
    assert!((vector.norm().double_value(&[]) - 1.0).abs() < 1e-5);
}

#[test]
fn several_references_count_alike_for_the_vector() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let clips = [(RATE, noise(1.0, 1)), (RATE, noise(2.0, 2))];
    let both = voice_of(&[], &model, &clips, &mut bench).unwrap();
    let alone = clips.map(|clip| voice_of(&[], &model, &[clip], &mut bench).unwrap());
    let [one, other] = alone.map(|voice| tensor("speaker_embedding", &voice, &mut bench));
    let far = (tensor("speaker_embedding", &both, &mut bench) - (one + other) / 2.0).abs().max();
    assert!(far.double_value(&[]) < 1e-6);
}

#[test]
fn latents_are_the_mean_of_parts_and_a_short_rest_is_left_out() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let wave = noise(2.0, 3);
    let seconds = |name, seconds: f64| (name, ParameterValue::Number(seconds));
    let chunk = seconds("chunk_seconds", 1.0);
    let mut latents = |written: Written, samples: &[f32]| {
        let voice = voice_of(written, &model, &[(RATE, samples.to_vec())], &mut bench).unwrap();
        tensor("gpt_cond_latent", &voice, &mut bench)
    };
    let half = RATE as usize;
    let mean = (latents(&[], &wave[..half]) + latents(&[], &wave[half..])) / 2.0;
    let far = |one: &tch::Tensor| (one - &mean).abs().max().double_value(&[]);
    assert!(far(&latents(std::slice::from_ref(&chunk), &wave)) < 1e-5);
    let longer = [&wave[..], &noise(0.3, 4)].concat();
    assert!(far(&latents(&[chunk], &longer)) < 1e-5);
    let two = seconds("conditioning_seconds", 2.0);
    let cut = latents(&[two, seconds("chunk_seconds", 1.0)], &[&wave[..], &noise(1.0, 5)].concat());
    assert!(far(&cut) < 1e-5);
}

#[test]
fn references_that_cannot_be_read_are_set_aside_and_none_is_an_error() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let clips = [(16_000, noise(1.0, 1)), (RATE, noise(1.0, 2))];
    let voice = voice_of(&[], &model, &clips, &mut bench).unwrap();
    assert_eq!(bench.aside.len(), 1);
    assert_eq!((bench.aside[0].1, bench.aside[0].2.code.as_str()), (0, "rate"));
    let alone = voice_of(&[], &model, &clips[1..], &mut bench).unwrap();
    assert_eq!(digests(&voice), digests(&alone));
    let error = voice_of(&[], &model, &clips[..1], &mut bench).unwrap_err();
    assert_eq!(error.to_string(), "there is no reference for a voice");
    let error = voice_of(&[], &model, &[(RATE, noise(0.3, 1))], &mut bench).unwrap_err();
    assert!(error.to_string().contains("references of 0.30 s are too short"), "{error}");
}

#[test]
fn a_voice_that_came_with_the_model_is_taken_by_its_name() {
    let mut bench = Bench::default();
    let mut model = model(&[], &mut bench);
    let named = |name: &str| vec![("speaker", text(name))];
    let ports = |model: &Fields| vec![("model", artifact_of(model))];
    let error = gather(&spoken::VOICE, &named("Aino A."), ports(&model), &mut bench).unwrap_err();
    assert!(error.to_string().contains("without `speakers_xtts.pth`"), "{error}");

    let floats = |shape: [usize; 3], value: f32| {
        let values = vec![value; shape.iter().product()];
        stage_formats::Tensor::from_f32(shape.to_vec(), &values).unwrap()
    };
    let (latents, vector) = (floats([1, 32, 64], 0.5), floats([1, 32, 1], 0.25));
    let file = [("Aino A..gpt_cond_latent", &latents), ("Aino A..speaker_embedding", &vector)];
    let file = bench.keep("file", &safetensors::write(file).unwrap());
    let nan = floats([1, 32, 1], f32::NAN);
    let damaged = [("Aino A..gpt_cond_latent", &latents), ("Aino A..speaker_embedding", &nan)];
    let damaged = bench.keep("file", &safetensors::write(damaged).unwrap());
    model.set(SPEAKERS_FILE, Value::Blob(damaged.into()));
    let error = gather(&spoken::VOICE, &named("Aino A."), ports(&model), &mut bench).unwrap_err();
    assert!(error.to_string().contains("`Aino A..speaker_embedding`"), "{error}");
    assert!(error.to_string().contains("has values that are not finite"), "{error}");
    model.set(SPEAKERS_FILE, Value::Blob(file.into()));
    let voice = gather(&spoken::VOICE, &named("Aino A."), ports(&model), &mut bench).unwrap();
    let voice = &voice["voice"];
    assert_eq!(voice.text("name"), Some("Aino A."));
    let vector = tensor("speaker_embedding", voice, &mut bench);
    assert_eq!((vector.size(), vector.double_value(&[0, 3, 0])), (vec![1, 32, 1], 0.25));
    let error = gather(&spoken::VOICE, &named("Eero"), ports(&model), &mut bench).unwrap_err();
    assert!(error.help().unwrap().contains("speakers of the model: Aino A."), "{error:?}");
    let both = voice_of(&named("Aino A."), &model, &[(RATE, noise(1.0, 1))], &mut bench);
    assert!(both.unwrap_err().to_string().contains("both references and a `speaker`"));
}

#[test]
fn weights_that_are_no_numbers_give_no_voice() {
    let mut bench = Bench::default();
    let model = model(&[], &mut bench);
    let encoder = "hifigan_decoder.speaker_encoder.";
    let cases = [
        ("mel_stats".to_owned(), 0.0, "has 0e0, which is too small to divide by"),
        (
            "gpt.conditioning_encoder.init.weight".to_owned(),
            f64::NAN,
            "has values that are not finite",
        ),
        (format!("{encoder}bn1.running_var"), -1.0, "`bn1.running_var` holds a negative variance"),
        ("gpt.conditioning_encoder.init.weight".to_owned(), 3e38, "these references is not finite"),
    ];
    for (name, value, words) in cases {
        let spoilt = spoilt(&model, &name, value, &mut bench);
        let error = voice_of(&[], &spoilt, &[(RATE, noise(1.0, 1))], &mut bench).unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
}

#[test]
fn the_licence_of_the_model_travels_with_the_voice() {
    let mut bench = Bench::default();
    let mut model = model(&[], &mut bench);
    model.set(artifact::LICENSE, Value::text("CPML"));
    let voice = voice_of(&[], &model, &[(RATE, noise(1.0, 1))], &mut bench).unwrap();
    assert_eq!(voice.text(artifact::LICENSE), Some("CPML"));
    let output = Output::default().with("x", NewValue::Text(String::new()));
    assert!(!is_voice(&bench.keep_all(output)));
}
