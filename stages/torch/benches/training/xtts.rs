//! The GPT of XTTS v2.

use std::path::Path;

use serde_json::json;
use stage_families::training::Setting;
use stage_families::xtts::training_memory;
use stage_torch::lora::{Adaptable, LoraSettings, attach};
use stage_torch::random::Random;
use stage_torch::weights::Weights;
use stage_torch::xtts::{
    Gpt, GptBatch, GptClip, GptConfig, GptMemory, GptTrainee, Packer, Parity, Purpose, RowLayout,
};
use tch::{Device, Kind, Tensor};

use crate::memory::Memory;
use crate::step::Bench;
use crate::{Options, Spec, read, weights};

pub fn serve(folder: &Path, spec: &Spec, options: &Options) {
    let memory = Memory::new(options.gpu);
    let mut config: GptConfig = serde_json::from_value(spec.config.clone()).unwrap();
    config.dropout = options.dropout.unwrap_or(config.dropout);
    let batch = batch(&read(folder, "batch.safetensors"), &config, options);
    let kind = options.precision.kind();
    let weights = weights(folder, || fresh(&config));
    let weights = weights.moved(options.device(), Some(kind));
    let mut model = Gpt::load(&config, weights).unwrap();
    if let Some(dropout) = options.attention_dropout {
        model.set_dropout(config.dropout, dropout);
    }
    let adapters = (options.rank > 0).then(|| {
        let patterns = vec!["gpt.gpt.h.*".to_owned()];
        LoraSettings { rank: options.rank, alpha: 32.0, dropout: 0.0, patterns }
    });
    if let Some(settings) = &adapters {
        attach(&mut model, settings, 1).unwrap();
    }
    let pieces = GptMemory { recompute: options.checkpointing, ..GptMemory::default() };
    let model = if adapters.is_some() { model } else { model.train_all() };
    let trainee = GptTrainee::new(model, pieces);
    let planned = planned(&batch, &config, options);
    Bench::new(trainee, batch, spec, options).serve(memory, |_, work| match work {
        "plan" => json!({"bytes": planned}),
        other => panic!("no work `{other}`"),
    });
}

/// Random weights: norms of one, biases of zero, and the deviation of GPT-2.
fn fresh(config: &GptConfig) -> Weights {
    let mut random = Random::new(1);
    let options = (Kind::Float, Device::Cpu);
    let mut draw = |name: &str, shape: &[i64]| match shape.len() {
        1 if name.ends_with(".bias") => Tensor::zeros(shape, options),
        1 => Tensor::ones(shape, options),
        _ => random.normal(shape, 0.02),
    };
    let tensors = config.tensors().into_iter();
    tensors.map(|(name, shape)| (name.clone(), draw(&name, &shape))).collect()
}

/// The memory that a plan shows for such a training.
fn planned(batch: &GptBatch, config: &GptConfig, options: &Options) -> f64 {
    let rows = batch.rows() as i64;
    let adapters = (options.rank > 0).then(|| stage_families::training::Adapters {
        rank: options.rank,
        patterns: vec!["gpt.gpt.h.*".to_owned()],
    });
    let setting = Setting {
        rows,
        length: batch.columns() as i64 / rows,
        clip_seconds: 0.0,
        is_half: matches!(options.precision.kind(), Kind::Half | Kind::BFloat16),
        checkpointing: options.checkpointing,
        adapters,
        frozen: Vec::new(),
        keeps_attention: options.attention == "math"
            || options.attention_dropout.unwrap_or(config.dropout) > 0.0,
    };
    training_memory(config, &setting).total()
}

fn batch(data: &Weights, config: &GptConfig, options: &Options) -> GptBatch {
    let numbers = |tensor: &Tensor| -> Vec<i64> {
        Vec::try_from(tensor.to_kind(Kind::Int64).contiguous().view(-1)).unwrap()
    };
    let clip = |at: usize| {
        Some(GptClip {
            text: numbers(data.get(&format!("{at}.text"))?),
            codes: numbers(data.get(&format!("{at}.codes"))?),
            mel: Vec::try_from(data.get(&format!("{at}.mel"))?.contiguous().view(-1)).unwrap(),
            crop: None,
        })
    };
    let clips: Vec<GptClip> = (0..).map_while(clip).collect();
    let layout = if options.packing { RowLayout::Packed } else { RowLayout::Padded };
    let packer = Packer { config, parity: Parity::Correct, layout };
    packer.pack(&clips.iter().collect::<Vec<_>>(), Purpose::Step { seed: 0 }).unwrap()
}
