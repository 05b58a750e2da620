//! The time that the text model of Fish Speech takes for a number of frames, with random weights.
//! Each line on standard input is a number of sentences to speak at once; the answer is a line with
//! the seconds that they took, and the seconds of CPU time. `speech.py` beside this has the original
//! code take turns with it, and `tools/bench_speech.sh` runs both.
//!
//!     speech SIZE THREADS FRAMES PROMPT [GPU]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use stage_torch::dual_ar::{
    DualAr, DualArConfig, DualArSampling, DualArSentence, SeededNoise, SpecialTokens,
};
use tch::{Device, Kind};

fn main() {
    // Arguments that cargo adds are ignored.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    // Nothing to measure: cargo runs benchmarks as tests, too.
    let [size, threads, frames, prompt, gpu @ ..] = words.as_slice() else { return };
    let number = |word: &String| word.parse::<usize>().expect("a number");
    let (threads, frames, prompt) = (number(threads), number(frames), number(prompt));
    tch::set_num_threads(threads as i32);
    let device = gpu.first().map_or(Device::Cpu, |gpu| {
        let gpu = number(gpu);
        stage_torch::open_gpu(gpu).unwrap();
        Device::Cuda(gpu)
    });
    let model = model(size, device);
    for line in std::io::stdin().lines() {
        let sentences = number(&line.unwrap().trim().to_owned());
        let (seconds, cpu) = seconds(&model, sentences, prompt, frames);
        println!("{seconds} {cpu}");
    }
}

/// The same size as in `speech.py` under this name; bf16 on a GPU.
fn model(size: &str, device: Device) -> DualAr {
    let config = match size {
        "published" => DualArConfig::s1_mini().unwrap(),
        _ => DualArConfig::parse(
            r#"{"model_type": "dual_ar", "vocab_size": 8192, "n_layer": 6, "n_head": 4,
                "n_local_heads": 2, "dim": 256, "head_dim": 64, "intermediate_size": 768,
                "max_seq_len": 1024, "tie_word_embeddings": false, "attention_qk_norm": true,
                "codebook_size": 1024, "num_codebooks": 8, "scale_codebook_embeddings": true,
                "n_fast_layer": 2, "fast_attention_qk_norm": false, "fast_head_dim": 64,
                "rope_base": 1e6, "norm_eps": 1e-6}"#
                .as_bytes(),
        )
        .unwrap(),
    };
    let begin = config.vocab_size - config.codebook_size;
    let tokens = SpecialTokens { semantic_begin: begin, im_end: begin - 1 };
    let kind = if device == Device::Cpu { Kind::Float } else { Kind::BFloat16 };
    let weights = DualAr::fresh(&config, 1).moved(device, Some(kind));
    DualAr::load(config, tokens, weights).unwrap()
}

/// All sentences have the same length; they cannot end early.
fn seconds(model: &DualAr, sentences: usize, prompt: usize, frames: usize) -> (f64, f64) {
    let codebooks = model.config().num_codebooks as usize;
    let text = |at: usize| if at < prompt { at as i32 % 1000 } else { 0 };
    let prompt: Vec<i32> = (0..prompt * (codebooks + 1)).map(text).collect();
    let mut noises: Vec<SeededNoise> =
        (0..sentences).map(|seed| SeededNoise::new(seed as u64)).collect();
    let sentences = noises.iter_mut().map(|noise| DualArSentence {
        prompt: &prompt,
        most: frames,
        least: frames,
        noise,
    });
    let sentences = sentences.collect();
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let speech = model.generate(sentences, &DualArSampling::default()).unwrap();
    assert!(speech.iter().all(|speech| speech.frames == frames));
    (start.elapsed().as_secs_f64(), cpu_seconds() - cpu)
}

/// Of all threads of this process.
fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}
