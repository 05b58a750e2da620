//! Sentences.

use stage_core::{NewValue, ParameterValue};
use stage_families::artifact;
use stage_formats::checkpoint;

use super::*;
use crate::sound::wave;

const MODEL: &str = "model";

fn audio(fields: &Fields) -> cache::Digest {
    fields.blob("audio").unwrap().digest
}

#[test]
fn a_sentence_sounds_the_same_whatever_else_is_spoken() {
    let mut bench = Bench::default();
    let fields = model(&[], &mut bench);
    let all = ["hei", "hyvää päivää", "hei"].map(sentence);
    let spoken = speak(&[], &[(MODEL, &fields)], &all, &mut bench).unwrap();
    let spoken: Vec<Fields> = spoken.into_iter().map(Result::unwrap).collect();
    let alone = speak(&[], &[(MODEL, &fields)], &all[1..2], &mut bench).unwrap();
    assert_eq!(spoken[0], spoken[2]);
    assert_eq!(Ok(&spoken[1]), alone[0].as_ref());
    let other = speak(&[("seed", whole(2))], &[(MODEL, &fields)], &all[1..2], &mut bench).unwrap();
    assert_ne!(audio(&spoken[1]), audio(other[0].as_ref().unwrap()));
    let bytes = Context::read(&mut bench, spoken[1].blob("audio").unwrap()).unwrap();
    let wave = wave::read(&bytes).unwrap();
    let frames = spoken[1].number("frames").unwrap();
    assert_eq!((wave.rate, wave.samples.len() as f64), (16_000, 256.0 * frames));
    assert_eq!(spoken[1].number("seconds"), Some(256.0 * frames / 16_000.0));
}

#[test]
fn what_the_model_cannot_read_is_told() {
    let mut bench = Bench::default();
    let fields = model(&[], &mut bench);
    let items = ["Hei, sinä!", "Hei, 12!", "12!", " "].map(sentence);
    let mut process = |written: Written| {
        let job = job(&vits::SYNTHESIZE, written, &[(MODEL, &fields)], &mut bench).unwrap();
        job.process(&items, &mut bench).unwrap()
    };
    let results = process(&[]);
    let told = |output: &Output, notes: &[&str], listed: &str| {
        let dropped = output.notes.iter().filter(|(name, _)| name.ends_with("dropped"));
        let dropped: Vec<(&str, u64)> = dropped.map(|(name, count)| (&**name, *count)).collect();
        let notes: Vec<_> = notes.iter().map(|code| (format!("{code} dropped"), 1)).collect();
        assert_eq!(dropped, notes.iter().map(|(name, one)| (&**name, *one)).collect::<Vec<_>>());
        assert!(output.values.contains(&("unknown".to_owned(), NewValue::Text(listed.to_owned()))));
    };
    told(results[0].as_ref().unwrap(), &["U+0021", "U+002C"], "!,");
    let lost = results[1].as_ref().unwrap_err();
    assert_eq!(lost.code, "unknown-letters");
    for part in ["`1` (1 time), `2` (1 time)", "`text.normalize`", "`on_unknown = \"report\"`"] {
        assert!(lost.reason.contains(part), "{part}: {}", lost.reason);
    }
    assert_eq!(results[2].as_ref().unwrap_err().code, "unknown");
    assert_eq!(results[3].as_ref().unwrap_err().code, "unknown");
    let reported = process(&[("on_unknown", text("report"))]);
    let values = |results: &[Result<Output, Reject>]| results[0].as_ref().unwrap().values.clone();
    assert_eq!(values(&reported), values(&results), "a sentence that loses no letter is the same");
    let codes = ["U+0021", "U+002C", "U+0031", "U+0032"];
    told(reported[1].as_ref().unwrap(), &codes, "!,12");
}

#[test]
fn a_model_of_romanised_texts_asks_for_them() {
    let mut bench = Bench::default();
    let mut fields = model(&[], &mut bench);
    let settings = br#"{"phonemize": false, "is_uroman": true}"#;
    let blob = bench.keep(artifact::TOKENIZER_KIND, settings);
    fields.set(artifact::TOKENIZER_CONFIG, Value::Blob(blob.into()));
    let items = ["hyvää", "hyvaa"].map(sentence);
    let spoken = speak(&[], &[(MODEL, &fields)], &items, &mut bench).unwrap();
    let reject = spoken[0].as_ref().unwrap_err();
    assert!(reject.code == "uroman" && reject.reason.contains("`command`"), "{reject:?}");
    assert!(spoken[1].is_ok());
}

