//! Trainings that are stopped, checked before the start, and resumed.

use stage_core::Output;
use stage_core::course::Timetable;
use stage_core::device::{DeviceId, DeviceName};

use super::super::trial::parameters;
use super::super::vits_tests::{sentence, speak};
use super::*;
use crate::lineage::digest;
use crate::train::order::Grouping;
use crate::train::plan::TrainingPlan;
use crate::train::precision::DeviceFacts;
use crate::train::settings::Checkpoints;

#[test]
fn training_that_is_stopped_at_any_look_ends_with_the_same_outputs() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let short = [("steps", whole(3)), ("save_every", whole(1))];
    let straight = tune(&short, &base, &mut bench).unwrap();
    // Before each step and each of the two batches of its first phase; the last question is not
    // enough.
    for looks in (0..3 * 3).step_by(2) {
        bench.checkpoints.clear();
        bench.stop_after = Some(looks);
        let stopped = tune(&short, &base, &mut bench);
        assert_eq!(stopped.unwrap_err(), StageError::Stopped);
        // Enough for the rest.
        bench.stop_after = Some(1_000);
        assert_eq!(tune(&short, &base, &mut bench).unwrap(), straight, "{looks}");
    }
}

#[test]
fn checkpoints_follow_the_time_alone_unless_the_manifest_counts_steps() {
    let checkpoints = |written| {
        let parameters = parameters(&FINETUNE, written);
        let cpu =
            |device: DeviceId| DeviceFacts { name: device.to_string(), compute_capability: None };
        let table = Timetable::of(&parameters, 100_000).unwrap();
        let plan = TrainingPlan::read(&parameters, DeviceId::Cpu, cpu).unwrap();
        plan.settings(Grouping::Buckets { length: 1, rows: 1 }, &table).unwrap().checkpoint
    };
    let seconds = Some(600.0);
    assert_eq!(checkpoints(&[]), Checkpoints { steps: None, seconds });
    assert_eq!(
        checkpoints(&[("save_every", whole(500))]),
        Checkpoints { steps: Some(500), seconds }
    );
}

#[test]
fn a_preflight_changes_nothing_in_what_comes_out() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let without = tune(&[], &base, &mut bench).unwrap();
    assert_eq!(tune(&[PREFLIGHT], &base, &mut bench).unwrap(), without);
    let mel = bench.metrics.iter().find_map(|(_, values)| values.get("preflight/mel"));
    assert!(mel.is_some_and(|mel| *mel > 0.0));
}

#[test]
fn a_continued_training_begins_with_both_nets_of_its_parent() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let parent = tune(&[], &base, &mut bench).unwrap().remove("model").unwrap();
    let anew = tune(&still(), &base, &mut bench).unwrap().remove("model").unwrap();
    assert_ne!(contents(&anew), contents(&parent));
    bench.parent = Some(parent.clone());
    let ports = tune(&still(), &base, &mut bench).unwrap();
    assert_eq!(contents(&ports["model"]), contents(&parent));
    assert_eq!(log(&ports, &mut bench)["discriminator"], "parent");
    let lineage = ports["model"].text(artifact::LINEAGE).unwrap();
    let lineage: serde_json::Value = serde_json::from_str(lineage).unwrap();
    assert_eq!(lineage["parent"], digest(&parent).to_string());
    assert_eq!(lineage["made_by"], "vits.finetune");
}

