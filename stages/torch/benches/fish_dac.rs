//! The speed of encoding and decoding with the Fish codec, in seconds of audio per second: the
//! model of the fixture in the folder on the command line, on this number of threads, or on the GPU
//! with the number after it. `write SIZE FOLDER` makes a folder with a random model, `published` or
//! `tiny`. `fish_dac.py` beside this measures the reference;
//! `tools/bench_codec.sh` runs both.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods)]

use std::time::Instant;

use safetensors::tensor::{Dtype, TensorView};
use stage_torch::codec::Codec;
use stage_torch::dac::{Dac, DacConfig, DacLayout, Quantizer, Transformer};
use stage_torch::random::Random;
use tch::Device;

/// The length of the clips in seconds, and the number of rounds; the same as in the Python script.
const SECONDS: [f64; 8] = [6.0, 2.5, 4.0, 3.0, 5.0, 3.5, 2.0, 4.5];
const ROUNDS: usize = 4;

fn main() {
    // Arguments that cargo adds are ignored.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    // Nothing to measure: cargo runs benchmarks as tests, too.
    let (folder, threads, gpu) = match words.as_slice() {
        [write, size, folder] if write == "write" => return make(size, folder),
        [folder, threads] => (folder, threads, None),
        [folder, threads, gpu] => (folder, threads, Some(gpu)),
        _ => return,
    };
    let threads = threads.parse().expect("a number of threads");
    let device = gpu.map_or(Device::Cpu, |gpu| {
        let gpu = gpu.parse().expect("the number of a GPU");
        stage_torch::open_gpu(gpu).unwrap();
        Device::Cuda(gpu)
    });
    let bytes = std::fs::read(format!("{folder}/model.safetensors")).unwrap();
    let codec = Dac::load(&bytes, device).unwrap().with_threads(threads);
    let rate = f64::from(codec.format().rate);
    let wave = |seconds: &f64| {
        let sample = |at: usize| (at as f32 * 0.02).sin() * 0.4 + (at as f32 * 0.31).sin() * 0.1;
        (0..(seconds * rate) as usize).map(sample).collect::<Vec<f32>>()
    };
    let waves: Vec<Vec<f32>> = SECONDS.iter().map(wave).collect();
    let waves: Vec<&[f32]> = waves.iter().map(Vec::as_slice).collect();
    let codes = codec.encode(&waves).unwrap();
    report("encode", || drop(codec.encode(&waves).unwrap()));
    report("decode", || {
        std::thread::scope(|scope| {
            for share in 0..threads {
                let own = codes.iter().skip(share).step_by(threads);
                scope.spawn(|| own.for_each(|codes| drop(codec.decode(codes, 0).unwrap())));
            }
        });
    });
}

/// A file with random weights that keep the size of their inputs.
fn make(size: &str, folder: &str) {
    let config = if size == "published" { DacConfig::default() } else { tiny() };
    let mut random = Random::new(1);
    let tensors: Vec<(String, Vec<i64>, Vec<u8>)> = DacLayout::of(&config)
        .0
        .into_iter()
        .map(|(name, shape)| {
            let inputs: i64 = shape.iter().skip(1).product();
            let tensor = random.normal(&shape, (inputs.max(1) as f64).powf(-0.5));
            let values: Vec<f32> = Vec::try_from(tensor.view(-1)).unwrap();
            (name, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let shape = shape.iter().map(|size| *size as usize).collect();
        (name, TensorView::new(Dtype::F32, shape, bytes).unwrap())
    });
    let config = serde_json::to_string(&config).unwrap();
    let metadata = [("config".to_owned(), config)].into();
    let path = format!("{folder}/model.safetensors");
    safetensors::serialize_to_file(views, Some(metadata), path.as_ref()).unwrap();
}

/// The rate and the frames of the published codec.
fn tiny() -> DacConfig {
    let module = Transformer {
        n_layer: 1,
        n_head: 1,
        head_dim: 8,
        dim: 8,
        intermediate_size: 12,
        ..Transformer::default()
    };
    DacConfig {
        encoder_dim: 2,
        encoder_transformer_layers: vec![0; 4],
        latent_dim: 8,
        decoder_dim: 16,
        quantizer: Quantizer {
            semantic_codebook_size: 32,
            n_codebooks: 2,
            codebook_size: 16,
            codebook_dim: 4,
            pre_module: module.clone(),
            post_module: module,
            ..Quantizer::default()
        },
        ..DacConfig::default()
    }
}

/// The best round: others were disturbed.
fn report(what: &str, work: impl Fn()) {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let best = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    println!("throstle   {what}: {:.2} s of audio a second", SECONDS.iter().sum::<f64>() / best);
}
