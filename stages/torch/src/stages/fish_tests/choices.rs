//! The effects of the parameters of a training.

use super::*;
use crate::stored;
use stage_core::device::DeviceName;

fn tuned(kind: &'static Kind, more: Written) -> (Ports, Bench) {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let ports = tune(kind, &[&[QUIET], more].concat(), &base, &mut bench).unwrap();
    (ports, bench)
}

/// The log of a training, as JSON.
fn log(ports: &Ports, bench: &mut Bench) -> serde_json::Value {
    let blob = ports["log"].blob("metrics").unwrap();
    serde_json::from_slice(&Context::read(bench, blob).unwrap()).unwrap()
}

/// The loss of the first step, before any update.
fn first_loss(kind: &'static Kind, more: Written) -> f64 {
    let (ports, mut bench) = tuned(kind, more);
    let log = log(&ports, &mut bench);
    let mut losses =
        log["values"].as_array().unwrap().iter().filter_map(|one| one["loss"].as_f64());
    losses.next().unwrap()
}

/// The largest difference between two sets of the same tensors.
fn worst(one: (&Fields, &mut Bench), other: (&Fields, &mut Bench)) -> f64 {
    let one = stored::weights(one.0, one.1).unwrap().into_iter();
    let other = stored::weights(other.0, other.1).unwrap();
    let other: BTreeMap<String, tch::Tensor> = other.into_iter().collect();
    let far = |(name, tensor): (String, tch::Tensor)| {
        (tensor - &other[&name]).abs().max().double_value(&[])
    };
    one.map(far).fold(0.0, f64::max)
}

#[test]
fn two_devices_learn_what_one_learns_in_as_many_batches() {
    let devices = |count| {
        let devices = vec![ParameterValue::Device(DeviceName::CPU); count];
        [("accumulation", whole(4)), ("devices", ParameterValue::List(devices))]
    };
    for kind in KINDS {
        // Dropout masks belong to the batch, on any device.
        let (one, mut one_bench) = tuned(kind, &devices(1));
        let (two, mut two_bench) = tuned(kind, &devices(2));
        let (one, two) = (learnt(one), learnt(two));
        let worst = worst((&one, &mut one_bench), (&two, &mut two_bench));
        assert!(worst < 1e-5, "{}: {worst}", kind.name);
    }
}

#[test]
fn a_training_on_two_devices_goes_on_on_one() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let two = (
        "devices",
        ParameterValue::List(vec![
            ParameterValue::Device(DeviceName::CPU),
            ParameterValue::Device(DeviceName::CPU),
        ]),
    );
    bench.stop_after = Some(5);
    let stopped = tune(&fish::FINETUNE, &[QUIET, two], &base, &mut bench);
    assert_eq!(stopped.unwrap_err(), StageError::Stopped);
    bench.stop_after = None;
    let resumed = learnt(tune(&fish::FINETUNE, &[QUIET], &base, &mut bench).unwrap());
    let (straight, mut other) = tuned(&fish::FINETUNE, &[]);
    let worst = worst((&resumed, &mut bench), (&learnt(straight), &mut other));
    assert!(worst < 1e-5, "{worst}");
}

#[test]
fn epochs_are_as_many_steps_as_it_takes_to_see_each_clip_so_often() {
    let written = [("steps", ParameterValue::Absent), ("epochs", ParameterValue::Number(3.0))];
    let (ports, mut bench) = tuned(&fish::FINETUNE, &written);
    let log = log(&ports, &mut bench);
    let (steps, passes) = (log["steps"].as_u64().unwrap(), log["passes"].as_f64().unwrap());
    // One step less would not have been enough.
    let a_step = passes / steps as f64;
    assert!(passes >= 3.0 && passes - a_step < 3.0, "{steps} steps, {passes} passes");
}

#[test]
fn the_format_of_prompts_is_that_of_the_parameter() {
    for kind in KINDS {
        let interleave = first_loss(kind, &[]);
        let speak_out = first_loss(kind, &[("prompt_format", text("speak_out"))]);
        assert_ne!(interleave, speak_out, "{}", kind.name);
    }
}

#[test]
fn every_precision_begins_with_nearly_the_same_loss() {
    for kind in KINDS {
        let exact = first_loss(kind, &[("precision", text("f32"))]);
        for precision in ["bf16", "fp16"] {
            let rounded = first_loss(kind, &[("precision", text(precision))]);
            assert!((rounded - exact).abs() < 0.01 * exact, "{precision}: {rounded} {exact}");
            assert_ne!(rounded, exact, "{precision}");
        }
    }
}

#[test]
fn parity_with_upstream_trains_as_if_the_model_did_not_scale() {
    let upstream = [("parity", text("upstream"))];
    for kind in KINDS {
        let (ports, mut bench) = tuned(kind, &upstream);
        let mut bare = Bench::default();
        let scaled = base(&mut bare);
        let unscaled = edited(&scaled, artifact::CONFIG, &mut bare, |text| {
            text.replace(
                "\"scale_codebook_embeddings\": true",
                "\"scale_codebook_embeddings\": false",
            )
        });
        let other = tune(kind, &[QUIET], &unscaled, &mut bare).unwrap();
        assert_eq!(log(&ports, &mut bench), log(&other, &mut bare));
        assert_eq!(contents(&learnt(ports)), contents(&learnt(other)));
        assert_ne!(first_loss(kind, &upstream), first_loss(kind, &[]));
    }
}
