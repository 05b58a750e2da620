//! The stages: the fields, notes and rejects of an item.

use crate::support::{Wav, sine, to_pcm};
use bytes::Bytes;
use cache::Digest;
use stage_core::{
    Blob, Detached, Fields, Item, Job, NewValue, Output, Parameter, ParameterType, ParameterValue,
    Parameters, Reject, Setup, Stage, Value,
};
use stage_speech::audio::stages;
use std::collections::BTreeMap;
use std::sync::Arc;

fn stage(kind: &str) -> Arc<dyn Stage> {
    stages().into_iter().find(|stage| stage.kind().name == kind).unwrap()
}

fn default_of(parameter: &Parameter) -> ParameterValue {
    match parameter.default {
        stage_core::Default::Text(text) => ParameterValue::Text(text.to_owned()),
        stage_core::Default::Integer(number) => ParameterValue::Integer(number),
        stage_core::Default::Number(number) => ParameterValue::Number(number),
        stage_core::Default::Flag(flag) => ParameterValue::Flag(flag),
        stage_core::Default::Seconds(seconds) => ParameterValue::Seconds(seconds),
        _ => ParameterValue::Absent,
    }
}

fn run_with(
    kind: &str,
    media_type: &str,
    bytes: Vec<u8>,
    set: &[(&str, ParameterValue)],
) -> Result<Output, Reject> {
    let stage = stage(kind);
    let mut values: BTreeMap<String, ParameterValue> = BTreeMap::new();
    for parameter in stage.kind().parameters {
        values.insert(parameter.name.to_owned(), default_of(parameter));
    }
    for (name, value) in set {
        assert!(values.insert((*name).to_owned(), value.clone()).is_some(), "{name}");
    }
    let bytes = Bytes::from(bytes);
    let mut held = Detached::holding(bytes.clone());
    let setup = Setup { parameters: Parameters(values), ..Setup::default() };
    let Job::Item(job) = stage.open(setup, &mut held).unwrap() else {
        panic!("{kind} works on items");
    };
    let blob =
        Blob { digest: Digest::of(&bytes), size: bytes.len() as u64, kind: media_type.into() };
    let fields = [("audio", Value::Blob(Arc::new(blob)))].into_iter().collect();
    job.process(&[Item::new("a", fields)], &mut held).unwrap().remove(0)
}

fn run(kind: &str, bytes: Vec<u8>) -> Result<Output, Reject> {
    run_with(kind, "audio/wav", bytes, &[])
}

fn value<'a>(output: &'a Output, name: &str) -> &'a NewValue {
    &output.values.iter().find(|(own, _)| own == name).unwrap().1
}

fn tone(rate: u32) -> Wav {
    Wav { rate, ..Wav::pcm(&to_pcm(&sine(rate, 440.0, 1.0, 0.4))) }
}

#[test]
fn every_kind_of_the_catalogue_has_its_stage() {
    let described: Vec<&str> =
        stage_speech::audio::kinds::KINDS.iter().map(|kind| kind.name).collect();
    let built: Vec<&str> = stages().iter().map(|stage| stage.kind().name).collect();
    assert_eq!(built, described);
}

#[test]
fn each_stage_writes_the_fields_that_its_kind_declares() {
    let speech = include_bytes!("../../../../pipelines/demo/data/wavs/aino_01.wav");
    // `recordings.rs` has those that make several items of one, from pauses.
    for stage in stages().into_iter().filter(|stage| stage.kind().expands.is_none()) {
        let kind = stage.kind();
        let output = run(kind.name, speech.to_vec()).unwrap();
        let mut written: Vec<&str> = output.values.iter().map(|(name, _)| name.as_str()).collect();
        let mut declared: Vec<&str> =
            kind.outputs[0].writes.iter().map(|(name, _)| *name).collect();
        written.sort_unstable();
        declared.sort_unstable();
        assert_eq!(written, declared, "{}", kind.name);
    }
}

