//! The checkpoints that a training keeps, and synthesis with them.

use std::collections::BTreeMap;

use stage_core::{
    Fields, Item, Kind, NewItem, Output, ParameterValue, PortOutput, StageError, Value,
};
use stage_families::dual_ar::kinds as fish;
use stage_formats::checkpoint::{HELD_OUT, STEP, WEIGHTS};

use super::{Ports, artifact_of, base, clips, codec, gather, gathered, quick, spoken, whole};
use crate::testing::Bench;

/// Trains for eight steps, with a validation after every second one, and keeps some checkpoints.
fn tuned(
    kind: &'static Kind,
    keep: i64,
    base: &Fields,
    bench: &mut Bench,
) -> (Ports, BTreeMap<String, Item>) {
    bench.checkpoints.clear();
    let more = [
        ("keep", whole(keep)),
        ("steps", whole(8)),
        ("learning_rate", ParameterValue::Number(1e-2)),
        ("preflight", ParameterValue::Flag(false)),
    ];
    let written = [&quick()[..], &more].concat();
    let input = vec![("input", clips(bench, 3)), ("base", artifact_of(base))];
    let output = gathered(kind, &written, input, bench).unwrap();
    let mut ports = Ports::new();
    let mut kept = BTreeMap::new();
    for (port, output) in output.ports {
        match output {
            PortOutput::Artifact(values) => {
                ports.insert(port, bench.keep_all(Output { values, notes: Vec::new() }));
            }
            PortOutput::Dataset(items) => {
                kept = items.into_iter().map(|item| stored(item, bench)).collect()
            }
        }
    }
    (ports, kept)
}

fn stored(item: NewItem, bench: &mut Bench) -> (String, Item) {
    let fields = bench.keep_all(Output { values: item.values, notes: Vec::new() });
    (item.id.clone(), Item::new(item.id, fields))
}

/// A sentence with the checkpoint to synthesise it.
fn pair(text: &str, checkpoint: &Item) -> Item {
    let weights = checkpoint.fields.get(WEIGHTS).unwrap().clone();
    Item::new("", [("text", Value::text(text)), (WEIGHTS, weights)].into_iter().collect())
}

/// The model or the adapters in an item of checkpoints.
fn model_of(checkpoint: &Item) -> Fields {
    let mut fields = checkpoint.fields.clone();
    for name in [STEP, HELD_OUT, WEIGHTS] {
        fields.remove(name);
    }
    fields
}

#[test]
fn the_best_states_and_the_last_one_are_models_of_their_own() {
    for (kind, port) in [(&fish::FINETUNE, "model"), (&fish::LORA, "adapters")] {
        let mut bench = Bench::default();
        let base = base(&mut bench);
        let (ports, kept) = tuned(kind, 2, &base, &mut bench);
        assert!((2..=3).contains(&kept.len()), "{:?}", kept.keys());
        let last = &kept["step-8"];
        assert_eq!(last.fields.number(STEP), Some(8.0));
        let held_out = |item: &Item| item.fields.number(HELD_OUT).unwrap();
        let best = kept.values().min_by(|a, b| held_out(a).total_cmp(&held_out(b))).unwrap();
        assert_eq!(model_of(best), ports[port], "the best state is the result");
        let (_, only) = tuned(kind, 1, &base, &mut bench);
        assert!(only.keys().all(|id| kept.contains_key(id)) && only.contains_key("step-8"));
        assert_eq!(only["step-8"], *last);
    }
}

#[test]
fn a_checkpoint_of_a_whole_model_speaks_as_that_model_does() {
    let mut bench = Bench::default();
    let (base, codec) = (base(&mut bench), codec(3, 24, &mut bench));
    let (_, kept) = tuned(&fish::FINETUNE, 3, &base, &mut bench);
    let items: Vec<Item> = kept.values().map(|checkpoint| pair("Yksi.", checkpoint)).collect();
    // Alternating, so that each sentence needs another model than the one before.
    let twice: Vec<Item> = [&items[..], &items[..]].concat();
    let said = spoken(&[("codec", &codec)], &twice, &mut bench).unwrap();
    assert_eq!(said[..items.len()], said[items.len()..]);
    assert_ne!(said[0].blob("tokens"), said[1].blob("tokens"));
    let plain = Item::new("", [("text", Value::text("Yksi."))].into_iter().collect());
    for (checkpoint, said) in kept.values().zip(&said) {
        let model = model_of(checkpoint);
        let artifacts = [("model", &model), ("codec", &codec)];
        let alone = spoken(&artifacts, std::slice::from_ref(&plain), &mut bench).unwrap();
        assert_eq!(alone[0], *said);
    }
}

#[test]
fn a_checkpoint_of_adapters_speaks_as_the_merged_model_does() {
    let mut bench = Bench::default();
    let (base, codec) = (base(&mut bench), codec(3, 24, &mut bench));
    let (_, kept) = tuned(&fish::LORA, 2, &base, &mut bench);
    let checkpoint = &kept["step-8"];
    let artifacts = [("model", &base), ("codec", &codec)];
    let items = [pair("Yksi.", checkpoint)];
    let said = spoken(&artifacts, &items, &mut bench).unwrap();
    let input =
        vec![("base", artifact_of(&base)), ("adapters", artifact_of(&model_of(checkpoint)))];
    let merged = gather(&fish::MERGE, &[], input, &mut bench).unwrap().remove("model").unwrap();
    let plain = Item::new("", [("text", Value::text("Yksi."))].into_iter().collect());
    let alone = spoken(&[("model", &merged), ("codec", &codec)], &[plain], &mut bench).unwrap();
    assert_eq!(said, alone);
}

#[test]
fn adapters_without_their_base_end_the_stage_with_advice() {
    let mut bench = Bench::default();
    let (base, codec) = (base(&mut bench), codec(3, 24, &mut bench));
    let (ports, kept) = tuned(&fish::LORA, 1, &base, &mut bench);
    let items = [pair("Yksi.", &kept["step-8"])];
    let error = spoken(&[("codec", &codec)], &items, &mut bench).unwrap_err();
    assert!(matches!(error, StageError::Unable { .. }), "{error:?}");
    assert!(error.to_string().starts_with("no model arrived on port `model`"), "{error}");
    assert!(error.help().unwrap().contains("the base of the adapters"));
    let artifacts = [("model", &base), ("codec", &codec), ("adapters", &ports["adapters"])];
    let error = spoken(&artifacts, &items, &mut bench).unwrap_err();
    assert!(
        error.to_string().contains("both the sentences and port `adapters` have adapters"),
        "{error}"
    );
}
