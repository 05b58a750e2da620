//! Trainings of completed voices, and trainings without a discriminator.

use stage_core::{Output, PortOutput};
use stage_families::vits::tune::FINETUNE;

use super::super::trial::text;
use super::super::vits_tests::speak;
use super::*;
use crate::testing::wave_item;

/// Three steps of two clips, with segments of a tenth of a second.
fn written() -> Vec<(&'static str, ParameterValue)> {
    vec![
        ("steps", whole(3)),
        ("batch", whole(2)),
        ("learning_rate", ParameterValue::Number(1e-3)),
        ("segment", ParameterValue::Seconds(0.1)),
        ("validation_fraction", ParameterValue::Number(0.0)),
        ("preflight", ParameterValue::Flag(false)),
        ("take", text("last")),
    ]
}

fn clips(bench: &mut Bench) -> PortInput {
    let clip = |(number, text): (usize, &&str)| {
        let wave: Vec<f32> =
            (0..9_000).map(|at| 0.4 * ((0.05 + 0.01 * number as f32) * at as f32).sin()).collect();
        let mut item = wave_item(bench, number, 16_000, &wave);
        item.fields.set("text", Value::text(*text));
        item
    };
    let items = TEXTS.iter().enumerate().map(clip).collect();
    PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() }
}

/// The model, its figures, and the notes.
fn tune(
    more: Written,
    base: &Fields,
    bench: &mut Bench,
) -> (Fields, serde_json::Value, Vec<(String, u64)>) {
    one_thread();
    bench.checkpoints.clear();
    let ports = vec![("input", clips(bench)), ("base", artifact_of(base))];
    let written = [&written()[..], more].concat();
    let GatherOutput { mut ports, notes, .. } =
        gathered(&FINETUNE, &written, ports, bench).unwrap();
    let mut kept = |port: &str| match ports.remove(port) {
        Some(PortOutput::Artifact(values)) => bench.keep_all(Output { values, notes: Vec::new() }),
        _ => panic!("no `{port}`"),
    };
    let (model, log) = (kept("model"), kept("log"));
    let metrics = Context::read(bench, log.blob("metrics").unwrap()).unwrap();
    (model, serde_json::from_slice(&metrics).unwrap(), notes)
}

const NONE: (&str, &str) = ("discriminator", "none");

#[test]
fn a_completed_voice_is_trained_with_its_durations_as_they_are() {
    let mut bench = Bench::default();
    let base = voice(&[], &mut bench);
    let whole = complete(&[], &base, None, &mut bench).unwrap().remove("model").unwrap();
    for judge in ["auto", "none"] {
        let more =
            [("discriminator", text(judge)), ("preflight", ParameterValue::Flag(judge == "none"))];
        let (tuned, figures, notes) = tune(&more, &whole, &mut bench);
        let (before, after) = (contents(&whole), contents(&tuned));
        let is_duration = |name: &&String| name.starts_with("duration_predictor.");
        let durations = before.keys().filter(is_duration);
        assert!(durations.clone().count() > 0);
        assert!(durations.clone().all(|name| before[name] == after[name]));
        assert_eq!(after.keys().filter(is_duration).count(), durations.count());
        assert!(notes.iter().any(|(note, _)| note.starts_with("durations frozen: ")), "{notes:?}");
        let step = &figures["values"][0];
        assert!(step["loss/mel"].is_f64() && step["loss/duration"].is_null(), "{step}");
        let spoken = speak(&[], &[("model", &tuned)], &[sentence("sana")], &mut bench).unwrap();
        assert!(spoken[0].is_ok());
    }
}

#[test]
fn a_training_without_a_discriminator_has_no_trace_of_one() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let (tuned, figures, notes) = tune(&[(NONE.0, text(NONE.1))], &base, &mut bench);
    assert!(contents(&tuned).keys().all(|name| !name.starts_with("discriminator.")));
    assert!(notes.contains(&("discriminator: none".into(), 1)), "{notes:?}");
    let step = &figures["values"][0];
    for judged in ["adversarial", "features", "discriminator"] {
        assert!(step[format!("loss/{judged}")].is_null(), "{step}");
    }
    assert!(step["gradient_norm/discriminator"].is_null());
    assert!(step["gradient_norm/generator"].as_f64().is_some_and(|norm| norm > 0.0));
}

#[test]
fn losses_that_have_not_faded_in_move_nothing() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let without = tune(&[(NONE.0, text(NONE.1)), ("steps", whole(1))], &base, &mut bench).0;
    let with = |fade_in: i64, bench: &mut Bench| {
        let more = [("fade_in", whole(fade_in)), ("steps", whole(1))];
        let mut contents = contents(&tune(&more, &base, bench).0);
        contents.retain(|name, _| !name.starts_with("discriminator."));
        contents
    };
    let without = contents(&without);
    assert_eq!(with(100, &mut bench), without, "the first step has no share of them");
    assert_ne!(with(0, &mut bench), without);
}

#[test]
fn the_discriminator_has_a_rate_and_momentum_of_its_own() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let own = |bench: &mut Bench, more: Written| {
        let mut all = contents(&tune(&[&[("steps", whole(2))], more].concat(), &base, bench).0);
        all.retain(|name, _| name.starts_with("discriminator."));
        all
    };
    let rate = |rate: f64| ("discriminator_rate", ParameterValue::Number(rate));
    let usual = own(&mut bench, &[]);
    assert_eq!(own(&mut bench, &[rate(1e-3)]), usual, "that of the generator");
    assert_ne!(own(&mut bench, &[rate(5e-4)]), usual);
    let betas =
        ParameterValue::List(vec![ParameterValue::Number(0.5), ParameterValue::Number(0.9)]);
    assert_ne!(own(&mut bench, &[("discriminator_betas", betas)]), usual);
    let still = own(&mut bench, &[rate(0.0)]);
    let start = contents(&base);
    let biases = still.iter().filter(|(name, _)| name.ends_with(".bias"));
    assert!(biases.into_iter().all(|(name, digest)| start[name] == *digest));
}
