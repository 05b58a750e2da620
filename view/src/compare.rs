//! Differences between two runs: stages and their parameters, data, and measures.

use std::collections::BTreeSet;

use cache::CacheError;
use cache::Digest;
use engine::event::Event;
use engine::history;
use engine::pipeline::Reads;
use engine::plan::{DatasetDiff, StageIdentity, compare_datasets, compare_keys};
use engine::reason::Reason;
use engine::record::{LastRecord, PortValue, Previous, RunRecord, StageRecord};
use engine::runlog;
use engine::store::{ReadError, Store};
use serde::Serialize;

use crate::report::figures::figures;

/// The differences between two runs, with the number of equal stages.
#[derive(Debug, Default, Serialize)]
pub struct RunComparison {
    pub only_in_old: Vec<String>,
    pub only_in_new: Vec<String>,
    pub changed: Vec<StageChange>,
    pub same: usize,
}

/// A stage with different keys in the two runs.
#[derive(Debug, Default, Serialize)]
pub struct StageChange {
    pub stage: String,
    /// The differences between the keys; `None` if the parts of either key are unknown.
    pub reasons: Option<Vec<String>>,
    /// Counts for its first data set.
    pub items: Option<ItemCounts>,
    pub quarantined: Option<Change>,
    /// Figures of the stage that differ between the runs.
    pub measures: Vec<MeasureChange>,
    /// The outputs are equal although the keys differ.
    pub gives_the_same: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ItemCounts {
    pub added: u64,
    pub removed: u64,
    pub changed: u64,
    pub same: u64,
}

/// A figure in both runs; `None` for a run without it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    pub old: Option<f64>,
    pub new: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasureChange {
    pub name: String,
    #[serde(flatten)]
    pub change: Change,
}

impl RunComparison {
    pub fn of(store: &Store, old: &RunRecord, new: &RunRecord) -> Result<RunComparison, ReadError> {
        let mut comparison = RunComparison::default();
        let mut told = BTreeSet::new();
        for stage in order(store, old, new)? {
            match (old.keys.get(&stage), new.keys.get(&stage)) {
                (Some(_), None) => comparison.only_in_old.push(stage),
                (None, Some(_)) => comparison.only_in_new.push(stage),
                (Some(one), Some(other)) if one != other => {
                    let mut change = compare(store, stage, one, other)?;
                    // Items also carry the figures of earlier stages.
                    change.measures.retain(|measure| told.insert(measure.heard()));
                    comparison.changed.push(change);
                }
                _ => comparison.same += 1,
            }
        }
        Ok(comparison)
    }
}

/// The stages of both runs in the order of the later run, as far as it is known.
fn order(store: &Store, old: &RunRecord, new: &RunRecord) -> Result<Vec<String>, ReadError> {
    let mut order: Vec<String> = Vec::new();
    for run in [new, old] {
        let log = runlog::read(store.cache(), run.run);
        let log = log.map_err(|error| ReadError::Cache(CacheError::Fs(error)))?;
        let (events, _) = log.unwrap_or_default();
        let known = events.into_iter().find_map(|event| match event {
            Event::Started { stages, .. } => Some(stages),
            _ => None,
        });
        let names = known.unwrap_or_default().into_iter().chain(run.keys.keys().cloned());
        for name in names.filter(|name| run.keys.contains_key(name)) {
            if !order.contains(&name) {
                order.push(name);
            }
        }
    }
    Ok(order)
}

fn compare(
    store: &Store,
    stage: String,
    old: &Digest,
    new: &Digest,
) -> Result<StageChange, ReadError> {
    let cache = store.cache();
    let made_of = |key| history::made_of(cache, key).map_err(ReadError::Cache);
    let reasons = match (made_of(old)?, made_of(new)?) {
        (Some(old), Some(new)) => Some(reasons(store, old, new)),
        _ => None,
    };
    let mut change = StageChange { stage, reasons, ..StageChange::default() };
    let outcome = |key| history::outcome_of(cache, key).map_err(ReadError::Cache);
    if let (Some(old), Some(new)) = (outcome(old)?, outcome(new)?) {
        change.compare_outcomes(store, &old, &new)?;
    }
    Ok(change)
}

fn reasons(store: &Store, old: Previous, new: Previous) -> Vec<String> {
    let before =
        LastRecord { key: old.0, roots: old.1, run: 0, reasons: Vec::new(), previous: None };
    let now = StageIdentity { digest: new.0.digest(), key: new.0, roots: new.1 };
    let reasons = compare_keys(store, &before, &now, &|_| Reads::All);
    reasons.iter().map(ToString::to_string).collect()
}

impl StageChange {
    fn compare_outcomes(
        &mut self,
        store: &Store,
        old: &StageRecord,
        new: &StageRecord,
    ) -> Result<(), ReadError> {
        self.gives_the_same = old.outputs == new.outputs && old.rejects == new.rejects;
        if let Some(diff) = first_data_sets(store, old, new)? {
            self.items = Some(ItemCounts::of(&diff));
            // The key of a source says that its files changed, and its items say which.
            if self.reasons.as_ref().is_some_and(Vec::is_empty) {
                let reasons = if self.gives_the_same {
                    vec![Reason::FilesChanged]
                } else {
                    diff.examples("output")
                };
                self.reasons = Some(reasons.iter().map(ToString::to_string).collect());
            }
        }
        let aside = |record: &StageRecord| Some(record.rejects.len() as f64);
        let quarantined = Change { old: aside(old), new: aside(new) };
        self.quarantined = quarantined.is_one().then_some(quarantined);
        let all = |_: &PortValue| true;
        let (mut before, mut now) = (figures(store, old, &all)?, figures(store, new, &all)?);
        let names: BTreeSet<String> = before.keys().chain(now.keys()).cloned().collect();
        for name in names {
            let change = Change { old: before.remove(&name), new: now.remove(&name) };
            if change.is_one() {
                self.measures.push(MeasureChange { name, change });
            }
        }
        Ok(())
    }
}

impl Change {
    fn is_one(&self) -> bool {
        self.old.map(f64::to_bits) != self.new.map(f64::to_bits)
    }
}

impl MeasureChange {
    /// A representation for comparison that is exact to the bit.
    fn heard(&self) -> (String, Option<u64>, Option<u64>) {
        let bits = |value: Option<f64>| value.map(f64::to_bits);
        (self.name.clone(), bits(self.change.old), bits(self.change.new))
    }
}

impl ItemCounts {
    fn of(diff: &DatasetDiff) -> ItemCounts {
        ItemCounts {
            added: diff.added.len() as u64,
            removed: diff.removed.len() as u64,
            changed: diff.changed_items,
            same: diff.same,
        }
    }
}

/// Compares the first data sets, as far as both still exist.
fn first_data_sets(
    store: &Store,
    old: &StageRecord,
    new: &StageRecord,
) -> Result<Option<DatasetDiff>, ReadError> {
    let port = |name: &String| Some((old.outputs.get(name)?, new.outputs.get(name)?));
    let roots = |(old, new): (&PortValue, &PortValue)| match (old, new) {
        (PortValue::Dataset { root: old, .. }, PortValue::Dataset { root: new, .. }) => {
            Some((*old, *new))
        }
        _ => None,
    };
    let Some((before, now)) = new.outputs.keys().filter_map(port).find_map(roots) else {
        return Ok(None);
    };
    match compare_datasets(store, &before, &now, &Reads::All) {
        Err(ReadError::Lost(_)) => Ok(None),
        Err(error) => Err(error),
        Ok(diff) => Ok(Some(diff)),
    }
}
