//! The selection of training clips, and the reasons why others are quarantined.

use super::*;
use crate::train::notes::Notes;

fn notes(items: Vec<Item>, more: Written, base: &Fields, bench: &mut Bench) -> Notes {
    one_thread();
    bench.checkpoints.clear();
    let dataset = PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() };
    let ports = vec![("input", dataset), ("base", artifact_of(base))];
    let written = [&quick()[..], more].concat();
    Notes(gathered(&FINETUNE, &written, ports, bench).unwrap().notes)
}

fn with(mut item: Item, field: &str, value: &str) -> Item {
    item.fields.set(field, Value::text(value));
    item
}

#[test]
fn clips_that_cannot_be_learned_from_are_listed_with_reasons_and_replaced_by_none() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let mut items = clips(&mut bench);
    items.push(clip_of(&mut bench, 10, 11_000));
    items.push(clip_of(&mut bench, 11, 12 * 22_050));
    items.push(with(clip(&mut bench, 12), "text", &"sana ".repeat(60)));
    items.push(with(clip(&mut bench, 13), "text", "ሰላም"));
    items.push(with(clip(&mut bench, 14), "language", "am"));
    let wave = vec![0.1; 12_000];
    let mut slow = wave_item(&mut bench, 15, 16_000, &wave);
    for field in ["text", "tokens", "language"] {
        slow.fields.set(field, items[0].fields.get(field).unwrap().clone());
    }
    items.push(slow);
    let notes = notes(items, &[], &base, &mut bench);
    let codes: Vec<(usize, &str)> =
        bench.aside.iter().map(|(_, place, reject)| (*place, &*reject.code)).collect();
    let expected = [
        (6, "too-short"),
        (7, "too-long"),
        (8, "text-too-long"),
        (9, "unknown-characters"),
        (10, "unknown-language"),
        (11, "rate"),
    ];
    assert_eq!(codes, expected);
    assert_eq!(notes.of("clips trained on") + notes.of("clips held out"), 6);
    assert_eq!((notes.of("clips in `en`"), notes.of("clips in `fr`")), (4, 2));
}

#[test]
fn a_clip_without_a_language_takes_that_of_the_stage_or_stops_the_training() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let mut items = clips(&mut bench);
    for item in &mut items {
        let fields = item.fields.iter().filter(|(name, _)| ***name != *"language");
        item.fields = fields.map(|(name, value)| (name.to_string(), value.clone())).collect();
    }
    let error = tune_on(&FINETUNE, items.clone(), &[], &base, &mut bench).unwrap_err();
    assert_eq!(error.to_string(), "a clip has no language");
    let notes = notes(items, &[("language", text("en-GB"))], &base, &mut bench);
    assert_eq!(notes.of("clips in `en`"), 6);
}

#[test]
fn tokens_of_other_audio_or_of_another_codec_are_refused() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let mut items = clips(&mut bench);
    let other = items[5].fields.get("tokens").unwrap().clone();
    items[0].fields.set("tokens", other);
    let error = tune_on(&FINETUNE, items, &[], &base, &mut bench).unwrap_err().to_string();
    let expected = "the clip with the text `sana` does not fit the model: its tokens have 1 \
                    codebooks of 18 codes, but its audio needs one of 12";
    assert_eq!(error, expected);
    let mut items = clips(&mut bench);
    let codes = Codes { codebooks: 1, frames: 12, values: vec![32; 12] };
    let tokens = bench.keep(npy::KIND, &npy::write(&codes).unwrap());
    items[0].fields.set("tokens", Value::Blob(tokens.into()));
    let error = tune_on(&FINETUNE, items, &[], &base, &mut bench).unwrap_err().to_string();
    assert!(error.ends_with("its tokens have the code 32, but the model has 32 codes"), "{error}");
}

#[test]
fn the_order_of_clips_and_their_names_change_nothing() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let items = clips(&mut bench);
    let one = tune_on(&FINETUNE, items.clone(), &[], &base, &mut bench).unwrap();
    let renamed = items.into_iter().rev().enumerate();
    let renamed = renamed.map(|(at, item)| Item::new(format!("other{at}"), item.fields)).collect();
    assert_eq!(tune_on(&FINETUNE, renamed, &[], &base, &mut bench).unwrap(), one);
}
