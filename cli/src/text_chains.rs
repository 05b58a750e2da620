//! Warns where sentences to speak do not come through the text stages that the texts of the training come
//! through: the model would read texts that are written in another way than those it has learned.

use std::collections::BTreeSet;

use engine::pipeline::Pipeline;
use view::escape::clean;

use super::project::Program;
use super::voice::{advice, lacking, speaks, training};

pub fn warn(program: &Program, pipeline: &Pipeline) {
    let mut told = BTreeSet::new();
    for speaker in pipeline.stages.iter().filter(|spec| speaks(spec.kind)) {
        let Some(training) = training(pipeline, speaker) else { continue };
        // Instances of a matrix have the same texts.
        if lacking(pipeline, speaker).is_empty() || !told.insert(speaker.written()) {
            continue;
        }
        program.warn(&format!(
            "`{}` speaks texts that are written in another way than those `{}` learns: {}",
            clean(&speaker.name),
            clean(&training.name),
            advice(pipeline, speaker),
        ));
    }
}
