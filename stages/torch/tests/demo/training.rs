//! The training phases when they are longer, stopped or changed.

use throstle_tests::RanProgram;

use crate::project::{TRAINED, done};

const MANIFEST: &str = "pipeline.toml";

/// The held-out losses of a stage, by step.
fn held_out(ran: &RanProgram, stage: &str) -> Vec<(u64, f64)> {
    let told = ran.all("metrics").into_iter().filter(|event| event["stage"] == stage);
    let loss = |event: &serde_json::Value| {
        Some((event["step"].as_u64()?, event["values"]["held_out"].as_f64()?))
    };
    told.filter_map(loss).collect()
}

#[test]
fn the_loss_on_clips_that_are_held_out_falls() {
    let demo = done();
    demo.replace(MANIFEST, TRAINED, "steps = 25");
    let ran = demo.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    let losses = held_out(&ran, "trained");
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    assert_eq!((first.0, last.0), (0, 25));
    assert!(last.1 < 0.8 * first.1, "{losses:?}");
}

#[test]
fn another_learning_rate_trains_anew_and_what_is_above_stays() {
    let demo = done();
    demo.replace(MANIFEST, "learning_rate = 4e-3", "learning_rate = 3e-3");
    let why = demo.why(&["trained"]);
    assert!(why.contains("parameter `learning_rate` changed from 0.004 to 0.003"), "{why}");
    let ran = demo.run();
    let expected = [("adapted", 1), ("merged", 1), ("spoken_sentences", 3), ("trained", 1)];
    assert_eq!(ran.executed(), expected.into());
}

#[test]
fn how_often_it_is_saved_is_no_change() {
    let demo = done();
    demo.replace(MANIFEST, "save_every = \"50%\"", "save_every = 1");
    demo.run().assert_nothing_done();
}
