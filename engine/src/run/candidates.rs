//! Item stages that may have become complete. To look at all stages after each message would take the
//! square of their number.

use std::collections::BTreeSet;

use crate::pipeline::{Pipeline, StageId};

#[derive(Default)]
pub struct Candidates {
    /// By the position of a stage: the stages that wait for it.
    below: Vec<Vec<StageId>>,
    open: BTreeSet<StageId>,
}

impl Candidates {
    pub fn of(pipeline: &Pipeline) -> Candidates {
        let mut below = vec![Vec::new(); pipeline.stages.len()];
        for spec in &pipeline.stages {
            let above: BTreeSet<StageId> = spec.upstream().collect();
            above.into_iter().for_each(|above| below[above.0].push(spec.id));
        }
        Candidates { below, open: BTreeSet::new() }
    }

    /// The stages that wait for this one.
    pub fn below(&self, id: StageId) -> &[StageId] {
        self.below.get(id.0).map_or(&[], Vec::as_slice)
    }

    /// Notes that a stage may have become complete.
    pub fn add(&mut self, id: StageId) {
        self.open.insert(id);
    }

    /// Notes that a stage is done, so that those below it may have become complete.
    pub fn add_below(&mut self, id: StageId) {
        self.open.extend(self.below.get(id.0).into_iter().flatten().copied());
    }

    /// The next one, in the order of the pipeline.
    pub fn take(&mut self) -> Option<StageId> {
        self.open.pop_first()
    }
}