#[test]
fn what_was_trained_speaks_and_so_does_each_checkpoint() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let written = [&quick()[..], &[("keep", whole(2))]].concat();
    let ports = vec![("input", dataset(clips(&mut bench))), ("base", artifact_of(&base))];
    one_thread();
    let mut output = gathered(&FINETUNE, &written, ports, &mut bench).unwrap();
    let Some(PortOutput::Dataset(kept)) = output.ports.remove("checkpoints") else { panic!() };
    let Some(PortOutput::Artifact(values)) = output.ports.remove("model") else { panic!() };
    let trained = bench.keep_all(Output { values, notes: Vec::new() });
    let said = speak(&[], &[("model", &trained)], &[sentence("hei")], &mut bench).unwrap();
    let heard = said[0].as_ref().unwrap().blob("audio").unwrap();
    let of_base = speak(&[], &[("model", &base)], &[sentence("hei")], &mut bench).unwrap();
    assert_ne!(heard, of_base[0].as_ref().unwrap().blob("audio").unwrap());
    assert_eq!(kept.iter().map(|item| &*item.id).max(), Some("step-4"));
    let items: Vec<Item> = kept
        .into_iter()
        .map(|item| {
            let fields = bench.keep_all(Output { values: item.values, notes: Vec::new() });
            let mut pair = sentence("hei");
            pair.fields.set("weights", fields.get("weights").unwrap().clone());
            pair
        })
        .collect();
    let spoken = speak(&[], &[], &items, &mut bench).unwrap();
    assert!(spoken.iter().any(|said| said.as_ref().unwrap().blob("audio") == Some(heard)));
}

#[test]
fn the_result_is_whole_and_named_as_in_transformers() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let freeze = ParameterValue::List(vec![text("text_encoder.*"), text("decoder.conv_pre.*")]);
    let ports = tune(&[("freeze", freeze)], &base, &mut bench).unwrap();
    let (before, after) = (contents(&base), contents(&ports["model"]));
    let mut moved = 0;
    for (name, digest) in &before {
        match after.get(name) {
            Some(own) => {
                let is_frozen =
                    name.starts_with("text_encoder.") || name.starts_with("decoder.conv_pre.");
                if is_frozen {
                    assert_eq!(own, digest, "{name}");
                }
                moved += usize::from(own != digest);
            }
            None => assert!(after.contains_key(&name.replace("weight", "weight_v")), "{name}"),
        }
    }
    assert!(moved > 50, "{moved}");
    assert_eq!(ports["model"].text(artifact::FAMILY), Some(artifact::VITS));
    assert_eq!(ports["model"].get(artifact::CONFIG), base.get(artifact::CONFIG));
}

#[test]
fn the_figures_have_the_names_of_the_original_in_tensorboard() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let ports = tune(&[], &base, &mut bench).unwrap();
    let events = Context::read(&mut bench, ports["log"].blob("events").unwrap()).unwrap();
    for tag in ["loss/g/total", "loss/g/mel", "loss/d/total", "grad_norm_d", "learning_rate"] {
        assert!(events.windows(tag.len()).any(|own| own == tag.as_bytes()), "{tag}");
    }
}

#[test]
fn the_log_shows_and_plays_held_out_clips_before_and_after() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let ports = tune(&[], &base, &mut bench).unwrap();
    let events = Context::read(&mut bench, ports["log"].blob("events").unwrap()).unwrap();
    let count = |part: &[u8]| events.windows(part.len()).filter(|window| *window == part).count();
    // At each of three validations: the base, the middle and the end.
    let pictures = ["slice/mel_org", "slice/mel_gen", "all/mel", "all/attn"];
    for tag in pictures.into_iter().chain(["full_generation_sample0"]) {
        assert_eq!(count(tag.as_bytes()), 3, "{tag}");
    }
    let held_out = log(&ports, &mut bench)["values"][0]["held_out"].is_number();
    assert!(held_out, "nothing to show");
    assert_eq!(count(b"\x89PNG"), 3 * pictures.len());
    assert_eq!(count(b"RIFF"), count(b"full_generation_sample"));
    let none = ("validation_fraction", ParameterValue::Number(0.0));
    let ports = tune(&[none], &base, &mut bench).unwrap();
    let events = Context::read(&mut bench, ports["log"].blob("events").unwrap()).unwrap();
    assert!(!events.windows(4).any(|window| window == b"\x89PNG"));
}

