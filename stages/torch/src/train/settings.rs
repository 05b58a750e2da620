//! What a training is told to do.

use stage_formats::pattern::is_match;
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
    /// What is trained alone at first, if anything.
    pub first: Option<FirstPhase>,
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

/// The beginning of a training, in which only some parameters learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstPhase {
    pub steps: u64,
    /// Patterns of the names of these parameters.
    pub parameters: Vec<String>,
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

    /// Whether a parameter learns in a step.
    pub fn learns(&self, parameter: &str, step: u64) -> bool {
        self.first.as_ref().is_none_or(|first| {
            step >= first.steps || first.parameters.iter().any(|own| is_match(own, parameter))
        })
    }
}
