//! Warns of digits that `text.audit` will stop on, before anything runs.
//!
//! The texts are those of the nearest upstream data set that is known: at the latest that of the
//! source. Nothing is said if a stage between may spell numbers or write other texts.

use std::collections::BTreeSet;
use std::sync::Arc;

use cache::Cache;
use cache::fs::{Fs, RealFs};
use cache::stat::StatIndex;
use engine::manifest::declared;
use engine::pipeline::{Pipeline, Reference, StageId, StageSpec};
use engine::plan::{Plan, PlannedValue};
use engine::store::Store;
use stage_families::artifact;
use view::escape::clean;

use crate::error::CliError;
use crate::project::Program;

const AUDIT: &str = "text.audit";
const NORMALIZE: &str = "text.normalize";
const TEXT: &str = "text";

pub fn warn(
    program: &Program,
    pipeline: &Pipeline,
    plan: &Plan,
    cache: &Cache,
) -> Result<(), CliError> {
    let audits = pipeline.stages.iter().filter(|spec| spec.kind.name == AUDIT);
    let is_to_run = |spec: &&StageSpec| plan.stage(spec.id).verdict.may_have_work();
    let mut audits = audits.filter(is_to_run).peekable();
    if audits.peek().is_none() {
        return Ok(());
    }
    let store = Store::new(cache.clone(), &pipeline.base, Arc::new(StatIndex::load(cache)?));
    for audit in audits.filter(|spec| stops_on_digits(spec, pipeline, plan, &store)) {
        let Some(texts) = texts(audit, pipeline, plan, &store) else { continue };
        if texts.with_digits > 0 {
            let advice = match texts.normalize {
                Some(stage) => format!("set `numbers` in `{}`", clean(&stage.name)),
                None => "add a stage `text.normalize` with `numbers` before it".to_owned(),
            };
            program.warn(&format!(
                "stage `{}` will stop: {} of {} texts have digits, which are not among its characters; {advice}",
                clean(&audit.name),
                texts.with_digits,
                texts.all,
            ));
        }
    }
    Ok(())
}

/// Tests if unknown characters end the stage, and digits are unknown. False if its characters are
/// not known before the run.
fn stops_on_digits(audit: &StageSpec, pipeline: &Pipeline, plan: &Plan, store: &Store) -> bool {
    let own = |name: &str| audit.parameters.text(name).unwrap_or_default();
    if own("on_unknown") != "fail" || own("allow").contains(char::is_numeric) {
        return false;
    }
    let file = own("vocabulary");
    let listed = match (audit.inputs.get("model"), file) {
        (Some(model), _) => symbols(&model.references, plan, store),
        (None, "") => Some(String::new()).filter(|_| !own("characters").is_empty()),
        (None, file) => RealFs.read(&pipeline.base.join(file)).ok().map(text),
    };
    // The keys of a JSON file, or the lines of a list.
    let lists_digits =
        |listed: String| listed.contains("\"1\"") || listed.lines().any(|line| line == "1");
    listed.is_some_and(|listed| {
        !lists_digits(listed) && !own("characters").contains(char::is_numeric)
    })
}

/// The symbols of a model that is ready, unless it spells numbers itself.
fn symbols(model: &[Reference], plan: &Plan, store: &Store) -> Option<String> {
    let [Reference::Stage { stage, port }] = model else { return None };
    let Some(PlannedValue::Artifact(fields)) = plan.stage(*stage).known.outputs.get(port) else {
        return None;
    };
    let blob = artifact::plain_symbols(fields)?;
    store.read(&blob.digest).ok().map(|bytes| text(bytes.to_vec()))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The texts that a stage reads, as far as they are known.
struct Texts<'p> {
    all: usize,
    with_digits: usize,
    /// The nearest upstream stage that could spell the numbers.
    normalize: Option<&'p StageSpec>,
}

fn texts<'p>(
    audit: &StageSpec,
    pipeline: &'p Pipeline,
    plan: &Plan,
    store: &Store,
) -> Option<Texts<'p>> {
    let mut normalize = None;
    let mut seen = BTreeSet::new();
    let mut at = input_of(audit)?;
    while seen.insert(at.0) {
        let (id, port) = at;
        let spec = pipeline.stage(id);
        if let Some(PlannedValue::Root { root, .. }) = plan.stage(id).known.outputs.get(port) {
            let items = store.items(root).ok()?;
            let with_digits = items.iter().filter(|item| {
                let text = item.fields.text(TEXT).unwrap_or_default();
                text.contains(char::is_numeric)
            });
            let with_digits = with_digits.count();
            return Some(Texts { all: items.len(), with_digits, normalize });
        }
        if spec.kind.name == NORMALIZE {
            if spec.parameters.text("numbers").ok()? != "keep" {
                return None;
            }
            normalize = normalize.or(Some(spec));
        } else if writes_texts(spec) {
            return None;
        }
        at = input_of(spec)?;
    }
    None
}

fn writes_texts(spec: &StageSpec) -> bool {
    let mut own = spec.kind.outputs.iter().flat_map(|port| port.writes);
    let mut declared = declared(spec.kind, &spec.parameters).into_iter().flatten();
    own.any(|(field, _)| *field == TEXT) || declared.any(|(field, _)| field == TEXT)
}

fn input_of(spec: &StageSpec) -> Option<(StageId, &'static str)> {
    match spec.inputs.get("input")?.references.as_slice() {
        [Reference::Stage { stage, port }] => Some((*stage, *port)),
        _ => None,
    }
}
