//! Speakers: names and numbers, and joining a model.

use super::super::vits_tests::{sentence, speak};
use super::*;
use crate::vits::artifact::VitsModel;

/// The clips, spoken by these speakers in turn.
fn spoken_by(names: &[&str], bench: &mut Bench) -> Vec<Item> {
    let mut items = clips(bench);
    for (item, name) in items.iter_mut().zip(names.iter().cycle()) {
        item.fields.set("speaker", Value::text(*name));
    }
    items
}

fn names(fields: &Fields) -> &str {
    fields.text(artifact::SPEAKERS).unwrap()
}

#[test]
fn speakers_get_numbers_in_the_order_of_their_names_whatever_the_order_of_the_clips() {
    let mut bench = Bench::default();
    let base = model(&[("speakers", whole(3))], &mut bench);
    let mut items = spoken_by(&["veikko", "aino"], &mut bench);
    let first = tune_on(items.clone(), &[], &[("base", &base)], &mut bench).unwrap();
    assert_eq!(names(&first["model"]), r#"["aino","veikko","nobody 2"]"#);
    items.reverse();
    assert_eq!(tune_on(items, &[], &[("base", &base)], &mut bench).unwrap(), first);
}

#[test]
fn a_continued_training_keeps_the_numbers_of_its_parent() {
    let mut bench = Bench::default();
    let base = model(&[("speakers", whole(2))], &mut bench);
    let mut items = spoken_by(&["veikko", "aino"], &mut bench);
    let parent = tune_on(items.clone(), &[], &[("base", &base)], &mut bench).unwrap();
    bench.parent = Some(parent["model"].clone());
    // Alone he would be the first by name.
    items.retain(|item| item.fields.text("speaker") == Some("veikko"));
    let next = tune_on(items, &[], &[("base", &base)], &mut bench).unwrap();
    assert_eq!(names(&next["model"]), names(&parent["model"]));
    assert_eq!(names(&parent["model"]), r#"["aino","veikko"]"#);
}

#[test]
fn speakers_are_optional_where_the_model_knows_one() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let mixed = "speakers, treated as one by the model";
    let mut items = clips(&mut bench);
    assert_eq!(notes(items.clone(), &[], &base, &mut bench).of(mixed), 0);
    items[0].fields.set("speaker", Value::text("aino"));
    items[1].fields.set("speaker", Value::text("veikko"));
    assert_eq!(notes(items, &[], &base, &mut bench).of(mixed), 2);
}

/// A model that names `aino` and `veikko`.
fn named(bench: &mut Bench) -> Fields {
    let mut base = model(&[("speakers", whole(2))], bench);
    base.set(artifact::SPEAKERS, Value::text(r#"["aino","veikko"]"#));
    base
}

fn joining() -> (&'static str, ParameterValue) {
    ("new_speakers", text("add"))
}

/// The rows of the speakers.
fn rows(model: &Fields, bench: &mut Bench) -> Vec<Vec<f32>> {
    let blob = model.blob(&artifact::tensor_field("embed_speaker.weight")).unwrap();
    let table = crate::stored::recall(blob, bench).unwrap();
    Vec::<Vec<f32>>::try_from(table).unwrap()
}

#[test]
fn speakers_whom_a_model_does_not_name_are_refused_unless_they_may_join() {
    let mut bench = Bench::default();
    let base = named(&mut bench);
    let items = spoken_by(&["eino", "veikko", "anni"], &mut bench);
    let (message, help) = refusal(tune_on(items, &[], &[("base", &base)], &mut bench));
    let expected = "the model has the speakers aino, veikko, but the clips have `anni`, `eino`";
    assert_eq!(message, expected);
    assert!(help.contains("`new_speakers = \"add\"`"), "{help}");
}

#[test]
fn whoever_joins_stands_behind_the_others_who_stay_as_they_are() {
    let mut bench = Bench::default();
    let base = named(&mut bench);
    let mut items = spoken_by(&["eino", "veikko", "anni"], &mut bench);
    let begun = |written: Written, items: &[Item], bench: &mut Bench| {
        let written = [&still()[..], &[joining()], written].concat();
        tune_on(items.to_vec(), &written, &[("base", &base)], bench).unwrap()
    };
    let ports = begun(&[], &items, &mut bench);
    assert_eq!(names(&ports["model"]), r#"["aino","veikko","anni","eino"]"#);
    let (before, after) = (rows(&base, &mut bench), rows(&ports["model"], &mut bench));
    assert_eq!(after[..2], before);
    assert!(after[2] != after[3] && !before.contains(&after[2]) && !before.contains(&after[3]));
    let made = VitsModel::read("model", Some(&ports["model"]), &mut bench).unwrap();
    assert_eq!(made.config.num_speakers, 4);
    items.reverse();
    assert_eq!(begun(&[], &items, &mut bench), ports, "whatever the order of the clips");
    let other = begun(&[("seed", whole(2))], &items, &mut bench);
    assert_ne!(rows(&other["model"], &mut bench)[2..], after[2..]);
    items.retain(|item| item.fields.text("speaker") != Some("anni"));
    let alone = begun(&[], &items, &mut bench);
    assert_eq!(rows(&alone["model"], &mut bench)[2], after[3], "a row follows from the name");
    let notes = notes(items, &[joining()], &base, &mut bench);
    assert_eq!(notes.of("speaker `eino` added to the model"), 1);
}

#[test]
fn who_has_joined_is_learnt_can_be_heard_and_survives_a_stop() {
    let mut bench = Bench::default();
    let base = named(&mut bench);
    let items = spoken_by(&["veikko", "eino"], &mut bench);
    let tune = |bench: &mut Bench| tune_on(items.clone(), &[joining()], &[("base", &base)], bench);
    let straight = tune(&mut bench).unwrap();
    let untrained = [&still()[..], &[joining()]].concat();
    let begun = tune_on(items.clone(), &untrained, &[("base", &base)], &mut bench).unwrap();
    let learnt = [&straight, &begun].map(|ports| rows(&ports["model"], &mut bench).remove(2));
    assert_ne!(learnt[0], learnt[1]);
    bench.checkpoints.clear();
    bench.stop_after = Some(4);
    assert_eq!(tune(&mut bench).unwrap_err(), StageError::Stopped);
    bench.stop_after = Some(1_000);
    assert_eq!(tune(&mut bench).unwrap(), straight);
    let trained = &straight["model"];
    let said = ["aino", "eino"].map(|name| {
        let speaker = ("speaker", text(name));
        let said = speak(&[speaker], &[("model", trained)], &[sentence("hei")], &mut bench);
        said.unwrap().remove(0).unwrap().blob("audio").unwrap().digest
    });
    assert_ne!(said[0], said[1]);
}

#[test]
fn more_join_a_model_that_others_have_joined() {
    let mut bench = Bench::default();
    let base = named(&mut bench);
    let items = spoken_by(&["veikko", "eino"], &mut bench);
    let parent = tune_on(items, &[joining()], &[("base", &base)], &mut bench).unwrap();
    bench.parent = Some(parent["model"].clone());
    let items = spoken_by(&["anni", "eino"], &mut bench);
    let written = [&still()[..], &[joining()]].concat();
    let next = tune_on(items, &written, &[("base", &base)], &mut bench).unwrap();
    assert_eq!(names(&next["model"]), r#"["aino","veikko","eino","anni"]"#);
    let of = |ports: &Ports, bench: &mut Bench| rows(&ports["model"], bench);
    assert_eq!(of(&next, &mut bench)[..3], of(&parent, &mut bench));
}
