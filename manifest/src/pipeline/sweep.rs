//! Sweeps: the trials of a stage, their rungs, and the score that ranks them.

use std::collections::BTreeMap;
use std::fmt::Write;

use stage_core::ParameterValue;
use stage_expression::Whole;

use super::StageId;
use crate::sweep::halving::Halving;

#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    pub name: String,
    /// The written name of the stage.
    pub stage: String,
    /// The swept values as the stage itself has them.
    pub written: Vec<(&'static str, ParameterValue)>,
    /// Trial 0 has the values as they are written, or were before another trial was promoted.
    pub trials: Vec<Trial>,
    pub halving: Halving,
    /// `until` of each rung; `Absent` for the last one, which is a whole training.
    pub until: Vec<ParameterValue>,
    /// Further trainings of each trial of the last rung, with other seeds.
    pub repeats: usize,
    pub score: Option<ScoreMeasure>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// As in `trained[trial=3]`; numbers of trials with the same values are left out.
    pub number: String,
    pub values: Vec<(&'static str, ParameterValue)>,
}

/// The measure of trials.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreMeasure {
    /// The written name of the stage with the measured data set or artifact.
    pub stage: String,
    pub port: &'static str,
    pub text: String,
    pub measure: Whole,
    pub is_higher_better: bool,
    /// The instances of that stage, by rung and trial.
    pub stages: BTreeMap<(usize, usize), StageId>,
}

/// The position of a stage in a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrialPosition {
    /// In [`super::Pipeline::sweeps`].
    pub sweep: usize,
    pub trial: usize,
    /// Numbers above those of the rungs are repeats with other seeds.
    pub rung: usize,
}

impl Sweep {
    /// The rungs, without repeats.
    pub fn rungs(&self) -> usize {
        self.halving.rungs.len()
    }

    pub fn last_rung(&self) -> usize {
        self.rungs().saturating_sub(1)
    }

    /// The label of a rung or repeat in names of stages.
    pub fn label(&self, rung: usize) -> String {
        match rung.checked_sub(self.rungs()) {
            None => (rung + 1).to_string(),
            Some(repeat) => format!("repeat{}", repeat + 1),
        }
    }

    pub fn trial(&self, number: &str) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.number == number)
    }
}

impl Trial {
    /// `learning_rate = 0.0003, rank = 8`.
    pub fn told(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.values {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{name} = {value}");
        }
        text
    }
}
