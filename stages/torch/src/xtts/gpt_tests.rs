//! Rules of the GPT that hold for any weights.
#![allow(clippy::unwrap_used)]

use tch::{Device, Kind, Tensor};

use super::batch::{GptBatch, GptClip, Packer, RowLayout};
use super::decode::{GptSampling, GptSentence};
use super::gpt::Gpt;
use super::trainee::{AUDIO, GptMemory, GptTrainee, TEXT};
use crate::autoregressive::{SeededNoise, Stop};
use crate::nn::layers::Pass;
use crate::nn::lora::{self, Adaptable, LoraSettings};
use crate::nn::random::Random;
use crate::nn::weights::Weights;
use crate::runtime::parity::Parity;
use crate::train::run::Purpose;
use crate::train::{Means, Phase, Totals, Trainee};
use stage_families::xtts::{GptConfig, XttsConfig};

fn config(dropout: f64) -> GptConfig {
    GptConfig {
        layers: 2,
        width: 16,
        heads: 2,
        text_tokens: 20,
        start_text_token: 19,
        stop_text_token: 0,
        audio_tokens: 14,
        start_audio_token: 12,
        stop_audio_token: 13,
        max_text_tokens: 10,
        max_audio_tokens: 14,
        latents: 3,
        perceiver_layers: 1,
        perceiver_heads: 2,
        perceiver_head_width: 4,
        conditioning_layers: 2,
        conditioning_heads: 2,
        mels: 4,
        dropout,
        ..XttsConfig::published().gpt
    }
}

fn weights(config: &GptConfig) -> Weights {
    let mut random = Random::new(5);
    let tensors = config.tensors().into_iter();
    tensors.map(|(name, shape)| (name, random.normal(&shape, 0.3))).collect()
}

fn model(dropout: f64) -> Gpt {
    Gpt::load(&config(dropout), weights(&config(dropout))).unwrap()
}

fn trainee(dropout: f64, recompute: bool) -> GptTrainee {
    GptTrainee::new(model(dropout).train_all(), GptMemory { recompute, positions: 5 })
}

fn clip(text: &[i64], codes: &[i64]) -> GptClip {
    let seed = codes.iter().sum::<i64>() as u64;
    let mel = Vec::try_from(Random::new(seed).normal(&[4 * 7], 1.0)).unwrap();
    GptClip { text: text.to_vec(), codes: codes.to_vec(), mel, crop: None }
}

fn clips() -> [GptClip; 3] {
    [
        clip(&[3, 4, 5], &[1, 2, 3, 4, 5, 6]),
        clip(&[7], &[8, 9]),
        clip(&[10, 11, 12, 13, 14], &[0, 11, 10]),
    ]
}

fn batch(layout: RowLayout, clips: &[&GptClip]) -> GptBatch {
    let packer = Packer { config: &config(0.0), parity: Parity::Correct, layout };
    packer.pack(clips, Purpose::Step { seed: 0 }).unwrap()
}

fn all(layout: RowLayout) -> GptBatch {
    batch(layout, &clips().iter().collect::<Vec<_>>())
}

/// The losses and gradients of some batches of one step.
fn step(
    trainee: &mut GptTrainee,
    batches: &[GptBatch],
    seed: u64,
) -> (Means, Vec<(String, Tensor)>) {
    let mut totals = Totals::default();
    batches.iter().for_each(|batch| totals.add(&GptTrainee::count(batch)));
    let mut losses = crate::train::Losses::default();
    for batch in batches {
        losses.add(trainee.accumulate(batch, &Phase::only(&totals, seed)).unwrap());
    }
    let gradients = trainee.parameters().into_iter().map(|(name, tensor)| {
        let gradient = tensor.grad().copy();
        tensor.shallow_clone().zero_grad();
        (name, gradient)
    });
    (losses.means(&totals), gradients.collect())
}

fn far(one: &Tensor, other: &Tensor) -> f64 {
    let scale = other.abs().max().double_value(&[]).max(1e-3);
    (one - other).abs().max().double_value(&[]) / scale
}

