//! What a training is told to do.

use tch::Kind;

use super::adamw::AdamWSettings;
use super::early_stop::EarlyStopSettings;
use super::order::Grouping;
use super::precision::Precision;
use super::schedule::Schedule;

#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    /// Optimiser steps in all.
    pub steps: u64,
    pub grouping: Grouping,
    /// Rows of a micro-batch, and micro-batches of a step over all devices together.
    pub rows: usize,
    pub accumulate: usize,
    pub precision: Precision,
    pub adamw: AdamWSettings,
    pub schedule: Schedule,
    /// The largest L2 norm of all gradients together.
    pub clip: Option<f64>,
    /// Steps between validations; there is one before the first step and one after the last.
    pub validate_every: u64,
    pub early_stop: Option<EarlyStopSettings>,
    /// How many of the best states on held-out clips are kept.
    pub keep_best: usize,
    /// What the kept states are rounded to; the optimiser's f32 otherwise.
    pub keep_kind: Option<Kind>,
    pub checkpoint: Checkpoints,
    /// Steps in a row without finite gradients after which training goes back to its best
    /// state, or fails where it did so before or has none.
    pub bad_steps: u64,
    /// Steps between the values that the training leaves behind.
    pub record_every: u64,
    /// Steps between reports.
    pub report_every: u64,
}

/// When a checkpoint is saved: whatever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Checkpoints {
    pub steps: Option<u64>,
    pub seconds: Option<f64>,
}

impl Settings {
    /// Rows that one optimiser step learns from.
    pub fn rows_of_step(&self) -> usize {
        self.rows.max(1) * self.accumulate.max(1)
    }
}
