//! The notes of a training, each with a count.

use super::precision::Precision;
use super::run::TrainingResult;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes(pub Vec<(String, u64)>);

impl Notes {
    /// Adds to the count of an existing note.
    pub fn add(&mut self, what: &str, count: u64) {
        match self.0.iter_mut().find(|(own, _)| own == what) {
            Some((_, own)) => *own += count,
            None => self.0.push((what.to_owned(), count)),
        }
    }

    pub fn of(&self, what: &str) -> u64 {
        self.0.iter().find(|(own, _)| own == what).map_or(0, |(_, count)| *count)
    }

    /// Adds notes about the end of a training.
    pub fn close(mut self, trained: &TrainingResult) -> Vec<(String, u64)> {
        self.add("steps", trained.steps);
        match trained.passes.round() as u64 {
            0 => self.add("less than half a pass over the clips", 1),
            passes => self.add("passes over the clips", passes),
        }
        if trained.stopped_early {
            self.add("ended early by `patience`", 1);
        }
        if trained.skipped > 0 {
            self.add("steps skipped for gradients that are not finite", trained.skipped);
        }
        if trained.diverged.is_some() {
            self.add("the last state diverged: an earlier one is the result", 1);
        }
        if let Some(back) = trained.went_back {
            self.add(&format!("went back to step {} after step {}", back.to, back.after), 1);
        }
        if trained.precision != Precision::F32 {
            self.add(&format!("computed in {}", trained.precision.name()), 1);
        }
        if let Some(switch) = trained.switched {
            let from = switch.from.map_or("another precision", Precision::name);
            let (to, after) = (switch.to.name(), switch.after);
            self.add(&format!("switched from {from} to {to} after step {after}"), 1);
        }
        self.0
    }
}
