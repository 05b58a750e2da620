//! Trainings that are stopped, distributed, partial at first, and checked before the start.

use stage_core::PortOutput;
use stage_core::device::DeviceName;
use stage_families::import::CONFIG_FILE;
use stage_families::xtts::SPEAKERS_FILE;

use super::*;

#[test]
fn training_that_is_stopped_at_any_look_ends_with_the_same_outputs() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let straight = tune(&[], &base, &mut bench).unwrap();
    let mut stops = 0;
    for looks in 0.. {
        bench.checkpoints.clear();
        bench.stop_after = Some(looks);
        match tune(&[], &base, &mut bench) {
            Err(StageError::Stopped) => stops += 1,
            outputs => {
                assert_eq!(outputs.unwrap(), straight);
                break;
            }
        }
        bench.stop_after = Some(1_000);
        assert_eq!(tune(&[], &base, &mut bench).unwrap(), straight, "{looks}");
    }
    assert!(stops >= 6, "{stops}");
}

#[test]
fn ten_stops_in_a_row_change_nothing() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let ten = [("steps", whole(10)), ("dropout", ParameterValue::Number(0.2))];
    let straight = tune(&ten, &base, &mut bench).unwrap();
    bench.checkpoints.clear();
    let mut stops = 0;
    let resumed = loop {
        // Each run makes one step.
        bench.stop_after = Some(4);
        match tune(&ten, &base, &mut bench) {
            Err(StageError::Stopped) => stops += 1,
            outputs => break outputs.unwrap(),
        }
        assert!(stops < 100);
    };
    assert!(stops >= 4, "{stops}");
    assert_eq!(resumed, straight);
}

/// The weights after a training whose steps follow the size of a gradient. With the usual epsilon a
/// gradient that is zero but for rounding, such as that of the bias of keys, makes as large a step
/// as any other.
fn trained_by_size(more: Written) -> Vec<(String, tch::Tensor)> {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let by_size = [
        ("epsilon", ParameterValue::Number(1.0)),
        ("learning_rate", ParameterValue::Number(0.1)),
        ("accumulation", whole(4)),
        ("take", text("last")),
    ];
    let written = [&by_size[..], more].concat();
    let model = tune(&written, &base, &mut bench).unwrap().remove("model").unwrap();
    let before = stored::weights(&base, &mut bench).unwrap();
    let after = stored::weights(&model, &mut bench).unwrap();
    let far = |name: &str| {
        let (one, other) = (after.get(name).unwrap(), before.get(name).unwrap());
        (one - other).abs().max().double_value(&[])
    };
    assert!(moved(&model, &base).iter().any(|name| far(name) > 1e-3));
    after.iter().map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone())).collect()
}

fn assert_same_but_for_rounding(one: &[(String, tch::Tensor)], other: &[(String, tch::Tensor)]) {
    assert_eq!(one.len(), other.len());
    for ((name, one), (_, other)) in one.iter().zip(other).filter(|(one, _)| one.1.numel() > 0) {
        let far = (one - other).abs().max().double_value(&[]);
        assert!(far < 1e-5, "{name}: {far}");
    }
}

#[test]
fn two_devices_learn_what_one_learns_in_twice_the_batches() {
    let two = ("devices", ParameterValue::List(vec![ParameterValue::Device(DeviceName::CPU); 2]));
    assert_same_but_for_rounding(&trained_by_size(&[]), &trained_by_size(&[two]));
}

/// The key of a training does not contain it.
#[test]
fn recomputed_blocks_learn_the_same_to_the_bit() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let mut trained = |kind, packing, checkpointing| {
        let items = clips(&mut bench);
        let written = [
            ("steps", whole(6)),
            ("batch", whole(2)),
            ("dropout", ParameterValue::Number(0.2)),
            ("packing", ParameterValue::Flag(packing)),
            ("gradient_checkpointing", ParameterValue::Flag(checkpointing)),
        ];
        tune_on(kind, items, &written, &base, &mut bench).unwrap()
    };
    for (kind, packing) in [(&FINETUNE, true), (&FINETUNE, false), (&LORA, true)] {
        let (again, kept) = (trained(kind, packing, true), trained(kind, packing, false));
        assert_eq!(again, kept, "{} {packing}", kind.name);
    }
}

#[test]
fn the_layout_of_the_original_has_the_same_losses() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let mut held_out = |packing: bool| {
        let written = [
            ("learning_rate", ParameterValue::Number(0.0)),
            ("packing", ParameterValue::Flag(packing)),
        ];
        let ports = tune(&written, &base, &mut bench).unwrap();
        log(&ports, &mut bench)["held_out"].as_f64().unwrap()
    };
    assert!((held_out(true) - held_out(false)).abs() < 1e-5);
}

