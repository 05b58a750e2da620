//! The totals of all passes of a run.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::StageCounts;

use super::cost::PassCost;
use crate::estimate::{Estimate, RunOutcome, StageOutcome};
use crate::measure::Measure;
use crate::pipeline::{Pipeline, StageId, StageSpec};
use crate::plan::StageKnowledge;

/// The counts of all passes together.
pub struct RunTotal {
    pub counts: Vec<StageCounts>,
    pub keys: BTreeMap<String, cache::Digest>,
    pub exported: u64,
    /// The estimate when the run began.
    pub expected: Option<Estimate>,
    pub costs: BTreeMap<String, StageOutcome>,
    pub probed: Vec<(StageId, Measure)>,
    /// A machine fault was reported.
    pub is_unable: bool,
}

impl RunTotal {
    pub fn new(pipeline: &Pipeline) -> RunTotal {
        let counts = vec![StageCounts::default(); pipeline.stages.len()];
        RunTotal {
            counts,
            keys: BTreeMap::new(),
            exported: 0,
            expected: None,
            costs: BTreeMap::new(),
            probed: Vec::new(),
            is_unable: false,
        }
    }

    /// Adds the counts of a pass: executed items of every pass count, reused ones only of the last
    /// pass.
    pub fn add(&mut self, counts: &[StageCounts]) {
        for (total, pass) in self.counts.iter_mut().zip(counts) {
            let before = total.executed;
            total.executed += pass.executed;
            total.reused = pass.reused.saturating_sub(before);
            total.quarantined = pass.quarantined;
            total.seconds += pass.seconds;
        }
    }

    pub fn named(
        &self,
        pipeline: &Pipeline,
        wanted: &BTreeSet<StageId>,
    ) -> BTreeMap<String, StageCounts> {
        let counts = |id: &StageId| (pipeline.stage(*id).name.clone(), self.counts[id.0]);
        wanted.iter().map(counts).collect()
    }

    /// Takes the cost of a stage that has finished.
    pub fn take_cost(&mut self, spec: &StageSpec, taken: PassCost) {
        if taken == PassCost::default() {
            return;
        }
        let expected = self.expected.as_ref().and_then(|estimate| estimate.stages.get(&spec.name));
        let cost = self.costs.entry(spec.name.clone()).or_insert_with(|| StageOutcome {
            expected_seconds: expected.and_then(|stage| stage.seconds),
            expected_bytes: expected.and_then(|stage| stage.disk_bytes),
            ..StageOutcome::default()
        });
        cost.seconds += taken.seconds;
        cost.bytes += taken.bytes;
    }

    pub fn outcome(&self, seconds: f64) -> Option<RunOutcome> {
        let expected_seconds = self.expected.as_ref()?.total.seconds;
        Some(RunOutcome { expected_seconds, seconds, stages: self.costs.clone() })
    }

    pub fn did_something(&self) -> bool {
        self.exported > 0 || self.counts.iter().any(|counts| counts.executed > 0)
    }

    pub fn take_keys(&mut self, pipeline: &Pipeline, known: &[impl AsRef<StageKnowledge>]) {
        for (spec, known) in pipeline.stages.iter().zip(known) {
            if let Some(keyed) = &known.as_ref().keyed {
                self.keys.insert(spec.name.clone(), keyed.digest);
            }
        }
    }
}
