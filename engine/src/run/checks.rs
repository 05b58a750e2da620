//! Checks that come before trainings: hours of training are not begun for texts that a check refuses.

use super::board::State;
use super::schedule::Schedule;
use crate::pipeline::{StageId, StageWork};

impl Schedule<'_> {
    /// Tests if a training has to wait for a check. Checks of what a training makes come after it, so no two
    /// stages wait for each other.
    pub fn awaits_check(&self, id: StageId) -> bool {
        let is_training = |id: StageId| self.pipeline.stage(id).work == StageWork::Train;
        // A probe runs no checks.
        if !is_training(id) || self.options.probe.is_some() {
            return false;
        }
        let checks =
            self.pipeline.ids().filter(|id| self.pipeline.stage(*id).kind.precedes_training);
        checks
            .filter(|check| self.is_to_come(*check))
            .any(|check| !self.pipeline.with_upstream(&[check]).into_iter().any(is_training))
    }

    /// Tests if a stage can still end in this pass.
    fn is_to_come(&self, id: StageId) -> bool {
        let state = |id: StageId| self.board[id].state();
        let is_over = |id: StageId| matches!(state(id), State::Failed | State::Left);
        !state(id).is_final() && !self.pipeline.with_upstream(&[id]).into_iter().any(is_over)
    }
}
