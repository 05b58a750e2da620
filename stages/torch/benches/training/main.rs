//! Training steps of one model with chosen switches, at the size and on the data of a folder that
//! `turns.py` beside this has made. Each line on standard input names a piece of work; the answer
//! is a line of JSON. `tools/bench_training.sh` has this take turns with the original code.
//!
//!     training FAMILY FOLDER OPTIONS
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

mod dual_ar;
mod memory;
mod step;
mod vits;
mod xtts;

use std::path::Path;

use serde::Deserialize;
use stage_torch::train::kernels::{AttentionKernel, Kernels};
use stage_torch::train::precision::Precision;
use stage_torch::weights::Weights;
use tch::Device;

/// The switches of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct Options {
    threads: i32,
    /// The number of a GPU; None for the CPU.
    gpu: Option<usize>,
    precision: Precision,
    attention: String,
    checkpointing: bool,
    packing: bool,
    fused: bool,
    /// The rank of adapters; 0 trains all weights.
    rank: i64,
    /// Replaces the dropout of the model, if it has any.
    dropout: Option<f64>,
    attention_dropout: Option<f64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: 1,
            gpu: None,
            precision: Precision::F32,
            attention: "auto".into(),
            checkpointing: false,
            packing: false,
            fused: false,
            rank: 0,
            dropout: None,
            attention_dropout: None,
        }
    }
}

impl Options {
    fn device(&self) -> Device {
        self.gpu.map_or(Device::Cpu, Device::Cuda)
    }
}

/// The description of the folder by `turns.py`.
#[derive(Debug, Deserialize)]
pub struct Spec {
    config: serde_json::Value,
    learning_rate: f64,
    betas: [f64; 2],
    epsilon: f64,
    weight_decay: f64,
    decays_all: bool,
    /// The largest norm of the gradients; 0 for no clipping.
    clip: f64,
    /// Settings of this family only.
    #[serde(default)]
    more: serde_json::Value,
}

impl Spec {
    fn read(folder: &Path) -> Spec {
        serde_json::from_slice(&std::fs::read(folder.join("spec.json")).unwrap()).unwrap()
    }
}

/// A file of tensors in the folder.
fn read(folder: &Path, name: &str) -> Weights {
    Weights::from_safetensors(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

/// The weights that the original code has written, else `fresh` ones.
fn weights(folder: &Path, fresh: impl FnOnce() -> Weights) -> Weights {
    if folder.join("model.safetensors").exists() {
        read(folder, "model.safetensors")
    } else {
        fresh()
    }
}

fn main() {
    // Arguments that cargo adds are ignored.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    // Nothing to measure: cargo runs benchmarks as tests, too.
    let [family, folder, options] = words.as_slice() else { return };
    let options: Options = serde_json::from_str(options).unwrap();
    let folder = Path::new(folder);
    if let Some(number) = options.gpu {
        stage_torch::open_gpu(number).unwrap();
    }
    // With a GPU, a worker computes on one thread of the processor.
    tch::set_num_threads(if options.gpu.is_some() { 1 } else { options.threads });
    let tf32 = options.precision == Precision::Tf32;
    let kernels = Kernels { attention: AttentionKernel::parse(&options.attention), tf32 };
    let _in_use = kernels.begin().unwrap();
    let spec = Spec::read(folder);
    match family.as_str() {
        "dual_ar" => dual_ar::serve(folder, &spec, &options),
        "vits" => vits::serve(folder, &spec, &options),
        "xtts" => xtts::serve(folder, &spec, &options),
        other => panic!("no family `{other}`"),
    }
}