fn assert_near(one: &[(String, Tensor)], other: &[(String, Tensor)]) {
    assert_eq!(one.len(), other.len());
    for ((name, one), (_, other)) in one.iter().zip(other) {
        assert!(far(one, other) < 1e-4, "{name}: {one} {other}");
    }
}

#[test]
fn packed_rows_have_the_losses_and_gradients_of_padded_rows_with_a_mask() {
    let (packed, gradients) = step(&mut trainee(0.0, true), &[all(RowLayout::Packed)], 0);
    let (padded, masked) = step(&mut trainee(0.0, true), &[all(RowLayout::Padded)], 0);
    assert!(all(RowLayout::Packed).columns() < all(RowLayout::Padded).columns());
    for name in [TEXT, AUDIO] {
        assert!((packed.of(name).unwrap() - padded.of(name).unwrap()).abs() < 1e-5);
    }
    assert_near(&gradients, &masked);
}

#[test]
fn running_blocks_again_changes_no_bit_even_with_dropout() {
    for (layout, dropout) in [RowLayout::Packed, RowLayout::Padded]
        .into_iter()
        .flat_map(|layout| [(layout, 0.0), (layout, 0.1)])
    {
        let again = step(&mut trainee(dropout, true), &[all(layout)], 3);
        assert_eq!(again, step(&mut trainee(dropout, false), &[all(layout)], 3), "{layout:?}");
        assert!(again.1.iter().all(|(_, gradient)| gradient.abs().max().double_value(&[]) > 0.0));
    }
    let losses = |seed| step(&mut trainee(0.1, true), &[all(RowLayout::Packed)], seed).0;
    assert_ne!(losses(3), losses(4));
}

#[test]
fn micro_batches_add_up_to_the_mean_over_all_labels() {
    let [one, two, three] = clips();
    let parts = [batch(RowLayout::Packed, &[&one]), batch(RowLayout::Packed, &[&two, &three])];
    let (losses, gradients) = step(&mut trainee(0.0, true), &parts, 0);
    let (whole, wanted) = step(&mut trainee(0.0, true), &[all(RowLayout::Packed)], 0);
    assert!((losses.of(AUDIO).unwrap() - whole.of(AUDIO).unwrap()).abs() < 1e-5);
    assert_near(&gradients, &wanted);
}

/// Each replica adds up its own micro-batches, then their sums are added: the terms are those of
/// one device, to the bit, in another order.
#[test]
fn gradients_of_two_devices_are_those_of_one_added_in_another_order() {
    use crate::train::replicas::{self, MicroBatch};
    crate::runtime::threads::one_thread();
    let [one, two, three] = clips();
    let parts = [&one, &two, &three, &one].map(|clip| batch(RowLayout::Packed, &[clip]));
    let mut totals = Totals::default();
    parts.iter().for_each(|batch| totals.add(&GptTrainee::count(batch)));
    let phase = Phase::only(&totals, 0);
    let micro = |at: &usize| MicroBatch { batch: &parts[*at], seed: 7 + *at as u64 };
    let gradients = |devices: usize, order: &[usize]| {
        let mut replicas: Vec<GptTrainee> = (0..devices).map(|_| trainee(0.1, true)).collect();
        for round in order.chunks(devices) {
            let round: Vec<_> = round.iter().map(micro).collect();
            replicas::accumulate(&mut replicas, &round, &phase).unwrap();
        }
        let gradients = replicas::gradients(&replicas, 0);
        let names = replicas[0].parameters().into_iter().map(|(name, _)| name);
        names.zip(gradients.into_iter().flatten()).collect::<Vec<_>>()
    };
    let double = gradients(2, &[0, 1, 2, 3]);
    let halves = gradients(1, &[0, 2]).into_iter().zip(gradients(1, &[1, 3]));
    let sums: Vec<_> = halves.map(|((name, even), (_, odd))| (name, even + odd)).collect();
    assert_eq!(double, sums);
    assert_near(&double, &gradients(1, &[0, 1, 2, 3]));
}

