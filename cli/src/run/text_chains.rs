//! Warns if the sentences to speak lack text stages of the training: the model would read texts in another
//! form than in training.

use std::collections::BTreeSet;

use engine::pipeline::Pipeline;
use view::escape::clean;

use crate::project::Program;
use crate::voices::voice::{advice, lacking, training};

pub fn warn(program: &Program, pipeline: &Pipeline) {
    let mut told = BTreeSet::new();
    for speaker in pipeline.stages.iter().filter(|spec| spec.kind.speaks()) {
        let Some(training) = training(pipeline, speaker) else { continue };
        // Instances of a matrix have the same texts.
        if lacking(pipeline, speaker).is_empty() || !told.insert(speaker.written()) {
            continue;
        }
        program.warn(&format!(
            "the sentences of `{}` lack text stages of the training `{}`: {}",
            clean(&speaker.name),
            clean(&training.name),
            advice(pipeline, speaker),
        ));
    }
}
