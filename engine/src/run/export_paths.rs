//! Finds items that cannot be exported because of their fields, before any work on them.

use std::collections::BTreeSet;

use stage_core::Item;

use crate::export::paths::fill;
use crate::manifest::declared;
use crate::pipeline::{
    Export, ITEMS, Pipeline, Reference, StageId, StageSpec, StageWork, Template, TemplatePart,
};
use crate::record::LeftOut;

/// The exports that leave out some of the items that arrive at a stage: its own, and those of item
/// stages downstream.
pub fn left_out<'a>(
    pipeline: &Pipeline,
    is_wanted: &dyn Fn(StageId) -> bool,
    (id, total): (StageId, u64),
    items: impl Iterator<Item = &'a Item> + Clone,
) -> Vec<(StageId, LeftOut)> {
    let mut found = Vec::new();
    for (exporting, export) in exports_below(pipeline, is_wanted, id) {
        let refused = |item: &'a Item| Some((item, refusal(&export.template, item)?));
        let mut without: Vec<(&Item, String)> = items.clone().filter_map(refused).collect();
        without.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
        let mut left_out = None;
        for (item, why) in &without {
            LeftOut::note(&mut left_out, total, &item.id, why);
        }
        found.extend(left_out.map(|left_out| (exporting, left_out)));
    }
    found
}

/// The exports with paths that are certain as soon as an item arrives at this stage: no stage on the
/// way writes a field that they name.
fn exports_below<'a>(
    pipeline: &'a Pipeline,
    is_wanted: &dyn Fn(StageId) -> bool,
    id: StageId,
) -> Vec<(StageId, &'a Export)> {
    let mut found = Vec::new();
    let mut waiting = vec![(id, BTreeSet::new())];
    while let Some((id, mut written)) = waiting.pop() {
        let spec = pipeline.stage(id);
        written.extend(writes(spec));
        let is_certain = |export: &&Export| {
            let mut places = places(&export.template).peekable();
            places.peek().is_some() && places.all(|name| !written.contains(name))
        };
        found.extend(spec.exports.iter().filter(is_certain).map(|export| (id, export)));
        let takes = |below: &&StageSpec| {
            below.work == StageWork::Item && is_wanted(below.id) && takes_items(below, id)
        };
        let below = pipeline.stages.iter().filter(takes);
        waiting.extend(below.map(|spec| (spec.id, written.clone())));
    }
    found
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

/// The reason why no file can be named after an item. Missing fields may still come later.
fn refusal(template: &Template, item: &Item) -> Option<String> {
    let is_there = |name: &str| name == "id" || item.fields.get(name).is_some();
    places(template).all(is_there).then(|| fill(template, item).err())?
}
