//! The stages between an item from elsewhere and the stage that processes it, as far as they change
//! the fields that this stage reads.
//!
//! A stage that changes texts is applied to the item, or refused by name. A stage that makes a text
//! from something else, such as a recording, is the source of the texts: the item replaces its
//! output.

use std::collections::BTreeSet;

use stage_core::{
    FieldType, Item, ItemJob, Job, Kind, NewValue, Output, ParameterValue, Place, Reject,
    StageError, Value,
};

use crate::engine::{Engine, EngineError};
use crate::manifest::declared;
use crate::pipeline::{ITEMS, Pipeline, Reads, Reference, StageSpec, StageWork};
use crate::plan::StagePlan;
use crate::plan::inputs::arriving;
use crate::plan::planner::Planner;
use crate::run::arrived::artifacts;
use crate::run::replay::ReplayError;
use crate::run::shared::SharedState;

/// The field that is always changed by the stages before.
const TEXT: &str = "text";

/// A stage that the items come through.
pub struct UpstreamJob {
    kind: &'static Kind,
    job: Box<dyn ItemJob>,
}

impl UpstreamJob {
    /// The item behind this stage.
    pub fn apply(
        &self,
        mut item: Item,
        shared: &SharedState,
    ) -> Result<Result<Item, Reject>, StageError> {
        let mut context = shared.context(0, self.kind);
        let Output { values, .. } =
            match self.job.process(std::slice::from_ref(&item), &mut context)?.pop() {
                Some(Ok(output)) => output,
                Some(Err(reject)) => return Ok(Err(reject)),
                None => return Err(StageError::failed("a stage gave no result for an item")),
            };
        for (name, value) in values {
            match value {
                NewValue::Text(text) => item.fields.set(name, Value::text(text)),
                NewValue::Number(number) => item.fields.set(name, Value::Number(number)),
                NewValue::Bytes { .. } | NewValue::Kept(_) => {}
            }
        }
        Ok(Ok(item))
    }
}

/// The jobs of the stages before a stage, in their order. `given` are the fields of the items.
pub fn before(
    engine: &Engine,
    pipeline: &Pipeline,
    (planner, plans): (&Planner, &[StagePlan]),
    spec: &StageSpec,
    given: &[&str],
    shared: &SharedState,
) -> Result<Vec<UpstreamJob>, ReplayError> {
    let mut jobs = Vec::new();
    for spec in chain(pipeline, spec, given)? {
        let at = |error| EngineError::Stage { stage: spec.name.clone(), error };
        let mut missing =
            arriving(pipeline, plans, &planner.assets, spec).missing(true).into_iter();
        let of_items = upstream(pipeline, spec, ITEMS).map(|(above, _)| above.id);
        if let Some(id) = missing.find(|id| Some(*id) != of_items) {
            return Err(ReplayError::Early(pipeline.stage(id).name.clone()));
        }
        let mut setup = engine.setup(pipeline, spec).map_err(at)?;
        setup.artifacts = artifacts(pipeline, plans, &planner.assets, spec);
        setup.files = planner.files[spec.id.0].clone();
        let mut context = shared.context(0, spec.kind);
        if let Job::Item(job) = engine.open(spec.kind, setup, &mut context).map_err(at)? {
            jobs.push(UpstreamJob { kind: spec.kind, job });
        }
    }
    Ok(jobs)
}

/// The stages that change the texts that arrive at a stage, in their order, whether or not they can be
/// applied to a single text.
pub fn text_stages<'a>(pipeline: &'a Pipeline, last: &StageSpec) -> Vec<&'a StageSpec> {
    let mut stages = Vec::new();
    let mut next = upstream(pipeline, last, ITEMS);
    while let Some((spec, port)) = next {
        if spec.kind.expands.is_some() {
            break;
        }
        if made(spec, port).iter().any(|(name, _)| name == TEXT) {
            let reads = read_texts(pipeline, spec);
            let is_of_texts = reads.is_some_and(|reads| reads.iter().any(|name| name == TEXT));
            if !is_of_texts || spec.work != StageWork::Item {
                break;
            }
            stages.push(spec);
        }
        let passes = spec.kind.output(port).and_then(|output| output.passes);
        next = upstream(pipeline, spec, passes.unwrap_or(ITEMS));
    }
    stages.reverse();
    stages
}

