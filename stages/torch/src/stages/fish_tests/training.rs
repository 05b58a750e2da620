//! Trainings that are stopped, checked before the start, and resumed.

use super::*;
use crate::lineage::digest;

#[test]
fn training_that_is_stopped_at_any_look_ends_with_the_same_outputs() {
    for kind in KINDS {
        let mut bench = Bench::default();
        let base = base(&mut bench);
        let straight = tune(kind, &[QUIET], &base, &mut bench).unwrap();
        let mut stops = 0;
        for looks in 0.. {
            bench.checkpoints.clear();
            bench.stop_after = Some(looks);
            match tune(kind, &[QUIET], &base, &mut bench) {
                Err(StageError::Stopped) => stops += 1,
                outputs => {
                    assert_eq!(outputs.unwrap(), straight);
                    break;
                }
            }
            bench.stop_after = None;
            assert_eq!(tune(kind, &[QUIET], &base, &mut bench).unwrap(), straight, "{looks}");
        }
        assert!(stops >= 4 * 3, "{stops}");
    }
}

#[test]
fn a_checkpoint_comes_with_the_step_that_it_is_of_however_seldom_steps_are_reported() {
    for kind in KINDS {
        let mut bench = Bench::default();
        let base = base(&mut bench);
        let seldom = [QUIET, ("report_every", whole(4)), ("validate_every", whole(4))];
        tune(kind, &seldom, &base, &mut bench).unwrap();
        assert_eq!(bench.saved_at, [(2, 4), (4, 4)]);
    }
}

#[test]
fn a_preflight_changes_nothing_in_what_comes_out() {
    for kind in KINDS {
        let mut bench = Bench::default();
        let base = base(&mut bench);
        let run = |flag: bool, bench: &mut Bench| {
            bench.checkpoints.clear();
            let written = [("preflight", ParameterValue::Flag(flag))];
            tune(kind, &written, &base, bench).unwrap()
        };
        assert_eq!(run(true, &mut bench), run(false, &mut bench));
        assert!(bench.metrics.iter().any(|(_, values)| values.contains_key("preflight/loss")));
    }
}

/// One step with learning rate zero: the result is the start of training.
fn still() -> Vec<(&'static str, ParameterValue)> {
    let still = ("learning_rate", ParameterValue::Number(0.0));
    vec![
        QUIET,
        ("steps", whole(1)),
        ("validate_every", whole(1)),
        ("save_every", whole(1)),
        still,
        ("take", text("last")),
    ]
}

#[test]
fn a_continued_training_begins_with_what_its_parent_has_learnt() {
    for kind in KINDS {
        let mut bench = Bench::default();
        let base = base(&mut bench);
        let parent = learnt(tune(kind, &[QUIET], &base, &mut bench).unwrap());
        bench.checkpoints.clear();
        let anew = learnt(tune(kind, &still(), &base, &mut bench).unwrap());
        assert_ne!(contents(&anew), contents(&parent));
        bench.checkpoints.clear();
        bench.parent = Some(parent.clone());
        let continued = learnt(tune(kind, &still(), &base, &mut bench).unwrap());
        assert_eq!(contents(&continued), contents(&parent), "{}", kind.name);
        assert_eq!(lineage_of(&continued)["parent"], digest(&parent).to_string());
        assert!(lineage_of(&anew).get("parent").is_none_or(serde_json::Value::is_null));
    }
}

#[test]
fn adapters_go_on_from_adapters_of_the_same_base_only() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let first = learnt(tune(&fish::LORA, &[QUIET], &base, &mut bench).unwrap());
    bench.checkpoints.clear();
    let other = learnt(tune(&fish::FINETUNE, &[QUIET], &base, &mut bench).unwrap());
    let mut go_on = |base: &Fields| {
        bench.checkpoints.clear();
        let ports = vec![
            ("input", clips(&mut bench, 3)),
            ("base", artifact_of(base)),
            ("adapters", artifact_of(&first)),
        ];
        gather(&fish::LORA, &[quick(), still()].concat(), ports, &mut bench)
    };
    let second = learnt(go_on(&base).unwrap());
    assert_eq!(contents(&second), contents(&first));
    assert_eq!(lineage_of(&second)["parent"], digest(&first).to_string());
    let (message, _) = refusal(go_on(&other));
    assert!(message.starts_with("the adapters were trained on the model "), "{message}");
}

#[test]
fn what_is_computed_in_bf16_begins_with_the_f32_values() {
    let written = [still(), vec![("precision", text("bf16"))]].concat();
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let model = learnt(tune(&fish::FINETUNE, &written, &base, &mut bench).unwrap());
    assert_eq!(contents(&model), contents(&base));
    bench.checkpoints.clear();
    let adapters = learnt(tune(&fish::LORA, &[QUIET], &base, &mut bench).unwrap());
    bench.checkpoints.clear();
    bench.parent = Some(adapters.clone());
    let continued = learnt(tune(&fish::LORA, &written, &base, &mut bench).unwrap());
    assert_eq!(contents(&continued), contents(&adapters));
}
