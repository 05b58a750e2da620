//! Finds items that cannot be exported because of their fields, before any work on them.

use std::collections::BTreeSet;

use stage_core::{Item, StageError};

use super::schedule::{Schedule, State};
use crate::export::paths::fill;
use crate::manifest::declared;
use crate::pipeline::{Export, Reference, StageId, StageSpec, StageWork, Template, TemplatePart};
use crate::plan::inputs::ITEMS;
use crate::record::LeftOut;
use stage_core::event::Event;

impl Schedule<'_> {
    /// Checks the pending items of a stage, for its own exports and for those of downstream item
    /// stages.
    pub fn check_export_paths(&mut self, id: StageId) {
        let State::Items(stage) = &self.states[id.0] else { return };
        let mut found = Vec::new();
        for (exporting, export) in self.exports_below(id) {
            let items = stage.queue.iter().map(|queued| &queued.item);
            let mut without: Vec<(&Item, String)> =
                items.filter_map(|item| Some((item, refusal(&export.template, item)?))).collect();
            without.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
            let mut left_out = None;
            for (item, why) in &without {
                LeftOut::note(&mut left_out, stage.total, &item.id, why);
            }
            found.extend(left_out.map(|left_out| (exporting, left_out)));
        }
        for (exporting, left_out) in found {
            self.tell_left_out(exporting, &left_out);
        }
    }

    fn tell_left_out(&mut self, exporting: StageId, left_out: &LeftOut) {
        let spec = self.pipeline.stage(exporting);
        if spec.policy.quarantine.is_exceeded(left_out.items, left_out.of) {
            let help = "correct these names, or choose another `export` path";
            self.fail(exporting, &StageError::with_help(left_out.to_string(), help));
        } else {
            let (stage, message) = (Some(spec.name.clone()), left_out.to_string());
            (self.sink)(Event::Note { stage, message });
        }
    }

    /// The exports with paths that are certain as soon as an item arrives at this stage: no stage
    /// on the way writes a field that they name.
    fn exports_below(&self, id: StageId) -> Vec<(StageId, &Export)> {
        let mut found = Vec::new();
        let mut waiting = vec![(id, BTreeSet::new())];
        while let Some((id, mut written)) = waiting.pop() {
            let spec = self.pipeline.stage(id);
            written.extend(writes(spec));
            let is_certain = |export: &&Export| {
                let mut places = places(&export.template).peekable();
                places.peek().is_some() && places.all(|name| !written.contains(name))
            };
            found.extend(spec.exports.iter().filter(is_certain).map(|export| (id, export)));
            let below = self.pipeline.stages.iter().filter(|spec| self.takes_items(spec, id));
            waiting.extend(below.map(|spec| (spec.id, written.clone())));
        }
        found
    }

    fn takes_items(&self, spec: &StageSpec, id: StageId) -> bool {
        let from = |reference: &Reference| matches!(reference, Reference::Stage { stage, .. } if *stage == id);
        let input = spec.inputs.get(ITEMS);
        spec.work == StageWork::Item
            && !matches!(self.states[spec.id.0], State::Unwanted)
            && input.is_some_and(|input| input.references.iter().any(from))
    }
}

/// The names of the fields that a stage writes.
fn writes(spec: &StageSpec) -> BTreeSet<String> {
    let own = spec.kind.outputs.iter().flat_map(|output| output.writes);
    let declared = declared(spec.kind, &spec.parameters).unwrap_or_default();
    own.map(|(name, _)| (*name).to_owned())
        .chain(declared.into_iter().map(|(name, _)| name))
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
