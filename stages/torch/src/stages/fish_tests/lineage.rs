//! The lineage of models and adapters.

use super::*;
use crate::lineage::digest;

#[test]
fn adapters_merge_into_their_own_base_only() {
    let mut bench = Bench::default();
    let base = base(&mut bench);
    let adapters = tune(&fish::LORA, &[], &base, &mut bench).unwrap().remove("adapters").unwrap();
    bench.checkpoints.clear();
    let other = tune(&fish::FINETUNE, &[], &base, &mut bench).unwrap().remove("model").unwrap();
    let merge = |base: &Fields, bench: &mut Bench| {
        let input = vec![("base", artifact_of(base)), ("adapters", artifact_of(&adapters))];
        gather(&fish::MERGE, &[], input, bench)
    };
    let merged = merge(&base, &mut bench).unwrap().remove("model").unwrap();
    let norm = artifact::tensor_field("norm.weight");
    assert_eq!(merged.get(&norm), base.get(&norm), "what has no adapter is the same object");
    let adapted = artifact::tensor_field("layers.0.attention.wqkv.weight");
    assert_ne!(merged.get(&adapted), base.get(&adapted));
    let (message, _) = refusal(merge(&other, &mut bench));
    assert!(message.starts_with("the adapters were trained on the model "), "{message}");
}

#[test]
fn a_model_knows_all_adapters_that_were_merged_into_it_oldest_first() {
    let mut bench = Bench::default();
    let mut model = base(&mut bench);
    let mut merged = Vec::new();
    for seed in [1, 2] {
        bench.checkpoints.clear();
        let written = [QUIET, ("seed", whole(seed))];
        let adapters = learnt(tune(&fish::LORA, &written, &model, &mut bench).unwrap());
        assert_eq!(lineage_of(&adapters)["base"], digest(&model).to_string());
        merged.push(digest(&adapters).to_string());
        let ports = vec![("base", artifact_of(&model)), ("adapters", artifact_of(&adapters))];
        let base = digest(&model).to_string();
        model = learnt(gather(&fish::MERGE, &[], ports, &mut bench).unwrap());
        let lineage = lineage_of(&model);
        assert_eq!(lineage["adapters"], serde_json::json!(merged));
        assert_eq!((&lineage["base"], &lineage["made_by"]), (&base.into(), &"fish.merge".into()));
        assert_eq!(lineage["random"], true, "it still began with random weights");
    }
}
