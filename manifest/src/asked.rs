//! Stages on sentences that a person has asked for: a missing one ends the run as failed.

use stage_core::artifact::WEIGHTS;

use crate::pipeline::{ITEMS, Reference, StageId, StageSpec, StageWork, Tolerance};

/// The field of a clip. Only sentences to speak have none.
const AUDIO: &str = "audio";

/// Sets the limit of stages that speak the sentences of a person, and of the stages that these
/// sentences come through, unless the manifest gives their limit. Sentences with a model of their
/// own, clips, and trials of a sweep are compared: missing ones are counted there.
pub fn set_limits(stages: &mut [StageSpec]) {
    let speaking = stages.iter().filter(|spec| spec.kind.speaks()).map(|spec| spec.id);
    let mut asked: Vec<StageId> = Vec::new();
    for speaker in speaking {
        let mut next = Some(speaker);
        while let Some(id) = next.filter(|id| is_asked(stages, *id)) {
            asked.push(id);
            next = above(&stages[id.0]).map(|(above, _)| above);
        }
    }
    for id in asked {
        let limit = &mut stages[id.0].policy.quarantine;
        if *limit == Tolerance::Usual {
            *limit = Tolerance::Each;
        }
    }
}

fn is_asked(stages: &[StageSpec], id: StageId) -> bool {
    let spec = &stages[id.0];
    let is_one_by_one = spec.work == StageWork::Item && spec.kind.expands.is_none();
    let fields = above(spec).and_then(|(above, port)| stages[above.0].fields.get(port));
    let is_sentence = |name: &str| name != AUDIO && name != WEIGHTS;
    let are_sentences =
        fields.is_some_and(|known| known.fields.keys().all(|name| is_sentence(name)));
    is_one_by_one && spec.place.is_none() && are_sentences
}

/// The only stage that the items of a stage come from, and its port.
fn above(spec: &StageSpec) -> Option<(StageId, &'static str)> {
    match spec.inputs.get(ITEMS)?.references.as_slice() {
        [Reference::Stage { stage, port }] => Some((*stage, port)),
        _ => None,
    }
}
