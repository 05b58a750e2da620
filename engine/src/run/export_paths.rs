//! Finds items that cannot be exported because of their fields, before any work on them.

use std::collections::BTreeSet;

use stage_core::Item;

use crate::export::paths::fill;
use crate::manifest::declared;
use crate::pipeline::{
    Export, ITEMS, Pipeline, Reference, StageId, StageSpec, StageWork, Template, TemplatePart,
};
use crate::record::LeftOut;

/// The exports that leave out some of the items that arrive at a stage: its own, and those of stages
/// downstream.
pub fn left_out<'a>(
    pipeline: &Pipeline,
    is_wanted: &dyn Fn(StageId) -> bool,
    (id, total): (StageId, u64),
    items: impl Iterator<Item = &'a Item> + Clone,
) -> Vec<(StageId, LeftOut)> {
    let mut found = Vec::new();
    for ReachedExport { exporting, export, is_whole, is_open } in
        exports_below(pipeline, is_wanted, id)
    {
        let refused = |item: &'a Item| Some((item, refusal(&export.template, item, is_open)?));
        let mut without: Vec<(&Item, String)> = items.clone().filter_map(refused).collect();
        if is_whole && (without.len() as u64) < total {
            continue;
        }
        without.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
        let mut left_out = None;
        for (item, why) in &without {
            LeftOut::note(&mut left_out, total, &item.id, why);
        }
        found.extend(left_out.map(|left_out| (exporting, left_out)));
    }
    found
}

/// An export that is reached from a stage.
struct ReachedExport<'a> {
    exporting: StageId,
    export: &'a Export,
    /// A stage on whole data sets is between the two, which may leave items out: only a fault of all
    /// items is certain.
    is_whole: bool,
    /// A stage on the way may write any field.
    is_open: bool,
}

/// The exports with paths that are certain as soon as an item arrives at this stage: no stage on the
/// way writes a field that they name.
fn exports_below<'a>(
    pipeline: &'a Pipeline,
    is_wanted: &dyn Fn(StageId) -> bool,
    id: StageId,
) -> Vec<ReachedExport<'a>> {
    let mut found = Vec::new();
    let mut waiting = vec![(id, BTreeSet::new(), false, false)];
    while let Some((id, mut written, mut is_whole, mut is_open)) = waiting.pop() {
        let spec = pipeline.stage(id);
        written.extend(writes(spec));
        is_whole |= spec.work != StageWork::Item;
        is_open |= may_write_any(spec);
        let is_certain = |export: &&Export| {
            let mut places = places(&export.template).peekable();
            export.field.is_some()
                && places.peek().is_some()
                && places.all(|name| !written.contains(name))
        };
        let exports = spec.exports.iter().filter(is_certain);
        found.extend(exports.map(|export| ReachedExport {
            exporting: id,
            export,
            is_whole,
            is_open,
        }));
        let takes =
            |below: &&StageSpec| is_wanted(below.id) && takes_items(below, id) && passes_on(below);
        let below = pipeline.stages.iter().filter(takes);
        waiting.extend(below.map(|spec| (spec.id, written.clone(), is_whole, is_open)));
    }
    found
}

/// Tests if the items of a stage are those that arrive at it.
fn passes_on(spec: &StageSpec) -> bool {
    let is_from_one = || spec.inputs.get(ITEMS).is_some_and(|input| input.references.len() == 1);
    let is_passed = || spec.kind.outputs.iter().all(|output| output.passes == Some(ITEMS));
    match spec.work {
        StageWork::Item => true,
        StageWork::Gather => is_from_one() && is_passed(),
        StageWork::Source | StageWork::Train => false,
    }
}

/// Tests if a stage may write fields that neither its kind nor its parameters name.
fn may_write_any(spec: &StageSpec) -> bool {
    let is_open = spec.kind.outputs.iter().any(|output| output.open);
    is_open && declared(spec.kind, &spec.parameters).is_none()
}

/// Tests if a stage takes its items from another one.
pub fn takes_items(spec: &StageSpec, id: StageId) -> bool {
    let from =
        |reference: &Reference| matches!(reference, Reference::Stage { stage, .. } if *stage == id);
    spec.inputs.get(ITEMS).is_some_and(|input| input.references.iter().any(from))
}

/// The names of the fields that a stage writes.
fn writes(spec: &StageSpec) -> BTreeSet<String> {
    let own = spec.kind.outputs.iter().flat_map(|output| output.writes);
    let declared = declared(spec.kind, &spec.parameters).unwrap_or_default();
    let of_children = spec.kind.expands.map(|_| "id".to_owned());
    own.map(|(name, _)| (*name).to_owned())
        .chain(declared.into_iter().map(|(name, _)| name))
        .chain(of_children)
        .collect()
}

fn places(template: &Template) -> impl Iterator<Item = &str> {
    template.0.iter().filter_map(|part| match part {
        TemplatePart::Field(name) => Some(name.as_str()),
        TemplatePart::Text(_) => None,
    })
}

/// The reason why no file can be named after an item. If a stage on the way may write any field, missing
/// ones may still come.
fn refusal(template: &Template, item: &Item, is_open: bool) -> Option<String> {
    let is_there = |name: &str| name == "id" || item.fields.get(name).is_some();
    if is_open && !places(template).all(is_there) {
        return None;
    }
    fill(template, item).err()
}
