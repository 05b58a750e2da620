//! The part of a training's state without tensors.

use serde::{Deserialize, Serialize};

use super::early_stop::{EarlyStop, Ranking, StepLoss};
use super::order::Cursor;
use super::precision::{Precision, Scaler};

/// Saved after whole steps only. An interrupted step, also in the middle of its accumulation, is
/// repeated from its start: its gradients are as large as the model, and saving them would cost
/// more than the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingState {
    /// Finished steps.
    pub step: u64,
    /// The number of updates by the optimiser of the first phase: fewer than steps if some were
    /// skipped.
    pub updates: u64,
    /// The same for the other phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_updates: Vec<u64>,
    pub cursor: Cursor,
    pub scaler: Scaler,
    /// Unknown in the checkpoints of earlier versions.
    #[serde(default)]
    pub precision: Option<Precision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched: Option<Switch>,
    /// Rows per micro-batch; halved when they do not fit into the memory of the device.
    pub rows: usize,
    /// Steps with non-finite gradients, in total and in a row.
    pub skipped: u64,
    pub bad: u64,
    pub went_back: Option<Return>,
    pub early_stop: EarlyStop,
    pub ranking: Ranking,
    pub ended: bool,
    /// The last loss on held-out clips, and its step.
    pub held_out: Option<StepLoss>,
    /// The names of the recorded values; the values themselves are in a tensor.
    pub recorded: Vec<String>,
}

/// A return to an earlier state: its step, and the step of the return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    pub after: u64,
    pub to: u64,
}

/// A change of the precision: the last step in the former one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    pub after: u64,
    pub from: Option<Precision>,
    pub to: Precision,
}

impl TrainingState {
    pub fn new(precision: Precision, rows: usize) -> TrainingState {
        TrainingState {
            step: 0,
            updates: 0,
            later_updates: Vec::new(),
            cursor: Cursor::default(),
            scaler: Scaler::new(precision),
            precision: Some(precision),
            switched: None,
            rows,
            skipped: 0,
            bad: 0,
            went_back: None,
            early_stop: EarlyStop::default(),
            ranking: Ranking::default(),
            ended: false,
            held_out: None,
            recorded: Vec::new(),
        }
    }

    /// Continues in this precision. In another one than before, the loss scale begins anew: that
    /// of the former one belongs to the range of its numbers. Returns the change, if it is one.
    pub fn continue_in(&mut self, precision: Precision) -> Option<Switch> {
        let is_same = match self.precision {
            Some(before) => before == precision,
            None => self.scaler.is_of(precision),
        };
        let before = self.precision.replace(precision);
        if is_same {
            return None;
        }
        self.scaler = Scaler::new(precision);
        self.switched = Some(Switch { after: self.step, from: before, to: precision });
        self.switched
    }

    /// Updates by phase.
    pub fn updates(&self) -> Vec<u64> {
        [std::slice::from_ref(&self.updates), &self.later_updates].concat()
    }

    pub fn set_updates(&mut self, updates: &[u64]) {
        if let Some((first, later)) = updates.split_first() {
            (self.updates, self.later_updates) = (*first, later.to_vec());
        }
    }
}
