//! The largest cost of a sweep: successive halving limits the trials of a rung.

use std::collections::{BTreeMap, BTreeSet};

use crate::pipeline::{Pipeline, Sweep, TrialPosition};
use crate::plan::Plan;
use crate::sweep::halving::Part;

/// The trials and rungs beyond the places of their rungs. Nobody knows which trials will go on, so
/// that the first ones stand for all.
pub fn beyond(pipeline: &Pipeline, plan: &Plan) -> BTreeSet<TrialPosition> {
    let mut open: BTreeMap<(usize, usize), BTreeSet<TrialPosition>> = BTreeMap::new();
    for spec in pipeline.stages.iter().filter(|spec| !spec.gate.is_empty()) {
        let Some(place) = spec.place else { continue };
        if plan.stage(spec.id).known.part == Part::In {
            open.entry((place.sweep, place.rung)).or_default().insert(place);
        }
    }
    let beyond = open.into_iter().flat_map(|((sweep, rung), open)| {
        let places = places(&pipeline.sweeps[sweep], rung);
        // Trials that are certain to take part are no longer waiting.
        let (waiting, certain): (Vec<TrialPosition>, Vec<TrialPosition>) =
            open.into_iter().partition(|place| is_waiting(pipeline, plan, *place));
        waiting.into_iter().skip(places.saturating_sub(certain.len()))
    });
    beyond.collect()
}

fn places(sweep: &Sweep, rung: usize) -> usize {
    sweep.halving.places(rung.min(sweep.last_rung()))
}

fn is_waiting(pipeline: &Pipeline, plan: &Plan, place: TrialPosition) -> bool {
    let own =
        |spec: &&crate::pipeline::StageSpec| spec.place == Some(place) && !spec.gate.is_empty();
    let stage = pipeline.stages.iter().find(own);
    stage.is_some_and(|spec| plan.stage(spec.id).known.keyed.is_none())
}
