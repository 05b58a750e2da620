//! A model with random weights.

use stage_families::artifact;

use super::*;
use crate::vits::artifact::VitsModel;
use crate::vits::{LossWeights, Networks, TrainingOptions, WeightForm};

#[test]
fn a_model_from_nothing_can_be_read_and_trained() {
    let mut bench = Bench::default();
    let fields = model(&[], &mut bench);
    let model = VitsModel::read("base", Some(&fields), &mut bench).unwrap();
    assert_eq!((model.config.sampling_rate, model.config.hop()), (16_000, 256));
    assert_eq!(model.tokens("Hyvää päivää").unwrap().text, "hyvää päivää");
    assert!(model.lineage.random);
    let prepared = model.prepared(WeightForm::Normed, tch::Device::Cpu, &mut bench).unwrap();
    let weights = LossWeights::default();
    let kind = tch::Kind::Float;
    let options = TrainingOptions { bands: 80, weights, dropout: false, fade_in: 0, kind };
    Networks::new(&model.config, prepared, options).unwrap();
}

#[test]
fn the_seed_and_the_discriminator_are_chosen() {
    let mut bench = Bench::default();
    let seeds = [1, 1, 2].map(|seed| model(&[("seed", whole(seed))], &mut bench));
    assert_eq!(seeds[0], seeds[1]);
    assert_ne!(seeds[0], seeds[2]);
    let flag = stage_core::ParameterValue::Flag(false);
    let without = model(&[("seed", whole(1)), ("discriminator", flag)], &mut bench);
    let judges = |fields: &Fields| {
        artifact::tensors(fields).filter(|(name, _)| name.starts_with("discriminator.")).count()
    };
    assert_eq!(judges(&without), 0);
    assert!(judges(&seeds[0]) > 0);
    for (name, blob) in artifact::tensors(&without) {
        assert_eq!(seeds[0].blob(&artifact::tensor_field(name)), Some(blob), "{name}");
    }
}
