//! The plans of one stage and of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{Event, PlannedStage, Verdict};
use stage_core::{ParameterType, Reject};

use super::value::{PlannedValue, planned};
use super::work::{StageIdentity, Work};
use crate::pipeline::{Pipeline, StageId, StageSpec, StageWork};
use crate::reason::Reason;
use crate::record::StageRecord;
use crate::sweep::halving::Part;

pub struct Plan {
    /// By the position of the stage in the pipeline.
    pub stages: Vec<StagePlan>,
    pub seconds: f64,
}

pub struct StagePlan {
    pub verdict: Verdict,
    /// Fresh, and unchanged since the last run: there is no state to record either.
    pub unchanged: bool,
    pub reasons: Vec<Reason>,
    /// The differences from the state after this run, if they are already known.
    pub differences: Option<(u64, Vec<Reason>)>,
    /// The number of items to execute, as far as known, or 1.
    pub executed: u64,
    /// Items that depend on pending outputs of upstream stages.
    pub pending: u64,
    pub reused: u64,
    pub quarantined: u64,
    /// Estimated from earlier runs; 0 without any.
    pub seconds: f64,
    /// The time that the plan took to read a source again; 0 for other stages.
    pub scan_seconds: f64,
    pub known: StageKnowledge,
    pub work: Work,
}

/// The present knowledge of a stage, in a plan or in a run.
#[derive(Clone, Default)]
pub struct StageKnowledge {
    /// None until its inputs are complete.
    pub keyed: Option<StageIdentity>,
    /// The values of its ports, as far as they are known now.
    pub outputs: BTreeMap<&'static str, PlannedValue>,
    pub rejects: Vec<(Arc<str>, Reject)>,
    /// Its part in a sweep: without one, it has no outputs, and never will.
    pub part: Part,
}

impl AsRef<StageKnowledge> for StagePlan {
    fn as_ref(&self) -> &StageKnowledge {
        &self.known
    }
}

impl Plan {
    pub fn stage(&self, id: StageId) -> &StagePlan {
        &self.stages[id.0]
    }

    /// The plan as an event.
    pub fn event(&self, pipeline: &Pipeline) -> Event {
        let planned = |(id, stage): (StageId, &StagePlan)| {
            let spec = pipeline.stage(id);
            (spec.name.clone(), stage.event(pipeline.values_of(spec)))
        };
        Event::Plan {
            stages: pipeline.ids().zip(&self.stages).map(planned).collect(),
            seconds: self.seconds,
        }
    }

    /// The sources that found nothing: no item, and none that could be quarantined.
    pub fn empty_sources<'p>(&self, pipeline: &'p Pipeline) -> impl Iterator<Item = &'p StageSpec> {
        let is_empty =
            |output: &PlannedValue| matches!(output, PlannedValue::Root { items: 0, .. });
        let has_none = move |spec: &&StageSpec| {
            let known = &self.stage(spec.id).known;
            known.rejects.is_empty() && known.outputs.values().any(is_empty)
        };
        // A folder that need not exist may be empty, such as that of votes.
        let may_be_empty = |spec: &StageSpec| {
            let mut parameters = spec.kind.parameters.iter();
            parameters.any(|one| matches!(one.parameter_type, ParameterType::OptionalFolder))
        };
        let sources = pipeline.stages.iter().filter(|spec| spec.work == StageWork::Source);
        sources.filter(move |spec| !may_be_empty(spec)).filter(has_none)
    }

    pub fn is_fresh(&self) -> bool {
        !self.stages.iter().any(|stage| stage.verdict.may_have_work())
    }
}

impl StagePlan {
    fn event(&self, trial: Option<String>) -> PlannedStage {
        PlannedStage {
            verdict: self.verdict,
            reasons: self.reasons.iter().map(ToString::to_string).collect(),
            executed: self.executed + self.pending,
            reused: self.reused,
            quarantined: self.quarantined,
            seconds: self.seconds,
            trial,
        }
    }

    /// A stage outside the targets.
    pub fn unwanted() -> StagePlan {
        StagePlan {
            verdict: Verdict::Unknown,
            unchanged: false,
            reasons: Vec::new(),
            differences: None,
            executed: 0,
            pending: 0,
            reused: 0,
            quarantined: 0,
            seconds: 0.0,
            scan_seconds: 0.0,
            known: StageKnowledge::default(),
            work: Work::Unwanted,
        }
    }

    /// A source that has just been read.
    pub fn scanned(spec: &StageSpec, keyed: StageIdentity, record: StageRecord) -> StagePlan {
        let work = Work::Scanned(record.clone());
        StagePlan { work, reused: 0, ..StagePlan::fresh(spec, keyed, record) }
    }

    pub fn fresh(spec: &StageSpec, keyed: StageIdentity, record: StageRecord) -> StagePlan {
        let output = |port: &stage_core::OutputPort| {
            let value = record.outputs.get(port.name)?;
            Some((port.name, planned(value)))
        };
        StagePlan {
            verdict: Verdict::Fresh,
            reused: record.items,
            quarantined: record.rejects.len() as u64,
            known: StageKnowledge {
                keyed: Some(keyed),
                outputs: spec.kind.outputs.iter().filter_map(output).collect(),
                rejects: record.rejects.clone(),
                part: Part::In,
            },
            work: Work::Nothing(record),
            ..StagePlan::unwanted()
        }
    }
}

/// The outputs of an item stage: one data set.
pub fn main_output(spec: &StageSpec, value: PlannedValue) -> BTreeMap<&'static str, PlannedValue> {
    spec.kind.outputs.first().map(|port| (port.name, value)).into_iter().collect()
}
