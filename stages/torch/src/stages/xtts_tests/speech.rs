//! Sentences.

use stage_core::{Context, ParameterValue};
use stage_formats::checkpoint;

use super::*;
use crate::sound::wave;

/// A model and one of its voices.
fn speaker(bench: &mut Bench) -> (Fields, Fields) {
    let model = model(&[], bench);
    let voice = voice_of(&[], &model, &[(RATE, noise(1.0, 1))], bench).unwrap();
    (model, voice)
}

/// Few codes: a random model seldom ends by itself.
fn speak(
    more: Written,
    (model, voice): &(Fields, Fields),
    items: &[Item],
    bench: &mut Bench,
) -> Result<Vec<Result<Fields, Reject>>, StageError> {
    let written = [&[("max_codes", whole(6))][..], more].concat();
    let ports = [("model", model), ("voice", voice)];
    let results = job(&spoken::SYNTHESIZE, &written, &ports, bench)?.process(items, bench)?;
    Ok(kept(results, bench))
}

fn audio(fields: &Fields) -> cache::Digest {
    fields.blob("audio").unwrap().digest
}

#[test]
fn a_sentence_sounds_the_same_whatever_else_is_spoken() {
    let mut bench = Bench::default();
    let speaker = speaker(&mut bench);
    let all = [("hello", "en"), ("how are you today", "en"), ("hello", "en"), ("hello", "fi")];
    let all = all.map(|(words, language)| sentence(words, language));
    let spoken = speak(&[], &speaker, &all, &mut bench).unwrap();
    let spoken: Vec<Fields> = spoken.into_iter().map(Result::unwrap).collect();
    assert_eq!(spoken[0], spoken[2]);
    assert_ne!(audio(&spoken[0]), audio(&spoken[3]), "the language counts");
    let alone = speak(&[], &speaker, &all[1..2], &mut bench).unwrap();
    assert_eq!(Ok(&spoken[1]), alone[0].as_ref());
    let other = speak(&[("seed", whole(2))], &speaker, &all[1..2], &mut bench).unwrap();
    assert_ne!(audio(&spoken[1]), audio(other[0].as_ref().unwrap()));
}

#[test]
fn speech_is_as_long_as_its_codes_and_its_speed_say() {
    let mut bench = Bench::default();
    let speaker = speaker(&mut bench);
    let item = [sentence("hello", "en")];
    for (speed, frames) in [(1.0, 6), (2.0, 3), (0.5, 12)] {
        let written = [("speed", ParameterValue::Number(speed))];
        let spoken = speak(&written, &speaker, &item, &mut bench).unwrap().remove(0).unwrap();
        assert_eq!(spoken.number("frames"), Some(6.0));
        assert_eq!(spoken.text("stop"), Some("limit"));
        let blob = spoken.blob("audio").unwrap().clone();
        let wave = wave::read(&Context::read(&mut bench, &blob).unwrap()).unwrap();
        let columns = (frames * 4) as f64 * 24_000.0 / 22_050.0;
        assert_eq!((wave.rate, wave.samples.len()), (24_000, columns as usize * 256));
        assert_eq!(spoken.number("seconds"), Some(wave.samples.len() as f64 / 24_000.0));
    }
}

#[test]
fn a_long_text_is_spoken_in_pieces_one_behind_the_other() {
    let mut bench = Bench::default();
    let speaker = speaker(&mut bench);
    // Each sentence fits into the 200 tokens of the model, and no two of them together.
    let words = ["lorem"; 22].join(" ");
    let long = format!("{words}. {words}! {words}.");
    let spoken = speak(&[], &speaker, &[sentence(&long, "en")], &mut bench).unwrap();
    let spoken = spoken[0].as_ref().unwrap();
    assert_eq!(spoken.number("pieces"), Some(3.0));
    // A piece has at most six codes, so none of the three is silent.
    assert!(spoken.number("frames").is_some_and(|frames| (13.0..=18.0).contains(&frames)));
    let short = speak(&[], &speaker, &[sentence("hello", "en")], &mut bench).unwrap();
    assert_eq!(short[0].as_ref().unwrap().number("pieces"), Some(1.0));
}

#[test]
fn texts_that_cannot_be_spoken_are_set_aside_with_the_reason() {
    let mut bench = Bench::default();
    let speaker = speaker(&mut bench);
    let mut unknown = sentence("hello", "en");
    unknown.fields.remove("language");
    let items = [sentence("ሰላም", "en"), sentence("hola", "es"), unknown, sentence("hello", "en")];
    let spoken = speak(&[], &speaker, &items, &mut bench).unwrap();
    let code = |at: usize| spoken[at].as_ref().err().map(|reject| reject.code.as_str());
    assert_eq!(code(0), Some("unknown-characters"));
    assert_eq!(code(1), Some("unknown-language"));
    assert_eq!(code(2), Some("no-language"));
    assert_eq!(code(3), None);
    let given = speak(&[("language", text("en"))], &speaker, &items[2..], &mut bench).unwrap();
    assert_eq!(given[0], given[1]);
}

