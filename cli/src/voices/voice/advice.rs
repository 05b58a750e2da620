//! Advice about texts: the text stages of the training that sentences lack, and where to add them.

use engine::pipeline::{ITEMS, Pipeline, Reference, StageSpec, StageWork};
use engine::run::text_stages;
use view::escape::clean;

/// Where to add the text stages that a stage that speaks lacks.
pub fn advice(pipeline: &Pipeline, speaker: &StageSpec) -> String {
    let place = match input_of(pipeline, speaker) {
        Some(sentences) => {
            format!("between `{}` and `{}`", clean(&sentences.name), clean(&speaker.name))
        }
        None => format!("before `{}`", clean(&speaker.name)),
    };
    let lacking = lacking(pipeline, speaker);
    let stages: Vec<String> = lacking.iter().map(|stage| described(stage)).collect();
    match (stages.is_empty(), spells_numbers(pipeline, speaker)) {
        (false, _) => format!(
            "the training texts pass through {}: add stages with the same parameters {place}",
            stages.join(", ")
        ),
        (true, false) => {
            format!("add `text.normalize` with `numbers` {place}, or write them out in the text")
        }
        (true, true) => format!("write them out in the text, or by a text stage {place}"),
    }
}

fn spells_numbers(pipeline: &Pipeline, speaker: &StageSpec) -> bool {
    let spells = |stage: &&StageSpec| {
        let numbers = stage.parameters.text("numbers");
        stage.kind.name == "text.normalize" && numbers.is_ok_and(|numbers| numbers != "keep")
    };
    text_stages(pipeline, speaker).iter().any(spells)
}

/// The text stages of the training that the sentences of a stage that speaks do not come through.
pub fn lacking<'p>(pipeline: &'p Pipeline, speaker: &StageSpec) -> Vec<&'p StageSpec> {
    let Some(training) = training(pipeline, speaker) else { return Vec::new() };
    let spoken = text_stages(pipeline, speaker);
    let is_like = |one: &StageSpec, other: &StageSpec| {
        one.kind.name == other.kind.name && one.parameters == other.parameters
    };
    let trained = text_stages(pipeline, training).into_iter();
    trained.filter(|stage| !spoken.iter().any(|own| is_like(own, stage))).collect()
}

/// The last training of the model that a stage speaks with.
pub fn training<'p>(pipeline: &'p Pipeline, speaker: &StageSpec) -> Option<&'p StageSpec> {
    let ports = speaker.inputs.iter().filter(|(port, _)| **port != ITEMS);
    let models =
        ports.flat_map(|(_, input)| &input.references).filter_map(|reference| match reference {
            Reference::Stage { stage, .. } => Some(*stage),
            Reference::Asset(_) => None,
        });
    let models: Vec<_> = models.collect();
    let mut upstream = pipeline.with_upstream(&models).into_iter().map(|id| pipeline.stage(id));
    // Stages are in the order of their dependencies.
    upstream.rfind(|spec| spec.work == StageWork::Train)
}

fn input_of<'p>(pipeline: &'p Pipeline, spec: &StageSpec) -> Option<&'p StageSpec> {
    match spec.inputs.get(ITEMS)?.references.as_slice() {
        [Reference::Stage { stage, .. }] => Some(pipeline.stage(*stage)),
        _ => None,
    }
}

fn described(stage: &StageSpec) -> String {
    format!("`{}` (`{}`)", clean(&stage.name), stage.kind.name)
}
