//! The memory of training steps against the formulas of a plan. One test in a program of its own:
//! it measures the peak memory of the process.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use nix::libc;
use stage_families::training::{Adapters, Memory, Setting};
use stage_families::xtts::training_memory;
use stage_torch::dual_ar;
use stage_torch::fish as text_model;
use stage_torch::lora::{Adaptable, LoraSettings, attach};
use stage_torch::train::adamw::AdamWSettings;
use stage_torch::train::gradients;
use stage_torch::train::optimisers::{Optimisers, of_phase};
use stage_torch::train::{Phase, Trainee};
use stage_torch::weights::{Weights, is_finite};
use stage_torch::xtts;
use tch::{Kind, Tensor};

/// A plan may be off by this share.
const OFF: f64 = 0.15;

/// Freed memory returns to the system, so the memory of the process is the memory in use.
fn return_freed_memory() {
    // SAFETY: sets options of the allocator and touches nothing else.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 0);
    }
}

/// A line of the process's status, in bytes.
fn of_process(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1024.0
}

/// The peak of the second step above `before`; the first one makes gradients and moments.
fn peak<T: Trainee>(trainee: &mut T, batch: &T::Batch, before: f64) -> f64 {
    let settings = AdamWSettings {
        beta1: 0.9,
        beta2: 0.95,
        epsilon: 1e-5,
        weight_decay: 0.0,
        decays_all: false,
        fused: false,
    };
    let mut optimisers = Optimisers::new(settings, trainee);
    for number in 0..2 {
        if number == 1 {
            std::fs::write("/proc/self/clear_refs", "5").unwrap();
        }
        let totals = T::count(batch);
        trainee.accumulate(batch, &Phase::only(&totals, number)).unwrap();
        let found = gradients::of(&of_phase(trainee, 0));
        optimisers.step(0, &found, 1e-4, 1.0).unwrap();
        gradients::clear(&trainee.parameters());
    }
    of_process("VmHWM:") - before
}

fn setting(adapters: bool, checkpointing: bool, patterns: &[&str]) -> Setting {
    let patterns = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    Setting {
        rows: 1,
        length: 1,
        clip_seconds: 0.0,
        is_half: false,
        checkpointing,
        adapters: adapters.then_some(Adapters { rank: 8, patterns }),
        frozen: Vec::new(),
        keeps_attention: true,
    }
}

fn lora(setting: &Setting) -> Option<LoraSettings> {
    let Adapters { rank, patterns } = setting.adapters.clone()?;
    Some(LoraSettings { rank, alpha: 16.0, dropout: 0.01, patterns })
}

const FISH: &str = r#"{"model_type": "dual_ar", "vocab_size": 6000, "n_layer": 4, "dim": 384,
    "n_head": 8, "n_local_heads": 4, "head_dim": 64, "intermediate_size": 1152,
    "codebook_size": 512, "num_codebooks": 6, "n_fast_layer": 2, "fast_head_dim": 48,
    "attention_qk_norm": true, "fast_attention_qk_norm": false, "tie_word_embeddings": false,
    "scale_codebook_embeddings": true, "max_seq_len": 1024}"#;
const FISH_MODULES: [&str; 5] =
    ["*embeddings", "output", "fast_output", "*layers.*.attention.w*", "*layers.*.feed_forward.w*"];

/// Rows of a text and four times as many frames, all of them with labels.
fn fish_batch(config: &dual_ar::DualArConfig, rows: i64, length: usize) -> dual_ar::DualArBatch {
    let lines = config.num_codebooks as usize + 1;
    let first = length / 5;
    let begin = config.vocab_size - config.codebook_size;
    let mut clip = dual_ar::ClipColumns {
        tokens: vec![0; lines * length],
        labels: vec![-100; lines * length],
    };
    for at in first..length {
        for line in 0..lines {
            let code = ((at * 7 + line) as i64 % config.codebook_size) as i32;
            let code = if line == 0 { code + begin as i32 } else { code };
            (clip.tokens[line * length + at], clip.labels[line * length + at]) = (code, code);
        }
    }
    let clips: Vec<Vec<&dual_ar::ClipColumns>> = (0..rows).map(|_| vec![&clip]).collect();
    dual_ar::DualArBatch::new(config.num_codebooks as usize, &clips, 1).unwrap()
}