#[test]
fn characters_that_the_vocabulary_lacks_are_left_out_only_if_the_stage_says_so() {
    let mut bench = Bench::default();
    let speaker = speaker(&mut bench);
    let items = [sentence("«hello»", "en"), sentence("hello", "en")];
    let strict = speak(&[], &speaker, &items, &mut bench).unwrap();
    let reject = strict[0].as_ref().unwrap_err();
    assert!(reject.reason.contains("`«` (U+00AB)") && reject.reason.contains("`text.normalize`"));
    let report = [("max_codes", whole(6)), ("on_unknown", text("report"))];
    let ports = [("model", &speaker.0), ("voice", &speaker.1)];
    let job = job(&spoken::SYNTHESIZE, &report, &ports, &mut bench).unwrap();
    let results = job.process(&items, &mut bench).unwrap();
    let dropped = |at: usize| {
        let notes = results[at].as_ref().unwrap().notes.iter();
        notes.filter(|(name, _)| name.ends_with("dropped")).cloned().collect::<Vec<_>>()
    };
    let both = ["U+00AB dropped", "U+00BB dropped"].map(|name| (name.to_owned(), 1));
    assert_eq!((dropped(0), dropped(1)), (both.to_vec(), Vec::new()));
    let kept = kept(results, &mut bench);
    assert_eq!(kept[1], strict[1], "a text that lacks nothing is the same");
}

/// A model that ends before each code with a probability of `odds` to 1.
fn restless(model: &Fields, odds: f64, bench: &mut Bench) -> Fields {
    let mut restless = spoilt(model, "gpt.mel_head.weight", 0.0, bench);
    let field = artifact::tensor_field("gpt.mel_head.bias");
    let bias = stored::recall(restless.blob(&field).unwrap(), bench).unwrap().zeros_like();
    // The end is the last of the codes.
    let others = bias.size()[0] - 1;
    let _ = bias.get(others).fill_((odds * others as f64).ln());
    restless.set(field, Value::Blob(stored::keep(&bias, bench).unwrap().into()));
    restless
}

#[test]
fn a_sentence_that_the_model_ends_before_it_speaks_is_drawn_again() {
    let mut bench = Bench::default();
    let (model, voice) = speaker(&mut bench);
    let words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let items = words.map(|word| sentence(word, "en"));
    let plain = [("temperature", 1.0), ("top_p", 1.0), ("repetition_penalty", 1.0)];
    let mut written: Vec<_> =
        plain.iter().map(|(name, value)| (*name, ParameterValue::Number(*value))).collect();
    written.push(("top_k", whole(0)));
    let mut silent = |odds: f64, items: &[Item]| -> Vec<Reject> {
        let speaker = (restless(&model, odds, &mut bench), voice.clone());
        let spoken = speak(&written, &speaker, items, &mut bench).unwrap();
        spoken.into_iter().filter_map(Result::err).collect()
    };
    // Each attempt is silent in half of the cases: about five of ten in one attempt, and one in four.
    let lost = silent(1.0, &items);
    assert!(lost.len() <= 2, "{lost:?}");
    let never = silent(1e9, &items);
    assert_eq!(never.len(), items.len());
    let told =
        "the model ended before it spoke, in 4 attempts: it needs more training for this text";
    assert_eq!((never[0].code.as_str(), never[0].reason.as_str()), ("silent", told));
}

#[test]
fn a_checkpoint_that_a_sentence_brings_speaks_it() {
    let mut bench = Bench::default();
    let (own, voice) = speaker(&mut bench);
    let other = model(&[("seed", whole(2))], &mut bench);
    let mut item = |model: &Fields| {
        let mut item = sentence("hello", "en");
        item.fields.set(checkpoint::WEIGHTS, weights_of(model, &mut bench));
        item
    };
    let items = [item(&own), item(&other)];
    let written = [("max_codes", whole(6))];
    let ports = [("voice", &voice)];
    let job = job(&spoken::SYNTHESIZE, &written, &ports, &mut bench).unwrap();
    let results = job.process(&items, &mut bench).unwrap();
    let results = kept(results, &mut bench);
    for (model, spoken) in [own, other].into_iter().zip(&results) {
        let speaker = (model, voice.clone());
        let alone = speak(&[], &speaker, &[sentence("hello", "en")], &mut bench).unwrap();
        assert_eq!(alone[0], *spoken);
    }
    let error = job.process(&[sentence("hello", "en")], &mut bench).unwrap_err();
    assert!(matches!(error, StageError::Unable { .. }), "{error:?}");
}

#[test]
fn a_model_or_a_voice_of_no_numbers_and_wrong_settings_blame_no_sentence() {
    let mut bench = Bench::default();
    let (model, voice) = speaker(&mut bench);
    let item = [sentence("hello", "en")];
    let weight = "gpt.gpt.h.0.mlp.c_fc.weight";
    let no_model = spoilt(&model, weight, f64::NAN, &mut bench);
    let no_voice = spoilt(&voice, "speaker_embedding", f64::NAN, &mut bench);
    let wrong = [("top_p", ParameterValue::Number(0.0))];
    let cases: [(Written, _, _, &str); 3] = [
        (
            &[],
            no_model,
            voice.clone(),
            "`gpt.gpt.h.0.mlp.c_fc.weight` has values that are not finite",
        ),
        (&[], model.clone(), no_voice, "`speaker_embedding` has values that are not finite"),
        (&wrong, model, voice, "`top_p` is 0, expected more than 0"),
    ];
    for (written, model, voice, words) in cases {
        let error = speak(written, &(model, voice), &item, &mut bench).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(matches!(error, StageError::Unable { .. }), "{error:?}");
    }
}

#[test]
fn a_voice_of_other_sizes_is_refused_before_any_sentence() {
    let mut bench = Bench::default();
    let (_, voice) = speaker(&mut bench);
    let wider = model(&[("width", whole(128))], &mut bench);
    let error = speak(&[], &(wider.clone(), voice), &[], &mut bench).unwrap_err();
    assert!(error.to_string().contains("[1, 32, 64], expected [1, 32, 128]"), "{error}");
    let error = speak(&[], &(wider.clone(), wider), &[], &mut bench).unwrap_err();
    assert!(error.to_string().contains("is no voice of an XTTS model"), "{error}");
}
