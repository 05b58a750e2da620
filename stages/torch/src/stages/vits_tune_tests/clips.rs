//! The selection of training clips, and the reports on the others.

use super::*;
use crate::vits::{Analysis, mel_processing};

fn with_text(mut item: Item, text: &str) -> Item {
    item.fields.set("text", Value::text(text));
    item
}

#[test]
fn clips_that_cannot_be_learnt_from_are_set_aside_with_their_reasons() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let mut items = clips(&mut bench);
    let clip = |bench: &mut Bench, text: &str| with_text(clip(bench, 7), text);
    items.push(clip(&mut bench, "huone 12"));
    items.push(clip(&mut bench, "σ!"));
    items.push(clip(&mut bench, "!?"));
    items.push(clip(&mut bench, "niin, niin!"));
    items.push(clip(&mut bench, "pitkä teksti, jolle ei ole puoliakaan kehyksiä tässä"));
    items.push(with_text(wave_item(&mut bench, 8, RATE, &wave(0)[..1_300]), "hei"));
    items.push(with_text(wave_item(&mut bench, 9, RATE, &vec![0.1; 21 * RATE as usize]), "hei"));
    items.push(items[0].clone());
    let notes = notes(items, &[], &base, &mut bench);
    for (what, count) in [
        ("marks without a symbol in the model, dropped from texts", 3),
        ("duplicate clips, left out", 1),
    ] {
        assert_eq!(notes.of(what), count, "{what}: {notes:?}");
    }
    assert_eq!(notes.of("clips trained on") + notes.of("clips held out"), 7);
    let aside: Vec<(&str, usize, &str)> = bench
        .aside
        .iter()
        .map(|(port, place, reject)| (port.as_str(), *place, reject.code.as_str()))
        .collect();
    assert_eq!(
        aside,
        [
            ("input", 6, "unknown-letters"),
            ("input", 7, "unknown"),
            ("input", 8, "unknown"),
            ("input", 10, "too-much-text"),
            ("input", 11, "too-short"),
            ("input", 12, "too-long"),
        ]
    );
    let reasons: Vec<&str> =
        bench.aside.iter().map(|(_, _, reject)| reject.reason.as_str()).collect();
    assert!(reasons[0].contains("`1`, `2`"), "{reasons:?}");
    assert!(reasons[5].contains(" s are longer than `max_seconds` = 20 s"), "{reasons:?}");
}

#[test]
fn nothing_is_trained_when_too_many_clips_are_set_aside() {
    let mut bench = Bench::default();
    bench.allows_none = true;
    let base = model(&[], &mut bench);
    let mut items = clips(&mut bench);
    items.push(with_text(clip(&mut bench, 7), "huone 12"));
    let (message, _) = refusal(tune_on(items, &[], &[("base", &base)], &mut bench));
    assert_eq!(message, "none may be set aside");
    assert_eq!((bench.metrics.len(), bench.checkpoints.len()), (0, 0));
}

#[test]
fn texts_that_were_to_be_romanised_are_set_aside() {
    let mut bench = Bench::default();
    let mut base = model(&[], &mut bench);
    let rules = br#"{"phonemize": false, "is_uroman": true}"#;
    let blob = bench.keep(artifact::TOKENIZER_KIND, rules);
    base.set(artifact::TOKENIZER_CONFIG, Value::Blob(blob.into()));
    let mut items = clips(&mut bench);
    items.push(with_text(clip(&mut bench, 7), "hyvä"));
    let notes = notes(items, &[], &base, &mut bench);
    let codes: Vec<&str> = bench.aside.iter().map(|(_, _, reject)| &*reject.code).collect();
    assert_eq!(codes, ["uroman"]);
    assert_eq!(notes.of("clips trained on") + notes.of("clips held out"), 6);
}

#[test]
fn a_training_without_clips_is_refused() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let items = vec![with_text(clip(&mut bench, 1), "123")];
    let (message, _) = refusal(tune_on(items, &[], &[("base", &base)], &mut bench));
    assert!(message.starts_with("there are no clips to train on"), "{message}");
    assert_eq!(bench.aside.len(), 1);
}

#[test]
fn audio_at_another_rate_is_refused_with_advice() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let items = vec![with_text(wave_item(&mut bench, 0, 22_050, &wave(0)), "hei")];
    let (message, _) = refusal(tune_on(items, &[], &[("base", &base)], &mut bench));
    let expected = "the clip with the text `hei` does not fit the model: its audio has 22050 Hz, \
                    but the model needs 16000 Hz; put `audio.resample` with `rate = 16000` before \
                    this stage";
    assert_eq!(message, expected);
}

#[test]
fn spectrograms_that_were_computed_before_change_nothing_and_others_are_refused() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let computed = tune(&[], &base, &mut bench).unwrap();
    let read = crate::vits::artifact::VitsModel::read("base", Some(&base), &mut bench);
    let config = read.unwrap().config;
    let analysis = Analysis::new(&config, 80, tch::Device::Cpu).unwrap();
    let mut items = clips(&mut bench);
    for item in &mut items {
        let bytes = Context::read(&mut bench, item.fields.blob("audio").unwrap()).unwrap();
        let samples = crate::sound::wave::read(&bytes).unwrap().samples;
        let whole = samples.len() as i64 / config.hop() * config.hop();
        let wave = tch::Tensor::from_slice(&samples).narrow(0, 0, whole).unsqueeze(0);
        let linear = analysis.linear(&wave).unwrap().squeeze_dim(0);
        let blob = bench.keep(mel_processing::KIND, &mel_processing::write(&linear).unwrap());
        item.fields.set("spectrogram", Value::Blob(blob.into()));
    }
    let given = tune_on(items.clone(), &[], &[("base", &base)], &mut bench).unwrap();
    assert_eq!(given, computed);
    let other = items[5].fields.get("spectrogram").unwrap().clone();
    items[0].fields.set("spectrogram", other);
    let (message, _) = refusal(tune_on(items, &[], &[("base", &base)], &mut bench));
    assert!(message.ends_with("it belongs to other audio"), "{message}");
}