#[test]
fn a_recording_that_is_raised_to_a_higher_rate_is_noted_with_the_end_of_its_sound() {
    let noted = |wav: Wav, rate: i64| {
        let rate = [("rate", ParameterValue::Integer(rate))];
        run_with("audio.resample", "audio/wav", wav.bytes(), &rate).unwrap().notes
    };
    let speech = |rate| Wav { rate, ..Wav::pcm(&to_pcm(&sine(rate, 3_300.0, 1.0, 0.4))) };
    let told = |note: &str| vec![(note.to_owned(), 1)];
    assert_eq!(
        noted(speech(8_000), 44_100),
        told("raised from 8 to 44.1 kHz, with sound up to 4 kHz")
    );
    // Too short to measure.
    assert_eq!(
        noted(Wav { rate: 8_000, ..Wav::pcm(&[900; 800]) }, 22_050),
        told("raised from 8 to 22.05 kHz")
    );
    assert_eq!(noted(speech(16_000), 16_000), []);
    assert_eq!(noted(speech(48_000), 16_000), []);
}

#[test]
fn a_recording_from_a_telephone_says_so() {
    let limit = [("min_bandwidth", ParameterValue::Number(4_200.0))];
    let reject = run_with("audio.check", "audio/wav", tone(8_000).bytes(), &limit).unwrap_err();
    assert_eq!(reject.code, "narrow-band");
    assert!(reject.reason.contains("`min_bandwidth` = 4200 (as from a telephone;"), "{reject}");
    let accepted = [("min_bandwidth", ParameterValue::Number(0.0))];
    run_with("audio.check", "audio/wav", tone(8_000).bytes(), &accepted).unwrap();
}

#[test]
fn resampled_audio_is_stored_as_plain_wav() {
    let output = run("audio.resample", tone(48_000).bytes()).unwrap();
    let NewValue::Bytes { kind, bytes } = value(&output, "audio") else {
        panic!("new bytes");
    };
    assert_eq!((kind.as_str(), bytes.len()), ("audio/wav", 44 + 2 * 16_000));
}

#[test]
fn audio_in_its_stored_form_is_kept_and_not_stored_again() {
    for kind in ["audio.decode", "audio.resample"] {
        let output = run(kind, tone(16_000).bytes()).unwrap();
        assert!(matches!(value(&output, "audio"), NewValue::Kept(_)), "{kind}");
    }
}

#[test]
fn a_fault_becomes_a_reject_with_its_word_and_reason() {
    let mut bytes = tone(16_000).bytes();
    bytes.truncate(1_000);
    let reject = run("audio.decode", bytes).unwrap_err();
    assert_eq!(reject.code, "truncated");
    assert!(reject.reason.contains("31044 missing"), "{}", reject.reason);
}

#[test]
fn what_a_recording_is_its_bytes_say_and_not_its_kind() {
    let mp3 = include_bytes!("../audio_fixtures/tone.mp3").to_vec();
    let output = run("audio.decode", mp3.clone()).unwrap();
    for kind in ["audio", "audio/wav", "audio/flac", "application/octet-stream"] {
        assert_eq!(run_with("audio.decode", kind, mp3.clone(), &[]).unwrap(), output, "{kind}");
    }
}

#[test]
fn audio_in_its_stored_form_is_named_so_whatever_it_was_named() {
    let output = run_with("audio.decode", "audio", tone(16_000).bytes(), &[]).unwrap();
    let NewValue::Kept(Value::Blob(blob)) = value(&output, "audio") else {
        panic!("kept bytes");
    };
    assert_eq!(&*blob.kind, "audio/wav");
}

#[test]
fn parameters_reach_the_work() {
    let mut cut = tone(16_000).bytes();
    cut.truncate(20_000);
    let allow = ("allow_truncated", ParameterValue::Flag(true));
    let output = run_with("audio.decode", "audio/wav", cut, &[allow]).unwrap();
    assert_eq!(output.notes, [("truncated-kept".to_owned(), 1)]);

    let stereo = Wav { channels: 2, ..tone(16_000) }.bytes();
    let error = ("channels", ParameterValue::Text("error".to_owned()));
    let reject = run_with("audio.resample", "audio/wav", stereo, &[error]).unwrap_err();
    assert_eq!(reject.code, "channels");

    let short = ("min_duration", ParameterValue::Seconds(2.0));
    let loud = ("min_peak", ParameterValue::Number(-3.0));
    let set = [short, loud];
    let reject = run_with("audio.check", "audio/wav", tone(16_000).bytes(), &set).unwrap_err();
    assert_eq!(reject.code, "too-short");
    assert_eq!(
        reject.reason,
        "duration of 1 s is below `min_duration` = 2; peak of -7.959 dBFS is below `min_peak` = -3"
    );
}

