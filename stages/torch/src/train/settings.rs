//! The settings of a training.

use stage_formats::pattern::is_match;
use tch::Kind;

use super::adamw::AdamWSettings;
use super::early_stop::EarlyStopSettings;
use super::optimisers::PhaseSettings;
use super::order::Grouping;
use super::precision::Precision;
use super::schedule::Schedule;

#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    /// The number of optimiser steps.
    pub steps: u64,
    /// The step after which the training ends, if that is before the last one.
    pub until: Option<u64>,
    pub grouping: Grouping,
    /// Rows per micro-batch, and micro-batches per step over all devices.
    pub rows: usize,
    pub accumulate: usize,
    pub precision: Precision,
    pub adamw: AdamWSettings,
    /// The phases with an optimiser of their own.
    pub phases: Vec<PhaseSettings>,
    pub schedule: Schedule,
    /// The parameters that are trained alone at first, if any.
    pub first: Option<FirstPhase>,
    /// The largest L2 norm of all gradients together.
    pub clip: Option<f64>,
    /// Steps between validations; there is also one before the first step and one after the last.
    pub validate_every: u64,
    pub early_stop: Option<EarlyStopSettings>,
    /// The number of best states on held-out clips that are kept.
    pub keep_best: usize,
    /// The interval in steps of states that are kept whatever their loss.
    pub keep_every: Option<u64>,
    /// The type of the kept states; else the optimiser's f32.
    pub keep_kind: Option<Kind>,
    pub checkpoint: Checkpoints,
    /// The number of successive steps without finite gradients after which training returns to its
    /// best state, or fails if it did so before or has none.
    pub bad_steps: u64,
    /// Steps between recorded values.
    pub record_every: u64,
    /// Steps between reports.
    pub report_every: u64,
}

/// The start of a training, in which only some parameters are trained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstPhase {
    pub steps: u64,
    /// Patterns of the names of these parameters.
    pub parameters: Vec<String>,
}

/// The interval of checkpoints: the earlier one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Checkpoints {
    pub steps: Option<u64>,
    pub seconds: Option<f64>,
}

impl Settings {
    /// The number of rows per optimiser step.
    pub fn rows_of_step(&self) -> usize {
        self.rows.max(1) * self.accumulate.max(1)
    }

    /// The last step of this training.
    pub fn last_step(&self) -> u64 {
        self.until.map_or(self.steps, |until| until.min(self.steps))
    }

    /// Tests if a parameter is trained in a step.
    pub fn learns(&self, parameter: &str, step: u64) -> bool {
        self.first.as_ref().is_none_or(|first| {
            step >= first.steps || first.parameters.iter().any(|own| is_match(own, parameter))
        })
    }
}
