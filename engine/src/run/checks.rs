//! Checks that come before trainings: hours of training are not begun for texts that a check refuses.

use super::board::{Board, StageState};
use crate::pipeline::{Pipeline, StageId, StageWork};

impl Board {
    /// Tests if a training has to wait for a check. Checks of what a training makes come after it, so no two
    /// stages wait for each other.
    pub fn awaits_check(&self, pipeline: &Pipeline, id: StageId) -> bool {
        let is_training = |id: StageId| pipeline.stage(id).work == StageWork::Train;
        if !is_training(id) {
            return false;
        }
        let checks = pipeline.ids().filter(|id| pipeline.stage(*id).kind.precedes_training);
        checks
            .filter(|check| self.is_to_come(pipeline, *check))
            .any(|check| !pipeline.with_upstream(&[check]).into_iter().any(is_training))
    }

    /// Tests if a stage can still end in this pass.
    fn is_to_come(&self, pipeline: &Pipeline, id: StageId) -> bool {
        let state = |id: StageId| self[id].state();
        let is_over = |id: StageId| matches!(state(id), StageState::Failed | StageState::Left);
        !state(id).is_final() && !pipeline.with_upstream(&[id]).into_iter().any(is_over)
    }
}
