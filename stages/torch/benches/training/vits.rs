//! VITS: steps of both networks, and separately the alignment and the decoder.

use std::hint::black_box;
use std::path::Path;

use serde_json::json;
use stage_torch::train::Trainee;
use stage_torch::vits::{
    LossWeights, Networks, Recording, TrainingOptions, VitsBatch, VitsConfig, VitsTrainee,
    WeightForm, align, fresh, prepare,
};
use stage_torch::weights::Weights;
use tch::{Kind, Tensor};

use crate::memory::Memory;
use crate::step::Bench;
use crate::{Options, Spec, read, weights};

pub fn serve(folder: &Path, spec: &Spec, options: &Options) {
    let memory = Memory::new(options.gpu);
    let config = VitsConfig::parse(spec.config.to_string().as_bytes()).unwrap();
    let weights = weights(folder, || {
        let both = [fresh::generator(&config, 1), fresh::discriminator(&config, 1)];
        both.into_iter().flatten().collect()
    });
    let prepared = prepare(&config, weights, WeightForm::Normed, options.device());
    let loss = LossWeights { mel: 45.0, kl: 1.0, ..LossWeights::default() };
    let kind = options.precision.kind();
    let training = TrainingOptions { bands: 80, weights: loss, dropout: false, fade_in: 0, kind };
    let nets = Networks::new(&config, prepared.unwrap(), training).unwrap();
    let batch = batch(&read(folder, "batch.safetensors"), config.hop());
    let clip = &batch.clips[0];
    let (tokens, frames) = (clip.tokens.len(), clip.wave.len() / config.hop() as usize);
    let device = options.device();
    let latents = Tensor::randn([1, config.flow_size, frames as i64], (Kind::Float, device));
    let more = |trainee: &VitsTrainee, work: &str| {
        match work {
            "align" => one_alignment(frames, tokens),
            "speak" => speak(trainee, &latents),
            other => panic!("no work `{other}`"),
        }
        json!({})
    };
    Bench::new(VitsTrainee::new(nets), batch, spec, options).serve(memory, more);
}

fn batch(data: &Weights, hop: i64) -> VitsBatch {
    let clip = |at: usize| {
        let tokens = data.get(&format!("{at}.tokens"))?.to_kind(Kind::Int64).contiguous();
        let wave = data.get(&format!("{at}.wave"))?.contiguous();
        Some(Recording {
            key: at as u64,
            tokens: Vec::try_from(tokens).unwrap(),
            wave: Vec::try_from(wave).unwrap(),
            spectrogram: None,
            speaker: None,
        })
    };
    VitsBatch::new((0..).map_while(clip).collect(), hop)
}

/// The alignment of frames and tokens.
fn one_alignment(frames: usize, tokens: usize) {
    let scores: Vec<f32> = (0..frames * tokens).map(|at| (at as f32 * 0.37).sin()).collect();
    black_box(align(&scores, frames, tokens, tokens).unwrap());
}

/// Sound from latents.
fn speak(trainee: &VitsTrainee, latents: &Tensor) {
    let _guard = tch::no_grad_guard();
    let model = trainee.network().generator();
    let frames = latents.size()[2];
    let mask = Tensor::ones([1, 1, frames], (Kind::Float, latents.device()));
    let latents = model.flow.reverse(latents, &mask, None);
    drop(model.decoder.forward(&latents, None));
}
