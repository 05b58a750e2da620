//! How fast VITS of the published size is, with random weights, on as many threads as the
//! command line says: the alignment of frames and tokens, sound from latents, and the losses of
//! a clip with their gradients. `vits.py` beside this measures the reference;
//! `tools/bench_vits.sh` runs both.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::hint::black_box;
use std::time::Instant;

use stage_torch::vits::{
    Clips, Config, Form, Lessons, LossWeights, Nets, Prepared, align, prepare,
};
use stage_torch::weights::Weights;
use tch::{Device, Kind, Tensor};

/// The script in Python has the same.
const ROUNDS: usize = 5;
const FRAMES: i64 = 200;
const TOKENS: i64 = 121;

fn main() {
    // What cargo adds is let pass.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    // Nothing to measure: cargo runs benchmarks as tests, too.
    let [threads] = words.as_slice() else { return };
    tch::set_num_threads(threads.parse().expect("a number of threads"));
    for (frames, tokens) in [(200, 121), (625, 301), (1250, 601)] {
        let scores: Vec<f32> = (0..frames * tokens).map(|at| (at as f32 * 0.37).sin()).collect();
        report(&format!("align {frames} frames, {tokens} tokens"), || {
            black_box(align(&scores, frames, tokens, tokens).unwrap());
        });
    }
    let config = Config { model_type: "vits".into(), ..Config::default() };
    let weights = LossWeights::default();
    let lessons = Lessons { bands: 80, weights, dropout: false, kind: Kind::Float };
    let mut trainee = Nets::new(&config, random(&config), lessons).unwrap();
    let model = trainee.generator();
    let options = (Kind::Float, Device::Cpu);
    let latents = Tensor::randn([1, config.flow_size, FRAMES], options);
    let mask = Tensor::ones([1, 1, FRAMES], options);
    report("sound from 200 frames (3.2 s)", || {
        let _guard = tch::no_grad_guard();
        let latents = model.flow.reverse(&latents, &mask, None).unwrap();
        drop(model.decoder.forward(&latents, None).unwrap());
    });
    let wave: Vec<f32> = (0..FRAMES * config.hop()).map(|at| (at as f32 * 0.05).sin()).collect();
    let texts = model.texts(&[vec![1; TOKENS as usize]]).unwrap();
    let clips = Clips::new(model, trainee.analysis(), texts, &[&wave], None).unwrap();
    let totals = Nets::count(&clips);
    report("losses and gradients of a clip of 3.2 s", || {
        let made = trainee.make(&clips, 1).unwrap();
        trainee.judge(&made, &totals).unwrap();
        trainee.speak(&made, &totals).unwrap();
    });
    report("the same where the generator's turn makes it again", || {
        let made = tch::no_grad(|| trainee.make(&clips, 1)).unwrap();
        trainee.judge(&made, &totals).unwrap();
        drop(made);
        let made = trainee.make(&clips, 1).unwrap();
        trainee.speak(&made, &totals).unwrap();
    });
}

fn random(config: &Config) -> Prepared {
    let tensors = config.generator().into_iter().chain(config.discriminator());
    let tensor = |shape: &[i64]| {
        let inputs: i64 = shape.iter().skip(1).product();
        Tensor::randn(shape, (Kind::Float, Device::Cpu)) * (inputs as f64).powf(-0.5) * 0.5
    };
    let weights: Weights = tensors.map(|(name, shape)| (name, tensor(&shape))).collect();
    prepare(config, weights, Form::Normed, Device::Cpu).unwrap()
}

/// The best round: others were disturbed.
fn report(what: &str, mut work: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("throstle   {what}: {:.3} ms", best * 1e3);
}