#[test]
fn the_rate_falls_after_each_pass_over_the_clips() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    // Six clips, two per step, none held out: three steps per pass. The first step has the full
    // rate.
    let written = [
        ("steps", whole(7)),
        ("validation_fraction", ParameterValue::Number(0.0)),
        ("rate_decay", ParameterValue::Number(0.5)),
    ];
    let ports = tune(&written, &base, &mut bench).unwrap();
    let log = log(&ports, &mut bench);
    let rates = log["values"].as_array().unwrap().iter().filter_map(|one| one["rate"].as_f64());
    let rates: Vec<f64> = rates.map(|rate| rate * 1e3).collect();
    let expected = [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25];
    assert!(rates.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-9), "{rates:?}");
    assert_eq!(rates.len(), 7);
}

#[test]
fn a_base_that_was_trained_and_is_silent_is_refused() {
    let mut bench = Bench::default();
    let mut base = model(&[], &mut bench);
    base.remove(artifact::LINEAGE);
    let name = artifact::tensor_field("decoder.conv_post.weight");
    let weight = crate::stored::recall(base.blob(&name).unwrap(), &mut bench).unwrap();
    let silent = crate::stored::keep(&weight.zeros_like(), &mut bench).unwrap();
    base.set(name, Value::Blob(silent.into()));
    let (message, help) = refusal(tune(&[PREFLIGHT], &base, &mut bench));
    assert!(message.starts_with("the base is silent: its audio has a level of 0"), "{message}");
    assert!(help.contains("import the published files again"), "{help}");
}

#[test]
fn a_model_of_another_family_is_refused() {
    let mut bench = Bench::default();
    let mut base = model(&[], &mut bench);
    base.set(artifact::FAMILY, Value::text(artifact::DAC));
    let (message, _) = refusal(tune(&[], &base, &mut bench));
    assert!(message.contains("the artifact on port `base` is no VITS model"), "{message}");
}

#[test]
fn two_devices_learn_what_one_learns() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let mut loss = |devices: usize| {
        let devices = ParameterValue::List(vec![ParameterValue::Device(DeviceName::CPU); devices]);
        let ports = tune(&[("devices", devices)], &base, &mut bench).unwrap();
        log(&ports, &mut bench)["held_out"].as_f64().unwrap()
    };
    let (one, two) = (loss(1), loss(2));
    assert!((one - two).abs() < 1e-3 * one, "{one} {two}");
}

#[test]
fn a_training_of_which_every_step_was_skipped_is_no_result() {
    let mut bench = Bench::default();
    let mut base = model(&[], &mut bench);
    let name = artifact::tensor_field("duration_predictor.flows.0.log_scale");
    let scale = crate::stored::recall(base.blob(&name).unwrap(), &mut bench).unwrap();
    let sick = crate::stored::keep(&scale.full_like(1e30), &mut bench).unwrap();
    base.set(name, Value::Blob(sick.into()));
    let (message, help) = refusal(tune(&[], &base, &mut bench));
    let expected = "all 4 steps were skipped, since losses or gradients were not finite in f32: \
                    nothing was learned, and the weights are the initial ones";
    assert_eq!(message, expected);
    assert!(help.contains("another base"), "{help}");
}

#[test]
fn a_schedule_that_cannot_act_is_refused_and_one_that_can_is_told() {
    let mut bench = Bench::default();
    let base = model(&[], &mut bench);
    let none = [("validation_fraction", ParameterValue::Number(0.0)), ("patience", whole(1))];
    let (message, _) = refusal(tune(&none, &base, &mut bench));
    assert_eq!(message, "`patience` needs held-out losses, but no clips are held out");
    assert!(bench.courses.is_empty() && bench.metrics.is_empty());
    tune(&[("max_seconds", ParameterValue::Seconds(20.0))], &base, &mut bench).unwrap();
    let course = &bench.courses[0];
    assert_eq!((course.timetable.steps, course.rows_of_step, course.clips.left_out), (4, 2, 0));
    assert_eq!(course.rows_of_pass, course.clips.used as f64);
}