#[test]
fn a_preflight_changes_nothing_in_what_comes_out() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let items = clips(&mut bench);
    let items = encoded(items, &base, &mut bench);
    let without = tune_on(&FINETUNE, items.clone(), &[], &base, &mut bench).unwrap();
    let with = tune_on(&FINETUNE, items, &[PREFLIGHT], &base, &mut bench).unwrap();
    assert_eq!(with, without);
    let audio = bench.metrics.iter().find_map(|(_, values)| values.get("preflight/audio"));
    assert!(audio.is_some_and(|audio| *audio > 0.0));
}

#[test]
fn a_preflight_is_not_repeated_by_a_run_that_finds_no_checkpoint() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let items = clips(&mut bench);
    let items = encoded(items, &base, &mut bench);
    let looked = |bench: &Bench| {
        bench.metrics.iter().filter(|(_, values)| values.contains_key("preflight/audio")).count()
    };
    // Three looks in the preflight, and the one before the first step.
    bench.stop_after = Some(3);
    let stopped = tune_on(&FINETUNE, items.clone(), &[PREFLIGHT], &base, &mut bench);
    assert_eq!(stopped.unwrap_err(), StageError::Stopped);
    assert_eq!((looked(&bench), bench.checkpoints.len()), (1, 0));
    bench.stop_after = Some(1_000);
    tune_on(&FINETUNE, items.clone(), &[PREFLIGHT], &base, &mut bench).unwrap();
    assert_eq!(looked(&bench), 1);
    let other = [PREFLIGHT, ("learning_rate", ParameterValue::Number(1e-4))];
    bench.checkpoints.clear();
    tune_on(&FINETUNE, items, &other, &base, &mut bench).unwrap();
    assert_eq!(looked(&bench), 2);
}

#[test]
fn codes_of_another_dvae_are_refused_before_training() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let written = [("seed", whole(9)), ("width", whole(32)), ("heads", whole(2))];
    let other = gather(&INIT, &written, Vec::new(), &mut bench).unwrap().remove("model").unwrap();
    let items = clips(&mut bench);
    let items = encoded(items, &other, &mut bench);
    for kind in [&FINETUNE, &LORA] {
        let error = tune_on(kind, items.clone(), &[PREFLIGHT], &base, &mut bench).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("the tokens are from another model: "), "{message}");
        assert!(error.help().unwrap().contains("`codec` of `vq.encode`"), "{error:?}");
    }
    let without = base.iter().filter(|(name, _)| !name.starts_with("tensor/dvae."));
    let without: Fields = without.map(|(name, value)| (name.to_string(), value.clone())).collect();
    tune_on(&FINETUNE, items, &[PREFLIGHT], &without, &mut bench).unwrap();
}

