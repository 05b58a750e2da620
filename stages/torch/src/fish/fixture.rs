//! The model on the inputs of a fixture, with outputs under the names of the reference's results.

use serde::Deserialize;
use tch::{Kind, Tensor};

use super::trainee::{BASE, DualArInputs, DualArMemory, DualArTrainee, SEMANTIC};
use crate::autoregressive::RowFrames;
use crate::dual_ar::batch::DualArBatch;
use crate::dual_ar::generate::DualArSentence;
use crate::dual_ar::model::{DualAr, SpecialTokens};
use crate::dual_ar::sampling::DualArSampling;
use crate::error::TorchError;
use crate::fixture::parts::{self, Outputs, RecordedNoise, Steps};
use crate::fixture::setup::Setup;
use crate::nn::layers::Pass;
use crate::nn::lora::Adaptable;
use crate::nn::weights::Weights;
use crate::runtime::parity::Parity;
use crate::train::{Losses, Means, Totals, Trainee};
use stage_families::dual_ar::DualArConfig;

/// `settings` of the fixture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FishFixtureSettings {
    config: serde_json::Value,
    tokens: SpecialTokens,
    parity: Parity,
    adamw: Steps,
    sampling: DualArSampling,
}

/// Runs everything that the reference ran. `weights` is the model's file, `inputs` has the tensors
/// `input.*`.
pub fn outputs(
    settings: &serde_json::Value,
    weights: &[u8],
    inputs: &Weights,
    setup: &Setup,
) -> Result<Outputs, TorchError> {
    let settings: FishFixtureSettings = parts::settings(settings)?;
    let config = DualArConfig::parse(settings.config.to_string().as_bytes())?;
    let weights = Weights::from_safetensors(weights)?.moved(setup.device, Some(setup.kind()));
    let model = DualAr::load(config, settings.tokens, weights)?.with_parity(settings.parity);
    let mut outputs = Outputs::new();
    generated(&model, &settings, inputs, &mut outputs)?;
    let memory = DualArMemory { recompute: true, positions: 16, frames: 8 };
    let mut trainee = DualArTrainee::new(model.train_all(), memory)?;
    let (batches, live): (Vec<DualArBatch>, Vec<Tensor>) = batches(inputs)?.into_iter().unzip();
    let (Some(first), Some(live)) = (batches.first(), live.first()) else {
        return Err(TorchError::Input("there is no `input.0.tokens`".into()));
    };
    forward(&trainee, first, live, &mut outputs)?;
    let losses = parts::gradients(&mut trainee, first, &mut outputs, setup)?;
    add_losses(&losses, &DualArTrainee::count(first), &mut outputs);
    parts::trained(&mut trainee, &batches, &settings.adamw, &mut outputs, setup)?;
    Ok(outputs)
}

/// The batches with 1 for non-padding: [B, T].
fn batches(inputs: &Weights) -> Result<Vec<(DualArBatch, Tensor)>, TorchError> {
    let mut batches = Vec::new();
    while let Some(tokens) = inputs.get(&format!("input.{}.tokens", batches.len())) {
        let part = |name: &str| inputs.get(&format!("input.{}.{name}", batches.len()));
        let labels = part("labels").ok_or_else(|| TorchError::Input("no labels".into()))?;
        let (rows, height, length) = tokens.size3()?;
        let padding = match part("padding") {
            Some(padding) => padding.to_kind(Kind::Float),
            None => Tensor::zeros([rows, length], (Kind::Float, tokens.device())),
        };
        let holes: Vec<bool> = numbers(&padding)?.iter().map(|value| *value != 0).collect();
        let shape = [rows, height, length];
        let batch = DualArBatch::from_rows(shape, numbers(tokens)?, numbers(labels)?, Some(holes))?;
        batches.push((batch, 1.0 - padding));
    }
    Ok(batches)
}

fn numbers(tensor: &Tensor) -> Result<Vec<i32>, TorchError> {
    Ok(Vec::try_from(tensor.to_kind(Kind::Int).view(-1))?)
}