#[test]
fn joined_files_and_what_is_left_out_are_counted_in_the_notes_of_every_reader() {
    let mp3 = include_bytes!("../audio_fixtures/tone.mp3");
    let joined = [&mp3[..], mp3].concat();
    let mut longer = tone(16_000).bytes();
    longer.extend([0; 400]);
    for kind in ["audio.decode", "audio.pauses"] {
        let notes = run(kind, joined.clone()).unwrap().notes;
        assert!(notes.contains(&("joined-files".to_owned(), 1)), "{kind}: {notes:?}");
        let notes = run(kind, longer.clone()).unwrap().notes;
        assert_eq!(notes, [("samples-left-out".to_owned(), 200)], "{kind}");
    }
}

#[test]
fn pauses_are_those_of_the_decoded_recording_and_both_refuse_the_same() {
    let m4a = include_bytes!("../audio_fixtures/tone.m4a").to_vec();
    let seconds = |kind| value(&run(kind, m4a.clone()).unwrap(), "seconds").clone();
    // Without the frames that the encoder added.
    assert_eq!(seconds("audio.pauses"), NewValue::Number(0.8));
    assert_eq!(seconds("audio.pauses"), seconds("audio.decode"));
    let flac = include_bytes!("../audio_fixtures/tone.flac");
    let damaged: Vec<u8> =
        flac.iter().enumerate().map(|(at, b)| b ^ u8::from(at == 3_000)).collect();
    for bytes in [flac[..4_000].to_vec(), damaged] {
        // Only one of the two stages has the parameter that keeps what is there.
        let finding = |kind| {
            let reject = run(kind, bytes.clone()).unwrap_err();
            let finding = reject.reason.split("; ").next().unwrap().to_owned();
            (reject.code, finding, reject.reason.contains("or set `allow_truncated`"))
        };
        let (code, found, is_own) = finding("audio.decode");
        assert_eq!(finding("audio.pauses"), (code.clone(), found, false));
        assert_eq!(is_own, code == "truncated");
    }
}

#[test]
fn an_item_without_audio_is_rejected() {
    let mut held = Detached::holding(Bytes::new());
    let parameters = [("rate", ParameterValue::Integer(16_000))]
        .into_iter()
        .chain([
            ("channels", ParameterValue::Text("mean".to_owned())),
            ("allow_truncated", ParameterValue::Flag(false)),
            ("longest", ParameterValue::Seconds(60.0)),
        ])
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let setup = Setup { parameters: Parameters(parameters), ..Setup::default() };
    let Job::Item(job) = stage("audio.resample").open(setup, &mut held).unwrap() else {
        panic!("works on items");
    };
    let results = job.process(&[Item::new("a", Fields::new())], &mut held).unwrap();
    assert_eq!(results[0].as_ref().unwrap_err().code, "no-audio");
}

#[test]
fn choices_of_the_catalogue_are_all_understood() {
    let stereo = Wav { channels: 2, ..Wav::pcm(&[5_000; 32_000]) }.bytes();
    for stage in stages() {
        let Some(parameter) = stage.kind().parameter("channels") else { continue };
        let ParameterType::Choice(choices) = parameter.parameter_type else {
            panic!("a choice");
        };
        for choice in choices.iter().filter(|choice| **choice != "error") {
            let set = [("channels", ParameterValue::Text((*choice).to_owned()))];
            let result = run_with(stage.kind().name, "audio/wav", stereo.clone(), &set);
            let code = result.err().map(|reject| reject.code);
            assert!(!matches!(code.as_deref(), Some("channels")), "{choice}");
        }
    }
}
