//! The trainer on a model of letters.
#![allow(clippy::unwrap_used)]

mod diverged;
mod loader;
pub mod memory;
mod phases;
mod rehearsal;
mod rescue;
mod resume;
mod rules;
pub mod several;
pub mod tiny;
mod two;

use stage_core::StageError;

use self::memory::MemoryHost;
use self::tiny::{Corpus, Letters};
use super::adamw::AdamWSettings;
use super::order::{ClipEntry, Grouping};
use super::precision::Precision;
use super::schedule::{Decay, Schedule};
use super::settings::{Checkpoints, Settings};
use super::{Data, Trainee, TrainingJob, TrainingResult, train};
use crate::runtime::threads::one_thread;

pub fn settings() -> Settings {
    Settings {
        seed: 1,
        steps: 12,
        until: None,
        grouping: Grouping::Pack { length: 24 },
        rows: 2,
        accumulate: 3,
        precision: Precision::F32,
        adamw: AdamWSettings {
            beta1: 0.9,
            beta2: 0.95,
            epsilon: 1e-5,
            weight_decay: 0.01,
            decays_all: false,
            fused: false,
        },
        phases: Vec::new(),
        schedule: Schedule { rate: 0.02, warm_up: 2, from_zero: true, decay: Decay::Constant },
        first: None,
        clip: Some(1.0),
        validate_every: 4,
        early_stop: None,
        keep_best: 2,
        keep_every: Some(5),
        keep_kind: None,
        checkpoint: Checkpoints { steps: Some(5), seconds: None },
        bad_steps: 3,
        record_every: 1,
        report_every: 1,
    }
}

fn clips(corpus: &Corpus) -> Vec<ClipEntry> {
    let clip = |(number, letters): (usize, &Vec<i64>)| ClipEntry {
        id: format!("clip{number}"),
        length: letters.len(),
        group: 0,
    };
    corpus.0.iter().enumerate().map(clip).collect()
}

fn held_out(corpus: &Corpus) -> Vec<bool> {
    (0..corpus.0.len()).map(|number| number % 5 == 4).collect()
}

/// Trains replicas on a corpus with every fifth clip held out.
fn run<T: Trainee<Batch = Letters>>(
    replicas: &mut [T],
    corpus: &Corpus,
    settings: &Settings,
    host: &mut MemoryHost,
) -> Result<TrainingResult, StageError> {
    run_on(replicas, corpus, corpus, settings, host)
}

/// The same with batches from elsewhere.
fn run_on<T: Trainee<Batch = Letters>>(
    replicas: &mut [T],
    corpus: &Corpus,
    data: &dyn Data<Letters>,
    settings: &Settings,
    host: &mut MemoryHost,
) -> Result<TrainingResult, StageError> {
    // Threads would spend their time waiting for each other.
    one_thread();
    let (clips, held_out) = (clips(corpus), held_out(corpus));
    train(TrainingJob { replicas, data, clips: &clips, held_out: &held_out, settings }, host)
}