#[test]
fn held_out_clips_have_the_losses_of_training_and_no_dropout() {
    let batch = all(RowLayout::Packed);
    let trained = step(&mut trainee(0.0, true), std::slice::from_ref(&batch), 0).0;
    let trainee = trainee(0.1, true);
    let held_out = trainee.evaluate(&batch).unwrap().means(&GptTrainee::count(&batch));
    for name in [TEXT, AUDIO] {
        assert!((trained.of(name).unwrap() - held_out.of(name).unwrap()).abs() < 1e-5);
    }
    let total = 0.01 * held_out.of(TEXT).unwrap() + held_out.of(AUDIO).unwrap();
    assert_eq!(trainee.total(&held_out), total);
}

#[test]
fn the_end_of_the_text_is_hidden_in_training_and_seen_in_speech() {
    let (_, gradients) = step(&mut trainee(0.0, true), &[all(RowLayout::Packed)], 0);
    let table = gradients.iter().find(|(name, _)| name == "gpt.text_embedding.weight").unwrap();
    let of_token = |token: i64| table.1.get(token).abs().max().double_value(&[]);
    assert_eq!(of_token(config(0.0).stop_text_token), 0.0);
    assert!(of_token(config(0.0).start_text_token) > 0.0);

    let model = model(0.0);
    let latents = Tensor::ones([3, 16], (Kind::Float, Device::Cpu));
    let prefix = model.prefix(&latents, &[5, 6]).unwrap();
    assert_eq!(prefix.size(), [1, 3 + 4 + 1, 16]);
    let states = model.hidden_states(&latents, &[5, 6], &[1, 2, 13]).unwrap();
    assert_eq!(states.size(), [3, 16]);
    let _ = model.text_embedding.weight.get(0).fill_(1.0);
    let others = model.hidden_states(&latents, &[5, 6], &[1, 2, 13]).unwrap();
    assert!(far(&others, &states) > 1e-3);
}

#[test]
fn frozen_parts_get_no_gradients_and_leave_the_others_as_they_are() {
    let (_, all_gradients) = step(&mut trainee(0.1, true), &[all(RowLayout::Packed)], 1);
    for frozen in ["gpt.conditioning_", "gpt.gpt.h.0.", "gpt.text_embedding"] {
        let mut trainee = trainee(0.1, true);
        for (name, tensor) in trainee.network().tensors() {
            let _ = tensor.set_requires_grad(!name.starts_with(frozen));
        }
        let (_, gradients) = step(&mut trainee, &[all(RowLayout::Packed)], 1);
        let wanted = all_gradients.iter().filter(|(name, _)| !name.starts_with(frozen));
        let wanted: Vec<_> =
            wanted.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
        assert!(wanted.len() < all_gradients.len());
        assert_eq!(gradients, wanted, "{frozen}");
    }
}

#[test]
fn all_of_the_gpt_is_trained_and_nothing_else() {
    let mut wanted: Vec<String> = config(0.0).tensors().into_iter().map(|(name, _)| name).collect();
    wanted.sort();
    let names: Vec<String> =
        trainee(0.0, true).parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, wanted);
    assert!(names.iter().all(|name| name.starts_with("gpt.")));
}

#[test]
fn only_weights_decay_with_the_latents_and_the_norm_of_the_perceiver_among_them() {
    let decays = |name: &str| GptTrainee::decays(name, &Tensor::new());
    for name in [
        "gpt.gpt.h.0.attn.c_attn.weight",
        "gpt.gpt.h.29.mlp.c_proj.weight",
        "gpt.text_head.weight",
        "gpt.conditioning_encoder.init.weight",
        "gpt.conditioning_encoder.attn.5.proj_out.weight",
        "gpt.conditioning_perceiver.latents",
        "gpt.conditioning_perceiver.norm.gamma",
        "gpt.conditioning_perceiver.layers.1.0.to_kv.weight",
        "gpt.conditioning_perceiver.layers.1.1.2.weight",
        "gpt.text_embedding.lora_A",
        "gpt.gpt.h.0.attn.c_attn.lora_B",
    ] {
        assert!(decays(name), "{name}");
    }
    for name in [
        "gpt.gpt.h.0.attn.c_attn.bias",
        "gpt.gpt.h.0.ln_1.weight",
        "gpt.gpt.ln_f.weight",
        "gpt.final_norm.weight",
        "gpt.conditioning_encoder.attn.5.norm.weight",
        "gpt.conditioning_perceiver.layers.1.1.2.bias",
        "gpt.text_embedding.weight",
        "gpt.mel_embedding.weight",
        "gpt.text_pos_embedding.emb.weight",
        "gpt.mel_pos_embedding.emb.weight",
        "gpt.text_head.bias",
    ] {
        assert!(!decays(name), "{name}");
    }
}

