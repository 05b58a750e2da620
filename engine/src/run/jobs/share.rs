//! The plan of a worker: a part of one stage, with the outputs of the stages before it as given.

use std::collections::{BTreeSet, HashSet};

use crate::event::Verdict;
use cache::Digest;

use crate::engine::{EngineError, Sink};
use crate::executor::batch::{BatchWork, Share, Upstream};
use crate::pipeline::{StageId, StageSpec};
use crate::plan::planner::Planner;
use crate::plan::{ExpectedItem, ItemPlan, Plan, StageKnowledge, StagePlan, Work, planned};
use crate::record::StageRecord;
use crate::sweep::halving::Part;

/// Plans the share of the only target.
pub fn plan<'a>(
    planner: &mut Planner<'a>,
    share: &Share,
    targets: &[StageId],
    sink: Sink,
) -> Result<Plan, EngineError> {
    let pipeline = planner.pipeline;
    let wanted: BTreeSet<StageId> = pipeline.with_upstream(targets);
    planner.assets = share.batch.assets.clone();
    for id in targets {
        planner.files[id.0] = share.batch.files.clone();
    }
    let mut stages: Vec<StagePlan> = Vec::with_capacity(pipeline.stages.len());
    for spec in &pipeline.stages {
        let plan = match (targets.contains(&spec.id), wanted.contains(&spec.id)) {
            (true, _) => {
                let plan = planner.stage(spec, &stages, sink);
                let mut plan = plan.map_err(|error| error.at(spec.name.clone()))?;
                require_key(&plan, share)?;
                restrict(&mut plan, share);
                plan
            }
            (false, true) => given(spec, share.batch.upstream.get(&spec.name)),
            (false, false) => StagePlan::unwanted(),
        };
        stages.push(plan);
    }
    Ok(Plan { stages, seconds: 0.0 })
}

/// A stage that is done elsewhere.
fn given(spec: &StageSpec, upstream: Option<&Upstream>) -> StagePlan {
    let Upstream { outputs, rejects } = upstream.cloned().unwrap_or_default();
    let output =
        |port: &stage_core::OutputPort| Some((port.name, planned(outputs.get(port.name)?)));
    let known = StageKnowledge {
        keyed: None,
        outputs: spec.kind.outputs.iter().filter_map(output).collect(),
        rejects: rejects.clone(),
        part: Part::In,
    };
    let record = StageRecord { outputs, rejects, ..StageRecord::default() };
    let (verdict, work) = (Verdict::Fresh, Work::Nothing(record));
    StagePlan { verdict, known, work, ..StagePlan::unwanted() }
}

/// Another program may understand the same manifest in another way.
fn require_key(plan: &StagePlan, share: &Share) -> Result<(), EngineError> {
    let key: Option<Digest> = match (&share.batch.work, &plan.work) {
        (BatchWork::Items(_), Work::Items(work)) => work.job,
        // All of its items are known.
        (BatchWork::Items(_), _) => return Ok(()),
        (BatchWork::Training, _) => plan.known.keyed.as_ref().map(|keyed| keyed.digest),
    };
    if key == Some(share.batch.key) {
        Ok(())
    } else {
        Err(EngineError::Internal {
            message: "this program computes another key for the batch: use the same program and \
                      the same models everywhere"
                .to_owned(),
        })
    }
}

/// Leaves the items of other shards undecided.
fn restrict(plan: &mut StagePlan, share: &Share) {
    let Work::Items(work) = &mut plan.work else { return };
    let own: HashSet<&Digest> = share.keys().iter().collect();
    let mut executed = 0;
    for item in work.open.iter_mut().flat_map(|bucket| &mut bucket.items) {
        match item {
            ItemPlan::Todo { key, .. } if own.contains(key) => executed += 1,
            ItemPlan::Todo { item: other, .. } => {
                let expected = ExpectedItem::of(&other.fields);
                *item = ItemPlan::Pending(other.id.clone(), expected);
            }
            _ => {}
        }
    }
    plan.pending += plan.executed - executed.min(plan.executed);
    plan.executed = executed;
}