/// Layer by layer, with zeros at padding.
fn forward(
    trainee: &DualArTrainee,
    batch: &DualArBatch,
    live: &Tensor,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let _guard = tch::no_grad_guard();
    let DualArInputs { tokens, layout, frames, codes, .. } = trainee.place(batch)?;
    let (model, pass) = (trainee.network(), Pass::Evaluate);
    let live = live.to_device(model.device()).unsqueeze(-1);
    let mut add = |name: &str, tensor: Tensor| outputs.insert(name.to_owned(), tensor);
    let mut x = model.embed(&tokens, model.parity == Parity::Correct);
    add("embedding", &x * &live);
    for (at, block) in model.layers.iter().enumerate() {
        if at == 0 {
            let heads = block.attention.heads(&block.attention_norm.forward(&x), pass);
            for (name, normed) in [("q", &heads.queries), ("k", &heads.keys)] {
                let live = live.unsqueeze(-1);
                add(&format!("head.{name}.normed"), normed * &live);
                add(&format!("head.{name}.turned"), layout.rotary.apply(normed) * &live);
            }
        }
        x = block.forward(&x, &layout.rotary, &layout.mask, pass);
        add(&format!("layer.{at}"), &x * &live);
    }
    add("output.logits", model.logits(&x, pass) * &live);
    let hidden = if model.config.norm_fastlayer_input { model.norm.forward(&x) } else { x.copy() };
    add("output.hidden", hidden * &live);
    let wanted = x.flatten(0, 1).index_select(0, &frames);
    let x = model.fast(&model.fast_inputs(&wanted, &codes, pass), pass);
    add("output.fast_logits", model.fast_logits(&x, pass));
    Ok(())
}

fn add_losses(losses: &Losses, totals: &Totals, outputs: &mut Outputs) {
    let Means(means) = losses.means(totals);
    for (name, mean) in means.iter().filter(|(name, _)| [BASE, SEMANTIC].contains(name)) {
        outputs.insert(format!("loss.{name}"), Tensor::from_slice(&[*mean]));
    }
}

/// Columns through the caches, and columns drawn with the reference's noise.
fn generated(
    model: &DualAr,
    settings: &FishFixtureSettings,
    inputs: &Weights,
    outputs: &mut Outputs,
) -> Result<(), TorchError> {
    let input = |name: &str| parts::input(inputs, name);
    let (prompt, forced, noise) = (input("prompt")?, input("forced")?, input("noise")?);
    let placed = |tensor: &Tensor| tensor.to_kind(Kind::Int64).to_device(model.device());
    cached(model, &placed(prompt), &placed(forced), outputs);
    let frames = noise.size()[0] as usize;
    let mut noise = RecordedNoise { noise: noise.flatten(0, 1), taken: 0 };
    let prompt = numbers(prompt)?;
    let sentence = DualArSentence { prompt: &prompt, most: frames, least: 0, noise: &mut noise };
    let drawn = model.draw(vec![sentence], &settings.sampling)?;
    let frames = drawn.iter().flat_map(|RowFrames { frames, .. }| frames);
    let ids: Vec<Tensor> = frames.map(|frame| Tensor::from_slice(frame)).collect();
    outputs.insert("sampled.ids".into(), Tensor::stack(&ids, 1));
    Ok(())
}

fn cached(model: &DualAr, prompt: &Tensor, forced: &Tensor, outputs: &mut Outputs) {
    let _guard = tch::no_grad_guard();
    let (size, codebooks) = (model.config.codebook_size, model.config.num_codebooks);
    let (mut logits, mut hidden, mut fast) = (Vec::new(), Vec::new(), Vec::new());
    let (mut caches, mut state) = model.prefill(&[prompt], forced.size()[1]);
    let mut column = prompt.narrow(1, prompt.size()[1] - 1, 1).tr();
    let mut forced = forced.split(1, 1).into_iter();
    loop {
        logits.push(model.logits(&state, Pass::Evaluate).view(-1));
        let normed = model.config.norm_fastlayer_input.then(|| model.norm.forward(&state));
        hidden.push(normed.unwrap_or_else(|| state.shallow_clone()).view(-1));
        let mut x = model.begin_frame(&state, &mut caches);
        // The choice of codes does not matter.
        let codes = (column * 7 + 3).remainder(size);
        for place in 0..codebooks {
            let state = model.follow_fast(&x, &mut caches);
            fast.push(model.fast_step_logits(&state, size).view(-1));
            x = model.fast_embeddings.forward(&codes.select(1, place + 1));
        }
        let Some(next) = forced.next() else { break };
        column = next.tr();
        state = model.follow(&column, &mut caches);
    }
    let fast = Tensor::stack(&fast, 0).view([-1, codebooks, size]);
    outputs.insert("cache.logits".into(), Tensor::stack(&logits, 0));
    outputs.insert("cache.hidden".into(), Tensor::stack(&hidden, 0));
    outputs.insert("cache.fast_logits".into(), fast);
}