#[test]
fn copies_for_decoding_are_dropped_and_anything_else_is_refused() {
    let config = config(0.0);
    let with = |name: &str| {
        let mut weights = weights(&config);
        weights.insert(name, Tensor::zeros([2], (Kind::Float, Device::Cpu)));
        Gpt::load(&config, weights)
    };
    assert_eq!(with("gpt.gpt.wte.weight").unwrap().tensors().len(), config.tensors().len());
    assert!(with("gpt.gpt_inference.lm_head.1.weight").is_ok());
    assert!(with("gpt.gpt.wpe.weight").unwrap_err().to_string().contains("gpt.gpt.wpe.weight"));
    let mut weights = weights(&config);
    weights.remove("gpt.mel_head.bias");
    let error = Gpt::load(&config, weights).unwrap_err().to_string();
    assert!(error.contains("missing: `gpt.mel_head.bias`"), "{error}");
}

#[test]
fn adapters_on_projections_tables_and_heads_are_all_that_is_trained() {
    let mut trainee = trainee(0.0, true);
    for (_, tensor) in trainee.network().tensors() {
        let _ = tensor.set_requires_grad(false);
    }
    let patterns = ["gpt.gpt.h.*", "gpt.text_embedding", "gpt.mel_head", "*perceiver*"];
    let settings = LoraSettings {
        rank: 2,
        alpha: 4.0,
        dropout: 0.1,
        patterns: patterns.map(str::to_owned).to_vec(),
    };
    let before = step(&mut self::trainee(0.0, true), &[all(RowLayout::Packed)], 0).0;
    let found = lora::attach(trainee.network_mut(), &settings, 1).unwrap();
    assert_eq!(found.iter().map(|one| one.count).collect::<Vec<_>>(), [8, 1, 1, 5]);
    let (losses, gradients) = step(&mut trainee, &[all(RowLayout::Packed)], 0);
    assert_eq!(losses, before);
    let adapted = lora::adapters(trainee.network_mut());
    let names = |tensors: &[(String, Tensor)]| -> Vec<String> {
        tensors.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&gradients), names(&adapted));
    // The factors that start as zero.
    let moving = gradients
        .iter()
        .filter(|(name, _)| name.ends_with("lora_B") != name.starts_with("gpt.text_embedding"));
    for (name, gradient) in moving {
        assert!(gradient.abs().max().double_value(&[]) > 0.0, "{name}");
    }
    assert_eq!(trainee.network().tensors().len(), config(0.0).tensors().len());
}

#[test]
fn half_precision_is_near_single_precision() {
    let weights = weights(&config(0.0)).moved(Device::Cpu, Some(Kind::BFloat16));
    let model = Gpt::load(&config(0.0), weights).unwrap();
    let mut half = GptTrainee::new(model.train_all(), GptMemory::default());
    let (losses, gradients) = step(&mut half, &[all(RowLayout::Packed)], 0);
    let (wanted, _) = step(&mut trainee(0.0, true), &[all(RowLayout::Packed)], 0);
    for name in [TEXT, AUDIO] {
        let (one, other) = (losses.of(name).unwrap(), wanted.of(name).unwrap());
        assert!((one / other - 1.0).abs() < 0.05, "{name}: {one} {other}");
    }
    assert!(gradients.iter().all(|(_, gradient)| gradient.kind() == Kind::BFloat16));
    let dropped = half.network().conditioning(
        &Tensor::ones([1, 4, 7], (Kind::BFloat16, Device::Cpu)),
        Pass::Train { seed: 1 },
    );
    assert_eq!(dropped.kind(), Kind::BFloat16);
}

const SAMPLING: GptSampling =
    GptSampling { temperature: 0.75, top_k: 8, top_p: 0.85, repetition_penalty: 2.0 };