fn fish(setting: Setting) -> (f64, Memory) {
    let config = dual_ar::DualArConfig::parse(FISH.as_bytes()).unwrap();
    let setting = Setting { rows: 1, length: 300, ..setting };
    let batch = fish_batch(&config, setting.rows, setting.length as usize);
    let before = of_process("VmRSS:");
    let weights = dual_ar::DualAr::fresh(&config, 7);
    let begin = config.vocab_size - config.codebook_size;
    let tokens = dual_ar::SpecialTokens { semantic_begin: begin, im_end: 3 };
    let mut model = dual_ar::DualAr::load(config.clone(), tokens, weights).unwrap();
    let memory =
        text_model::DualArMemory { recompute: setting.checkpointing, ..Default::default() };
    let lora = lora(&setting);
    if let Some(lora) = &lora {
        attach(&mut model, lora, 1).unwrap();
    }
    let model = if lora.is_some() { model } else { model.train_all() };
    let mut trainee = text_model::DualArTrainee::new(model, memory).unwrap();
    (peak(&mut trainee, &batch, before), config.training_memory(&setting))
}

fn xtts_config() -> xtts::GptConfig {
    xtts::GptConfig {
        layers: 6,
        width: 384,
        heads: 6,
        text_tokens: 2000,
        max_text_tokens: 80,
        max_audio_tokens: 240,
        perceiver_heads: 4,
        perceiver_head_width: 32,
        conditioning_layers: 2,
        conditioning_heads: 6,
        ..xtts::XttsConfig::published().gpt
    }
}

fn xtts(setting: Setting) -> (f64, Memory) {
    let config = xtts_config();
    let clip = xtts::GptClip {
        text: (0..60).map(|at| 300 + at).collect(),
        codes: (0..200).collect(),
        mel: vec![0.5; 80 * 517],
        crop: None,
    };
    let packer = xtts::Packer {
        config: &config,
        parity: xtts::Parity::Correct,
        layout: xtts::RowLayout::Packed,
    };
    let batch = packer.pack(&[&clip; 2], xtts::Purpose::Step { seed: 0 }).unwrap();
    let before = of_process("VmRSS:");
    let tensors = config.tensors().into_iter();
    let weights: Weights = tensors
        .map(|(name, shape)| (name, Tensor::randn(&shape, (Kind::Float, tch::Device::Cpu)) * 0.02))
        .collect();
    let mut model = xtts::Gpt::load(&config, weights).unwrap();
    let lora = lora(&setting);
    if let Some(lora) = &lora {
        attach(&mut model, lora, 1).unwrap();
    }
    let memory = xtts::GptMemory { recompute: setting.checkpointing, ..Default::default() };
    let model = if lora.is_some() { model } else { model.train_all() };
    let mut trainee = xtts::GptTrainee::new(model, memory);
    let setting = Setting { rows: 2, length: batch.columns() as i64 / 2, ..setting };
    (peak(&mut trainee, &batch, before), training_memory(&config, &setting))
}

/// Tensors are checked while they are loaded, beside all others: a copy in f64 would be their peak.
fn a_check_of_a_tensor_copies_little_of_it() {
    let tensor = Tensor::ones([50_000_000], (Kind::Float, tch::Device::Cpu));
    let before = of_process("VmRSS:");
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    assert!(is_finite(&tensor));
    let copied = of_process("VmHWM:") - before;
    assert!(copied < 5e7, "{copied}");
    let _ = tensor.get(49_999_999).fill_(f64::NAN);
    assert!(!is_finite(&tensor));
}

#[test]
fn a_step_takes_what_the_plan_says() {
    return_freed_memory();
    a_check_of_a_tensor_copies_little_of_it();
    tch::manual_seed(1);
    tch::set_num_threads(1);
    // Memory that libtorch loads for its first products is counted elsewhere.
    xtts(setting(false, true, &[]));
    let mut off = Vec::new();
    for (adapters, checkpointing) in [(false, false), (false, true), (true, false), (true, true)] {
        for (name, (measured, planned)) in [
            ("fish", fish(setting(adapters, checkpointing, &FISH_MODULES))),
            ("xtts", xtts(setting(adapters, checkpointing, &["gpt.gpt.h.*"]))),
        ] {
            let share = measured / planned.total();
            let line = format!(
                "{name}, adapters {adapters}, checkpointing {checkpointing}: {:.0} MB, {share:.2} of {:.0} ({planned:.0?})",
                measured / 1e6,
                planned.total() / 1e6,
            );
            println!("{line}");
            if (share - 1.0).abs() > OFF {
                off.push(line);
            }
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}
