//! The reasons why a stage has work.

use std::collections::BTreeMap;

use cache::Digest;
use stage_core::key::StageKey;

use super::diff::compare_keys;
use super::inputs::{StageInputs, names};
use super::planner::Planner;
use super::work::StageIdentity;
use crate::pipeline::{ITEMS, Reads, StageSpec, StageWork};
use crate::reason::Reason;
use crate::record::{LastRecord, Previous};
use crate::store::Store;

impl Planner<'_> {
    /// The reasons why the key has no stored outcome.
    pub fn reasons(
        &self,
        spec: &StageSpec,
        last: Option<&LastRecord>,
        keyed: &StageIdentity,
        lost: &[Digest],
        todo: u64,
    ) -> Vec<Reason> {
        let differences = last.map(|last| (last.run, differences(&self.store, spec, last, keyed)));
        reasons_from(spec, differences.as_ref(), lost, todo)
    }

    /// Reasons while items are still pending: settings and artifacts can be compared.
    pub fn pending_reasons(
        &self,
        spec: &StageSpec,
        last: Option<&LastRecord>,
        arriving: &StageInputs,
        job: &StageKey,
        lost: &[Digest],
    ) -> Vec<Reason> {
        let mut reasons: Vec<Reason> =
            lost.iter().take(3).map(|lost| Reason::ObjectLost { digest: lost.short() }).collect();
        match last {
            None => reasons.push(Reason::NeverRun),
            Some(last) => {
                let mut last = last.clone();
                last.key = last.key.without(ITEMS);
                let keyed = StageIdentity {
                    digest: job.digest(),
                    key: job.clone(),
                    roots: BTreeMap::new(),
                };
                let reads = |port: &str| spec.inputs[port].reads.clone();
                reasons.extend(compare_keys(&self.store, &last, &keyed, &reads));
            }
        }
        let waits = arriving.missing(false);
        if !waits.is_empty() {
            reasons.push(Reason::WaitsFor { stages: names(self.pipeline, &waits) });
        }
        reasons
    }
}

/// The differences from the state after the last run.
pub fn differences(
    store: &Store,
    spec: &StageSpec,
    last: &LastRecord,
    keyed: &StageIdentity,
) -> Vec<Reason> {
    let reads = |port: &str| match spec.inputs.get(port) {
        Some(input) => input.reads.clone(),
        None => Reads::All,
    };
    compare_keys(store, last, keyed, &reads)
}

/// Differences from an earlier state other than the items on a port: parameters, files, artifacts
/// and other data sets.
pub fn beside_items(
    store: &Store,
    spec: &StageSpec,
    port: &str,
    before: &Previous,
    now: &StageIdentity,
) -> Vec<Reason> {
    let (key, roots) = before;
    let before = LastRecord {
        key: key.without(port),
        roots: roots.clone(),
        run: 0,
        reasons: Vec::new(),
        previous: None,
    };
    let now = StageIdentity { key: now.key.without(port), ..now.clone() };
    differences(store, spec, &before, &now)
}

/// The differences from the last run's state, as the reasons why there is no outcome. None if the
/// stage never ran.
pub fn reasons_from(
    spec: &StageSpec,
    differences: Option<&(u64, Vec<Reason>)>,
    lost: &[Digest],
    todo: u64,
) -> Vec<Reason> {
    let mut reasons: Vec<Reason> =
        lost.iter().take(3).map(|lost| Reason::ObjectLost { digest: lost.short() }).collect();
    let Some((_, differences)) = differences else {
        reasons.push(Reason::NeverRun);
        return reasons;
    };
    reasons.extend(differences.iter().cloned());
    if reasons.is_empty() {
        reasons.push(match spec.work {
            StageWork::Item => Reason::Unfinished { items: todo },
            _ => Reason::ResultGone,
        });
    }
    reasons
}