/// The codes of some texts in one batch, each with its own seed and latents.
fn said(model: &Gpt, texts: &[&[i64]], parity: Parity, sampling: &GptSampling) -> Vec<Vec<i64>> {
    let latents: Vec<Tensor> = texts.iter().map(|text| latents(text.len())).collect();
    let mut noises: Vec<SeededNoise> =
        texts.iter().map(|text| SeededNoise::new(text.len() as u64)).collect();
    let sentences = texts.iter().zip(&latents).zip(&mut noises);
    let sentences = sentences
        .map(|((text, latents), noise)| GptSentence { latents, text, most: 99, noise })
        .collect();
    let spoken = model.speak(sentences, sampling, parity).unwrap();
    for one in &spoken {
        assert_eq!(one.stop == Stop::End, one.codes.ends_with(&[13]));
        assert_eq!(one.stop == Stop::Full, one.codes.len() == 11 && !one.codes.ends_with(&[13]));
    }
    spoken.into_iter().map(|one| one.codes).collect()
}

fn latents(seed: usize) -> Tensor {
    Random::new(seed as u64).normal(&[3, 16], 1.0)
}

#[test]
fn a_sentence_is_the_same_alone_and_in_a_batch_to_the_bit() {
    let model = model(0.0);
    let texts: [&[i64]; 8] =
        [&[3, 4, 5], &[7], &[10, 11, 12, 13, 14], &[1, 2], &[6, 6], &[8, 9, 3], &[4], &[2, 5, 11]];
    let alone: Vec<_> =
        texts.iter().flat_map(|text| said(&model, &[text], Parity::Correct, &SAMPLING)).collect();
    for size in [2, 3, 5, 8] {
        let batches = texts.chunks(size);
        let together: Vec<_> =
            batches.flat_map(|texts| said(&model, texts, Parity::Correct, &SAMPLING)).collect();
        assert_eq!(together, alone, "in batches of {size}");
    }
    assert!(alone.iter().any(|codes| codes != &alone[0]));
}

#[test]
fn states_of_decoding_are_those_of_the_second_pass() {
    let model = model(0.0);
    let _guard = tch::no_grad_guard();
    let (latents, text, codes) = (latents(1), [3, 4, 5], [1, 9, 2, 2, 13]);
    let prefix = model.prefix(&latents, &text).unwrap().squeeze_dim(0);
    let (mut caches, state) = model.prefill(&[&prefix], codes.len() as i64);
    let mut states = vec![model.normed(&state)];
    for code in &codes[..codes.len() - 1] {
        let code = Tensor::from_slice(&[*code]).view([1, 1]);
        states.push(model.normed(&model.follow(&code, &mut caches)));
    }
    let second = model.hidden_states(&latents, &text, &codes).unwrap();
    assert!(far(&Tensor::cat(&states, 0), &second) < 1e-5);
}

#[test]
fn only_upstream_penalises_the_number_that_stands_for_the_prefix() {
    let model = model(0.0);
    // Code 1 is the most likely, and the penalty puts code 2 before it.
    for (code, bias) in [(1, 50.0), (2, 40.0)] {
        let _ = model.mel_head.bias.as_ref().unwrap().get(code).fill_(bias);
        let _ = model.mel_head.weight.get(code).fill_(0.0);
    }
    let sampling = GptSampling { temperature: 0.0, ..SAMPLING };
    assert_eq!(said(&model, &[&[3, 4]], Parity::Correct, &sampling)[0][0], 1);
    assert_eq!(said(&model, &[&[3, 4]], Parity::Upstream, &sampling)[0][0], 2);
}

#[test]
fn what_the_model_has_no_room_for_is_refused() {
    let model = model(0.0);
    let error = |latents: &Tensor, text: &[i64], codes: &[i64]| {
        model.hidden_states(latents, text, codes).unwrap_err().to_string()
    };
    let fitting = latents(1);
    assert!(error(&fitting, &[1; 11], &[1]).contains("11 text tokens, expected at most 10"));
    assert!(error(&fitting, &[20], &[1]).contains("text tokens from 0 to 19, found 20"));
    assert!(error(&fitting, &[1], &[1; 12]).contains("12 codes, expected at most 11"));
    assert!(error(&fitting.tr(), &[1], &[1]).contains("latents of [16, 3], expected [3, 16]"));
}
