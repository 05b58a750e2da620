//! The clips of a training: a plan expects those that the training then has.

use serde_json::Value;
use throstle_tests::{Project, RanProgram};

use crate::project::{CLIPS, done};
use crate::{vits, xtts};

/// The clips that a plan expects for a training.
fn planned(demo: &Project, stage: &str) -> Value {
    let plan = demo.printed(&["plan", ".", "--json"]);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    plan["estimate"]["stages"][stage]["training"]["course"]["clips"].clone()
}

fn begun(ran: &RanProgram, stage: &str) -> Value {
    let started = ran.all("training-started").into_iter().find(|event| event["stage"] == stage);
    started.unwrap_or_else(|| panic!("{stage} was not trained"))["course"]["clips"].clone()
}

/// The clips of these trainings are known, and the trainings are not done.
fn assert_as_planned(demo: &Project, stages: &[&str]) {
    let expected: Vec<Value> = stages.iter().map(|stage| planned(demo, stage)).collect();
    let ran = RanProgram::of(demo.output(&[&["run", ".", "--json"], stages].concat()));
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    for (stage, expected) in stages.iter().zip(expected) {
        assert_eq!(begun(&ran, stage), expected, "{stage}");
        assert!(expected["held_out"].as_u64().unwrap() > 0, "{expected}");
    }
}

#[test]
fn a_plan_has_the_held_out_clips_of_every_training() {
    let tokens = done();
    tokens.replace("pipeline.toml", "learning_rate = 4e-3", "learning_rate = 3e-3");
    assert_as_planned(&tokens, &["trained", "adapted"]);
    let sounds = vits::variant();
    sounds.printed(&["run", ".", "spectrograms", "untrained"]);
    assert_as_planned(&sounds, &["trained"]);
    let references = xtts::variant();
    references.printed(&["run", ".", "tokens", "longer"]);
    assert_as_planned(&references, &["trained"]);
}

/// Chance holds out more than a tenth of these few clips, which a plan can know.
#[test]
fn a_plan_counts_a_clip_that_comes_twice_once_and_holds_out_by_content() {
    let demo = vits::variant();
    let row = demo.text("data/metadata.csv").lines().next().unwrap().to_owned();
    let (file, rest) = row.split_once('|').unwrap();
    demo.write("data/wavs/again.wav", demo.read(&format!("data/wavs/{file}")));
    demo.edit("data/metadata.csv", |text| format!("{}\nagain.wav|{rest}\n", text.trim_end()));
    demo.printed(&["run", ".", "spectrograms", "untrained"]);
    let clips = planned(&demo, "trained");
    let of = |name: &str| clips[name].as_u64().unwrap();
    assert_eq!((of("used") + of("held_out"), of("left_out")), (CLIPS, 1), "{clips}");
    assert_ne!(of("held_out"), (CLIPS as f64 * 0.1).round() as u64, "the test proves nothing");
    assert_as_planned(&demo, &["trained"]);
}
