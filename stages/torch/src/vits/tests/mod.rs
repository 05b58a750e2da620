//! VITS in the shared trainer, on the model of the fixture (`fixtures/make_vits.py`).
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod overfit;
mod precision;
mod training;

use std::path::Path;

use stage_core::StageError;
use tch::{Device, Kind};

use super::train::{Networks, TrainingOptions};
use super::{
    LossWeights, NetworkWeights, Recording, VitsBatch, VitsConfig, VitsTrainee, WeightForm, prepare,
};
use crate::error::TorchError;
use crate::nn::random::{Random, scramble};
use crate::nn::weights::Weights;
use crate::runtime::threads::one_thread;
use crate::train::adamw::AdamWSettings;
use crate::train::order::{ClipEntry, Grouping, Row};
use crate::train::precision::Precision;
use crate::train::run::Purpose;
use crate::train::schedule::{Decay, Schedule};
use crate::train::settings::{Checkpoints, Settings};
use crate::train::tests::memory::MemoryHost;
use crate::train::{Data, TrainingJob, TrainingResult, train};

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vits");
    std::fs::read(folder.join(name)).unwrap()
}

fn config() -> VitsConfig {
    let fixture: serde_json::Value = serde_json::from_slice(&read("fixture.json")).unwrap();
    VitsConfig::parse(fixture["settings"]["config"].to_string().as_bytes()).unwrap()
}

fn file() -> Weights {
    Weights::from_safetensors(&read("model.safetensors")).unwrap()
}

fn prepared() -> NetworkWeights {
    prepare(&config(), file(), WeightForm::Normed, Device::Cpu).unwrap()
}

fn options() -> TrainingOptions {
    let weights = LossWeights { mel: 35.0, kl: 1.5, ..LossWeights::default() };
    TrainingOptions { bands: 10, weights, dropout: false, fade_in: 0, kind: Kind::Float }
}

fn nets(options: TrainingOptions) -> Networks {
    Networks::new(&config(), prepared(), options).unwrap()
}

fn trainee() -> VitsTrainee {
    VitsTrainee::new(nets(options()))
}

/// Clips of two tones each, of about a fiftieth of a second.
struct Tones(Vec<Recording>);

impl Tones {
    fn new(count: usize) -> Tones {
        Tones((0..count as u64).map(recording).collect())
    }

    fn clips(&self) -> Vec<ClipEntry> {
        let frames = |one: &Recording| one.wave.len() / config().hop() as usize;
        let clip = |(at, one)| ClipEntry { id: format!("clip{at}"), length: frames(one), group: 0 };
        self.0.iter().enumerate().map(clip).collect()
    }
}

fn recording(number: u64) -> Recording {
    let mut random = Random::new(scramble(number));
    let letters = 2 + random.draw() % 3;
    let mut tokens = vec![0];
    tokens.extend((0..letters).flat_map(|_| [(random.draw() % 12) as i64, 0]));
    let pitches = [0.2 + random.fraction(), 1.0 + random.fraction()];
    let sample = |at: usize| {
        let at = at as f64;
        (0.4 * (pitches[0] * at).sin() + 0.15 * (pitches[1] * at).sin()) as f32
    };
    let wave = (0..150 + (random.draw() % 120) as usize).map(sample).collect();
    Recording { key: scramble(!number), tokens, wave, spectrogram: None, speaker: None }
}

impl Data<VitsBatch> for Tones {
    fn batch(&self, rows: &[Row], _: Purpose) -> Result<VitsBatch, TorchError> {
        let clips = rows.iter().flatten().map(|clip| self.0[*clip].clone()).collect();
        Ok(VitsBatch::new(clips, config().hop()))
    }

    fn name(&self, clip: usize) -> String {
        format!("clip {clip}")
    }
}

fn settings() -> Settings {
    Settings {
        seed: 1,
        steps: 5,
        until: None,
        grouping: Grouping::Buckets { length: 40, rows: 4 },
        rows: 2,
        accumulate: 2,
        precision: Precision::F32,
        adamw: AdamWSettings {
            beta1: 0.8,
            beta2: 0.99,
            epsilon: 1e-9,
            weight_decay: 0.01,
            decays_all: true,
            fused: false,
        },
        phases: Vec::new(),
        schedule: Schedule {
            rate: 1e-3,
            warm_up: 0,
            from_zero: true,
            decay: Decay::Exponential { factor: 0.999875, every: 2 },
        },
        first: None,
        clip: Some(1000.0),
        validate_every: 2,
        early_stop: None,
        keep_best: 1,
        keep_every: None,
        keep_kind: None,
        checkpoint: Checkpoints { steps: Some(2), seconds: None },
        bad_steps: 3,
        record_every: 1,
        report_every: 1,
    }
}

/// Trains replicas on clips with every fifth held out.
fn run(
    replicas: &mut [VitsTrainee],
    tones: &Tones,
    settings: &Settings,
    host: &mut MemoryHost,
) -> Result<TrainingResult, StageError> {
    one_thread();
    let clips = tones.clips();
    let held_out: Vec<bool> = (0..clips.len()).map(|at| at % 5 == 4).collect();
    train(TrainingJob { replicas, data: tones, clips: &clips, held_out: &held_out, settings }, host)
}
