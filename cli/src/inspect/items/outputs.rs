//! The outputs of a stage and of those upstream of it, by one plan.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cache::Cache;
use engine::failed_output;
use engine::pipeline::{StageId, StageSpec};
use engine::plan::{PartialBucket, PartialDataset, PartialItem, Plan, PlannedValue};
use engine::record::{PortValue, StageRecord};
use engine::store::Store;
use engine::unrecorded;
use stage_core::{Item, Reject, Value};

use super::{earlier, open_store, present};
use crate::error::CliError;
use crate::inspect::plan::make;
use crate::project::{Program, Project};

pub type Rejects = Vec<(Arc<str>, Reject)>;

/// What stages output now, or else gave last, or else have so far.
pub struct Outputs<'a> {
    program: &'a Program,
    project: &'a Project,
    cache: &'a Cache,
    plan: Plan,
    /// The warnings so far: each is given once.
    warnings: RefCell<BTreeSet<String>>,
}

impl<'a> Outputs<'a> {
    /// Plans a stage and its upstream stages.
    pub fn of(
        program: &'a Program,
        project: &'a Project,
        cache: &'a Cache,
        spec: &StageSpec,
    ) -> Result<Outputs<'a>, CliError> {
        let engine = program.engine_for(project, cache, None, false)?;
        let plan = make(program, &engine, project, cache, &[spec.id])?;
        Ok(Outputs { program, project, cache, plan, warnings: RefCell::default() })
    }

    pub fn stage(&self, id: StageId) -> &'a StageSpec {
        self.project.pipeline.stage(id)
    }

    /// The rows of an output: of its present outcome, or else of its last one, or else those so far.
    pub fn rows(&self, spec: &StageSpec, port: &str) -> Result<Vec<Item>, CliError> {
        if let Some(outputs) = self.judged(spec)? {
            return self.rows_of(&outputs, spec, port);
        }
        if let Some(record) = self.finished(spec)? {
            return self.rows_of(&record.outputs, spec, port);
        }
        // Items of a run that was stopped, or in which some failed and are tried again.
        let planned = self.plan.stage(spec.id).known.outputs.get(port);
        if let Some(PlannedValue::Partial(partial)) = planned {
            let known = known_items(&open_store(self.program, self.project, self.cache)?, partial)?;
            if !known.is_empty() {
                self.warn(format!("`{}` is not finished: listing its items so far", spec.name));
                return Ok(known);
            }
        }
        Err(self.nothing_yet(spec))
    }

    /// The current outcome of a stage, or else its last one.
    pub fn outcome(&self, spec: &StageSpec) -> Result<StageRecord, CliError> {
        self.finished(spec)?.ok_or_else(|| self.nothing_yet(spec))
    }

    /// The items that a stage quarantines now, or else quarantined when it last ended, failures
    /// included.
    pub fn quarantined(&self, spec: &StageSpec) -> Result<Rejects, CliError> {
        let stage = self.plan.stage(spec.id);
        if let Some(record) = present(self.cache, stage)? {
            return Ok(record.rejects);
        }
        let given = earlier(self.project, self.cache, spec)?;
        let failed = unrecorded::last(self.cache, &self.project.pipeline.name, &spec.name)?;
        let ended = given.as_ref().map_or(0, |(run, _)| *run);
        if let Some(failed) = failed.filter(|failed| failed.run > ended) {
            self.warn(format!(
                "`{}` has no complete output from run {}: listing its quarantined items",
                spec.name, failed.run
            ));
            return Ok(failed.rejects);
        }
        let known = &stage.known.rejects;
        match given {
            Some((run, record)) => {
                self.warn_of_earlier(spec, run);
                Ok(record.rejects)
            }
            None if !known.is_empty() => {
                self.warn(format!(
                    "`{}` is not finished: listing its quarantined items so far",
                    spec.name
                ));
                Ok(known.clone())
            }
            None => Err(self.nothing_yet(spec)),
        }
    }

    fn finished(&self, spec: &StageSpec) -> Result<Option<StageRecord>, CliError> {
        if let Some(record) = present(self.cache, self.plan.stage(spec.id))? {
            return Ok(Some(record));
        }
        let earlier = earlier(self.project, self.cache, spec)?;
        Ok(earlier.map(|(run, record)| {
            self.warn_of_earlier(spec, run);
            record
        }))
    }

    /// The output with which a stage failed, unless it has had an outcome since.
    fn judged(&self, spec: &StageSpec) -> Result<Option<BTreeMap<String, PortValue>>, CliError> {
        if present(self.cache, self.plan.stage(spec.id))?.is_some() {
            return Ok(None);
        }
        let ended = earlier(self.project, self.cache, spec)?.map_or(0, |(run, _)| run);
        let judged = failed_output::last(self.cache, &self.project.pipeline.name, &spec.name)?;
        let Some(judged) = judged.filter(|judged| judged.run > ended) else { return Ok(None) };
        self.warn(format!(
            "`{}` failed in run {}: listing the output of that failed run",
            spec.name, judged.run
        ));
        Ok(Some(judged.outputs))
    }

    fn rows_of(
        &self,
        outputs: &BTreeMap<String, PortValue>,
        spec: &StageSpec,
        port: &str,
    ) -> Result<Vec<Item>, CliError> {
        match outputs.get(port) {
            None => Err(CliError::usage(
                format!("`{}` has no output on `{port}`", spec.name),
                "name another output",
            )),
            Some(PortValue::Artifact(fields)) => Ok(fields.iter().map(part).collect()),
            Some(PortValue::Dataset { root, .. }) => {
                Ok(open_store(self.program, self.project, self.cache)?.items(root)?)
            }
        }
    }

    fn warn_of_earlier(&self, spec: &StageSpec, run: u64) {
        self.warn(format!("`{}` is not up to date: using its output of run {run}", spec.name));
    }

    fn warn(&self, message: String) {
        if !self.warnings.borrow().contains(&message) {
            self.program.warn(&message);
            self.warnings.borrow_mut().insert(message);
        }
    }

    fn nothing_yet(&self, spec: &StageSpec) -> CliError {
        CliError::failed(
            format!("`{}` has no output yet", spec.name),
            format!("run it: `throstle run {} {}`", self.project.pipeline.file, spec.name),
        )
    }
}

fn known_items(store: &Store, partial: &PartialDataset) -> Result<Vec<Item>, CliError> {
    let mut found = Vec::new();
    for bucket in &partial.buckets {
        match bucket {
            PartialBucket::Closed(bucket) => found.extend(store.chunk(&bucket.chunk)?.items),
            PartialBucket::Open { items, .. } => {
                found.extend(items.iter().filter_map(|item| match item {
                    PartialItem::Known(item) => Some(item.clone()),
                    PartialItem::Pending(..) => None,
                }));
            }
        }
    }
    found.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(found)
}

/// One part of an artifact as a row.
fn part((name, value): (&Arc<str>, &Value)) -> Item {
    Item::new(name.clone(), [("value", value.clone())].into_iter().collect())
}
