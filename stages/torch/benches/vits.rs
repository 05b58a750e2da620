//! How fast VITS speaks and learns, with random weights and at the size that it is told. `vits.py`
//! beside this has it take turns with the reference: each line that arrives names a piece of
//! work, and is answered with the seconds that this took, by the clock and as CPU time of the
//! program itself. `tools/bench_vits.sh` runs the two.
//!
//!     vits THREADS FRAMES TOKENS CONFIG
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::hint::black_box;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use stage_torch::train::adamw::{AdamW, AdamWSettings};
use stage_torch::train::gradients;
use stage_torch::vits::{
    Clips, Config, Form, Lessons, LossWeights, Net, Nets, Prepared, align, prepare,
};
use stage_torch::weights::Weights;
use tch::{Device, Kind, Tensor};

/// As in `vits.py`, where those are of the recipe that is used most.
const RATE: f64 = 2e-4;
const SETTINGS: AdamWSettings =
    AdamWSettings { beta1: 0.8, beta2: 0.99, epsilon: 1e-9, weight_decay: 0.01, decays_all: true };

fn main() {
    // What cargo adds is let pass.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    // Nothing to measure: cargo runs benchmarks as tests, too.
    let [threads, frames, tokens, config] = words.as_slice() else { return };
    tch::set_num_threads(threads.parse().expect("a number of threads"));
    let config = Config::parse(config.as_bytes()).unwrap();
    let mut bench = Bench::new(config, frames.parse().unwrap(), tokens.parse().unwrap());
    for line in std::io::stdin().lines() {
        let (wall, user) = (Instant::now(), user_seconds());
        bench.work(&line.unwrap());
        println!("{} {}", wall.elapsed().as_secs_f64(), user_seconds() - user);
    }
}

fn user_seconds() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).unwrap().user_time().num_microseconds() as f64 * 1e-6
}

struct Bench {
    nets: Nets,
    optimisers: [AdamW; 2],
    clips: Clips,
    latents: Tensor,
    frames: i64,
    tokens: i64,
}

impl Bench {
    fn new(config: Config, frames: i64, tokens: i64) -> Bench {
        let weights = LossWeights::default();
        let lessons = Lessons { bands: 80, weights, dropout: false, kind: Kind::Float };
        let nets = Nets::new(&config, random(&config), lessons).unwrap();
        let wave: Vec<f32> =
            (0..frames * config.hop()).map(|at| (at as f32 * 0.05).sin()).collect();
        let texts = nets.generator().texts(&[vec![1; tokens as usize]]).unwrap();
        let clips = Clips::new(nets.generator(), nets.analysis(), texts, &[&wave], None).unwrap();
        let shared = |(name, tensor): &(String, Tensor)| (name.clone(), tensor.shallow_clone());
        let optimiser = |net| {
            let parameters = nets.parameters(net).iter().map(shared).collect();
            AdamW::new(SETTINGS, parameters).unwrap()
        };
        let optimisers = [Net::Discriminator, Net::Generator].map(optimiser);
        let latents = Tensor::randn([1, config.flow_size, frames], (Kind::Float, Device::Cpu));
        Bench { nets, optimisers, clips, latents, frames, tokens }
    }

    fn work(&mut self, name: &str) {
        match name {
            "align" => self.align(),
            "speak" => self.speak(),
            "step" => self.step(true),
            "step, made twice" => self.step(false),
            other => panic!("`{other}` is no work"),
        }
    }

    /// The alignment of frames and tokens.
    fn align(&self) {
        let (frames, tokens) = (self.frames as usize, self.tokens as usize);
        let scores: Vec<f32> = (0..frames * tokens).map(|at| (at as f32 * 0.37).sin()).collect();
        black_box(align(&scores, frames, tokens, tokens).unwrap());
    }

    /// Sound from latents.
    fn speak(&self) {
        let _guard = tch::no_grad_guard();
        let model = self.nets.generator();
        let mask = Tensor::ones([1, 1, self.frames], (Kind::Float, Device::Cpu));
        let latents = model.flow.reverse(&self.latents, &mask, None).unwrap();
        drop(model.decoder.forward(&latents, None).unwrap());
    }

    /// A training step of both nets. Where it is not kept, what the generator made is made again
    /// for its own turn.
    fn step(&mut self, keeps: bool) {
        let Bench { nets, optimisers: [judging, speaking], clips, .. } = self;
        let totals = Nets::count(clips);
        for net in [Net::Discriminator, Net::Generator] {
            gradients::clear(nets.parameters(net));
        }
        let make = || nets.make(clips, 1).unwrap();
        let mut made = if keeps { make() } else { tch::no_grad(make) };
        nets.judge(&made, &totals).unwrap();
        judging.step(&gradients::of(nets.parameters(Net::Discriminator)), RATE, 1.0).unwrap();
        if !keeps {
            drop(made);
            made = nets.make(clips, 1).unwrap();
        }
        nets.speak(&made, &totals).unwrap();
        speaking.step(&gradients::of(nets.parameters(Net::Generator)), RATE, 1.0).unwrap();
    }
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