/// The stages that change what arrives at a stage, in their order.
///
/// # Errors
///
/// [`ReplayError::Apart`] for a stage that would have to be applied and cannot be.
fn chain<'a>(
    pipeline: &'a Pipeline,
    last: &StageSpec,
    given: &[&str],
) -> Result<Vec<&'a StageSpec>, ReplayError> {
    let mut needed: BTreeSet<String> = [TEXT.to_owned()].into();
    let may_read = last.kind.input(ITEMS).map_or(&[][..], |port| port.may_read);
    let mut stages = Vec::new();
    let mut next = upstream(pipeline, last, ITEMS);
    while let Some((spec, port)) = next {
        if spec.kind.expands.is_some() {
            break;
        }
        let made = made(spec, port);
        let is_read = |made: &(String, FieldType)| may_read.iter().any(|(name, _)| *name == made.0);
        let is_of_text = || {
            read_texts(pipeline, spec).is_some_and(|reads| reads.iter().any(|name| name == TEXT))
        };
        // Such as phonemes: what a stage makes of the text alone, and the last stage reads if it is there.
        let is_derived = made.iter().any(is_read)
            && is_of_text()
            && reason_against(spec, &made.iter().collect::<Vec<_>>()).is_none();
        let counts =
            |own: &&(String, FieldType)| needed.contains(&own.0) || is_derived && is_read(own);
        let made: Vec<_> = made.iter().filter(counts).collect();
        if !made.is_empty() {
            let Some(reads) = read_texts(pipeline, spec) else { break };
            if let Some(why) = reason_against(spec, &made) {
                return Err(apart(spec, &made[0].0, why));
            }
            needed.retain(|name| !made.iter().any(|(own, _)| own == name));
            needed.extend(reads);
            stages.push(spec);
        }
        let passes = spec.kind.output(port).and_then(|output| output.passes);
        next = upstream(pipeline, spec, passes.unwrap_or(ITEMS));
    }
    stages.reverse();
    let is_given = |name: &&String| given.contains(&name.as_str());
    match needed.iter().find(|name| !is_given(name)) {
        None => Ok(stages),
        Some(name) => {
            let reads = |spec: &&&StageSpec| {
                read_texts(pipeline, spec).is_some_and(|reads| reads.contains(name))
            };
            match stages.iter().find(reads) {
                Some(spec) => Err(apart(
                    spec,
                    TEXT,
                    format!("reads `{name}`, which a sentence does not have"),
                )),
                None => Ok(stages),
            }
        }
    }
}

fn apart(spec: &StageSpec, field: &str, why: String) -> ReplayError {
    ReplayError::Apart { stage: spec.name.clone(), field: field.to_owned(), why }
}

fn upstream<'a>(
    pipeline: &'a Pipeline,
    spec: &StageSpec,
    port: &str,
) -> Option<(&'a StageSpec, &'static str)> {
    match spec.inputs.get(port)?.references.first()? {
        Reference::Stage { stage, port } => Some((pipeline.stage(*stage), port)),
        Reference::Asset(_) => None,
    }
}

/// The fields that a stage sets on an output.
fn made(spec: &StageSpec, port: &str) -> Vec<(String, FieldType)> {
    let Some(output) = spec.kind.output(port) else { return Vec::new() };
    let listed = output.writes.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
    let is_first = spec.kind.outputs.first().is_some_and(|first| first.name == port);
    let also = match (output.open, is_first) {
        (true, true) => declared(spec.kind, &spec.parameters).unwrap_or_default(),
        (true, false) => match spec.parameters.get("item_outputs") {
            ParameterValue::Map(items) => {
                items.keys().map(|name| (name.clone(), FieldType::Text)).collect()
            }
            _ => Vec::new(),
        },
        (false, _) => Vec::new(),
    };
    listed.chain(also).collect()
}

/// The fields that a stage needs of its items; None if one of them is a file, or all count.
fn read_texts(pipeline: &Pipeline, spec: &StageSpec) -> Option<Vec<String>> {
    let Reads::Fields { names, .. } = &spec.inputs.get(ITEMS)?.reads else { return None };
    let may = spec.kind.input(ITEMS).map_or(&[][..], |port| port.may_read);
    let is_optional = |name: &String| may.iter().any(|(own, _)| own == name);
    let names: Vec<String> = names.iter().filter(|name| !is_optional(name)).cloned().collect();
    let (above, port) = upstream(pipeline, spec, ITEMS)?;
    let known = &above.fields.get(port)?.fields;
    let is_file = |name: &String| known.get(name) == Some(&FieldType::Blob);
    (!names.iter().any(is_file)).then_some(names)
}

/// The reason why a stage cannot be applied to one item.
fn reason_against(spec: &StageSpec, made: &[&(String, FieldType)]) -> Option<String> {
    let reads_id = matches!(
        spec.inputs.get(ITEMS).map(|input| &input.reads),
        Some(Reads::Fields { id: true, .. })
    );
    if spec.work != StageWork::Item {
        return Some("works on all items together".to_owned());
    }
    if spec.kind.place == Place::Worker {
        return Some("runs a model".to_owned());
    }
    if made.iter().any(|(_, kind)| *kind == FieldType::Blob) {
        return Some("writes it to a file: list the output in `texts`".to_owned());
    }
    reads_id.then(|| "reads the id, which a sentence does not have".to_owned())
}