#[test]
fn a_faster_rate_is_shorter_and_an_endless_sentence_is_set_aside() {
    let mut bench = Bench::default();
    let fields = model(&[], &mut bench);
    let item = [sentence("yksi kaksi kolme")];
    let mut speak = |written: Written| {
        speak(written, &[(MODEL, &fields)], &item, &mut bench).unwrap().remove(0)
    };
    let still = ("noise_scale_duration", ParameterValue::Number(0.0));
    let mut frames = |rate: f64| {
        let rate = ("speaking_rate", ParameterValue::Number(rate));
        speak(&[still.clone(), rate]).unwrap().number("frames").unwrap()
    };
    assert!(frames(0.25) > 1.5 * frames(1.0));
    let slow = ("speaking_rate", ParameterValue::Number(0.05));
    let short = ("max_duration", ParameterValue::Seconds(0.8));
    let reject = speak(&[still.clone(), slow, short]).unwrap_err();
    assert!(reject.reason.contains("; shorten it, or train the durations"), "{reject:?}");
    // It has more tokens than frames, so it cannot be spoken in time at any rate.
    let reject = speak(&[("max_duration", ParameterValue::Seconds(0.1))]).unwrap_err();
    assert!(reject.reason.starts_with("its 16 characters take at least"), "{reject:?}");
}

#[test]
fn speakers_are_named_by_the_stage_or_by_the_sentence() {
    let mut bench = Bench::default();
    let mut fields = model(&[("speakers", whole(2))], &mut bench);
    fields.set(artifact::SPEAKERS, Value::text(r#"["aino", "eero"]"#));
    let mut eero = sentence("hei");
    eero.fields.set("speaker", Value::text("eero"));
    let mut speak = |written: Written, item: &Item| {
        speak(written, &[(MODEL, &fields)], std::slice::from_ref(item), &mut bench)
            .unwrap()
            .remove(0)
    };
    let by_sentence = speak(&[], &eero).unwrap();
    assert_eq!(
        audio(&speak(&[("speaker", text("1"))], &sentence("hei")).unwrap()),
        audio(&by_sentence)
    );
    let aino = speak(&[("speaker", text("aino"))], &eero).unwrap();
    assert_ne!(audio(&aino), audio(&by_sentence));
    let reject = speak(&[], &sentence("hei")).unwrap_err();
    assert!(
        reject.reason.contains("no speaker is given; speakers of the model: aino, eero"),
        "{reject:?}"
    );
    let reject = speak(&[("speaker", text("veikko"))], &eero).unwrap_err();
    assert!(reject.reason.contains("has no speaker `veikko`"), "{reject:?}");
}

#[test]
fn a_checkpoint_that_a_sentence_brings_speaks_it() {
    let mut bench = Bench::default();
    let models = [1, 2].map(|seed| model(&[("seed", whole(seed))], &mut bench));
    let mut item = |model: &Fields| {
        let fields =
            model.iter().map(|(name, value)| (name.to_string(), NewValue::Kept(value.clone())));
        let checkpoint = checkpoint::item(4, None, fields.collect()).unwrap();
        let output = Output { values: checkpoint.values, notes: Vec::new() };
        let weights = bench.keep_all(output).get(checkpoint::WEIGHTS).cloned().unwrap();
        let mut item = sentence("hei");
        item.fields.set(checkpoint::WEIGHTS, weights);
        item
    };
    let items = [item(&models[0]), item(&models[1])];
    let spoken = speak(&[], &[], &items, &mut bench).unwrap();
    for (model, spoken) in models.iter().zip(&spoken) {
        let own = speak(&[], &[(MODEL, model)], &[sentence("hei")], &mut bench).unwrap();
        assert_eq!(own[0], *spoken);
    }
    let error = speak(&[], &[], &[sentence("hei")], &mut bench).unwrap_err();
    assert!(matches!(error, StageError::Unable { .. }), "{error:?}");
}

#[test]
fn another_model_is_refused_before_any_sentence() {
    let mut bench = Bench::default();
    let fields: Fields = [(artifact::FAMILY, Value::text(artifact::DAC))].into_iter().collect();
    let error = speak(&[], &[(MODEL, &fields)], &[], &mut bench).unwrap_err();
    assert!(error.to_string().contains("is no VITS model: it is a codec"), "{error}");
    assert!(error.help().unwrap().contains("`vits.init`"));
}
