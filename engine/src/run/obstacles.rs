//! What keeps a pass from starting more work, and how it ends.

use super::board::{Board, StageState};

/// The end of a pass over the plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    Done,
    Failed,
    Paused,
    /// An object was lost and its records were removed: planning again makes it again.
    Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A failure ends the run.
    Failure,
    /// An object is lost: the pass ends, and the next one plans again.
    Loss,
    /// A machine fault pauses the run.
    MachineFault,
    /// Every trial of a sweep has failed.
    NoTrial,
}

#[derive(Default)]
pub struct Obstacles(Vec<Obstacle>);

impl Obstacles {
    /// True the first time.
    pub fn add(&mut self, obstacle: Obstacle) -> bool {
        let is_new = !self.has(obstacle);
        if is_new {
            self.0.push(obstacle);
        }
        is_new
    }

    pub fn has(&self, obstacle: Obstacle) -> bool {
        self.0.contains(&obstacle)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn ending(&self, board: &Board, is_stopping: bool) -> Ending {
        if self.has(Obstacle::Loss) && !is_stopping && !self.has(Obstacle::MachineFault) {
            Ending::Again
        } else if board.any(StageState::Failed) || self.has(Obstacle::NoTrial) {
            Ending::Failed
        } else if board.any(StageState::Left) {
            Ending::Paused
        } else {
            Ending::Done
        }
    }
}