#[test]
fn weights_that_are_no_numbers_are_refused_before_training() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let cases = [("gpt.gpt.h.0.mlp.c_fc.weight", f64::NAN), ("mel_stats", 0.0)];
    for (name, value) in cases {
        let mut spoilt = base.clone();
        spoil(&mut spoilt, name, value, &mut bench);
        let error = tune(&[], &spoilt, &mut bench).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}` has")), "{error}");
    }
}

#[test]
fn a_training_that_diverges_is_no_result() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let wild = [("learning_rate", ParameterValue::Number(1e30)), ("take", text("last"))];
    let error = tune(&wild, &base, &mut bench).unwrap_err().to_string();
    assert!(error.starts_with("the training diverged: after step 3, "), "{error}");
}

#[test]
fn only_the_gpt_learns_and_what_is_frozen_stays() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let freeze = ("freeze", patterns(&["gpt.conditioning_*", "gpt.gpt.h.0.*"]));
    let ports = tune(&[freeze], &base, &mut bench).unwrap();
    let trained = moved(&ports["model"], &base);
    assert!(trained.len() > 15, "{trained:?}");
    let is_right = |name: &String| {
        name.starts_with("gpt.")
            && !name.starts_with("gpt.conditioning_")
            && !name.starts_with("gpt.gpt.h.0.")
    };
    assert!(trained.iter().all(is_right), "{trained:?}");
    assert_eq!(contents(&ports["model"]).len(), contents(&base).len());
    for field in [artifact::CONFIG, artifact::VOCABULARY, artifact::FAMILY] {
        assert_eq!(ports["model"].get(field), base.get(field), "{field}");
    }
    let lineage = ports["model"].text(artifact::LINEAGE).unwrap();
    assert!(lineage.contains("\"made_by\":\"xtts.finetune\""), "{lineage}");
}

#[test]
fn a_pattern_that_freezes_nothing_is_an_error() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let freeze = ("freeze", patterns(&["gpt.transformer.h.0.*"]));
    let error = tune(&[freeze], &base, &mut bench).unwrap_err().to_string();
    assert!(error.starts_with("`gpt.transformer.h.0.*` matches no tensor"), "{error}");
}

#[test]
fn the_text_embedding_and_its_head_learn_first() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let written = [
        &quick()[..],
        &[
            ("train_first", whole(2)),
            ("validate_every", whole(1)),
            ("keep", whole(3)),
            ("weight_decay", ParameterValue::Number(0.5)),
        ],
    ]
    .concat();
    let items = clips(&mut bench);
    let dataset = PortInput::Dataset { stage: "clips".into(), items, rejects: Vec::new() };
    one_thread();
    let ports = vec![("input", dataset), ("base", artifact_of(&base))];
    let mut output = gathered(&FINETUNE, &written, ports, &mut bench).unwrap();
    let Some(PortOutput::Dataset(kept)) = output.ports.remove("checkpoints") else { panic!() };
    let mut moved_at = BTreeMap::new();
    for item in kept {
        let fields = bench.keep_all(Output { values: item.values, notes: Vec::new() });
        moved_at.insert(item.id.to_string(), moved(&fields, &base));
    }
    let first = ["gpt.text_embedding.weight", "gpt.text_head.bias", "gpt.text_head.weight"];
    assert_eq!(moved_at["step-1"], first);
    assert_eq!(moved_at["step-2"], first);
    assert!(moved_at["step-3"].len() > 20, "{moved_at:?}");
    let whole_of_it = [("train_first", whole(3))];
    let error = tune(&whole_of_it, &base, &mut bench).unwrap_err().to_string();
    assert_eq!(error, "`train_first` takes 3 of 3 steps: the GPT is never trained");
}

#[test]
fn the_ways_of_the_original_are_other_trainings_that_repeat_themselves() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    // So many that no draw with replacement takes each once by chance.
    let items: Vec<Item> = (0..12).map(|number| clip(&mut bench, number)).collect();
    let mut trained = |way: Written| {
        let six = [("steps", whole(6)), ("take", text("last"))];
        let written = [&six[..], way].concat();
        tune_on(&FINETUNE, items.clone(), &written, &base, &mut bench).unwrap()
    };
    let usual = trained(&[]);
    for way in [("parity", text("upstream")), ("sampling", text("upstream"))] {
        let other = trained(std::slice::from_ref(&way));
        assert_ne!(other["model"], usual["model"], "{}", way.0);
        assert_eq!(trained(std::slice::from_ref(&way)), other);
    }
}

#[test]
fn a_training_that_goes_on_from_a_result_begins_with_its_weights() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let parent = tune(&[], &base, &mut bench).unwrap().remove("model").unwrap();
    bench.parent = Some(parent.clone());
    let still = [("learning_rate", ParameterValue::Number(0.0)), ("take", text("last"))];
    let ports = tune(&still, &base, &mut bench).unwrap();
    assert_eq!(contents(&ports["model"]), contents(&parent));
}

/// Rows of the old vocabulary stand for other tokens.
#[test]
fn a_training_begins_anew_when_the_vocabulary_of_the_base_has_changed() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let parent = tune(&[], &base, &mut bench).unwrap().remove("model").unwrap();
    let mut other = base.clone();
    let vocabulary = Context::read(&mut bench, base.blob(artifact::VOCABULARY).unwrap()).unwrap();
    let spaced = [&vocabulary[..], b"\n"].concat();
    let blob = bench.keep("application/json", &spaced);
    other.set(artifact::VOCABULARY, Value::Blob(blob.into()));
    let afresh = tune(&[], &other, &mut bench).unwrap();
    bench.parent = Some(parent);
    assert_eq!(tune(&[], &other, &mut bench).unwrap()["model"], afresh["model"]);
}

#[test]
fn what_came_with_the_base_travels_with_the_trained_model() {
    let mut bench = Bench::default();
    let mut base = model(&mut bench);
    for file in [SPEAKERS_FILE, CONFIG_FILE] {
        let blob = bench.keep("application/octet-stream", file.as_bytes());
        base.set(file, Value::Blob(blob.into()));
    }
    let trained = tune(&[], &base, &mut bench).unwrap().remove("model").unwrap();
    for file in [SPEAKERS_FILE, CONFIG_FILE] {
        assert_eq!(trained.get(file), base.get(file), "{file}");
    }
}

#[test]
fn the_loss_falls_on_clips_that_are_seen_often() {
    let mut bench = Bench::default();
    let base = model(&mut bench);
    let written = [
        ("steps", whole(30)),
        ("dropout", ParameterValue::Number(0.0)),
        ("learning_rate", ParameterValue::Number(3e-3)),
        ("validate_every", whole(30)),
        ("save_every", whole(30)),
    ];
    let ports = tune(&written, &base, &mut bench).unwrap();
    let log = log(&ports, &mut bench);
    let losses: Vec<f64> = log["values"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|step| step.get("loss/audio")?.as_f64())
        .collect();
    let (first, last) = (losses[0], *losses.last().unwrap());
    assert!(last < 0.8 * first, "{losses:?}");
}
