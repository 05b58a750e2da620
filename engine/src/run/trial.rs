//! The trainings of a probe: their first steps, and nothing else. The number of steps changes the
//! key, so the outcome is never confused with the wanted one.

use stage_core::ParameterValue::{self, Absent, Flag, Integer, Seconds, Text};

use crate::pipeline::{Pipeline, StageSpec, StageWork};

/// The first step only starts the measurement.
const STEPS: i64 = 11;
/// More seconds than a trial lasts.
const NEVER: f64 = 1e9;

/// The pipeline with shortened trainings.
pub fn shortened(pipeline: &Pipeline) -> Pipeline {
    let mut tried = pipeline.clone();
    let trainings = tried.stages.iter_mut().filter(|spec| spec.work == StageWork::Train);
    trainings.for_each(shorten);
    tried
}

/// Sets the parameters that the kind has.
fn shorten(spec: &mut StageSpec) {
    let steps = spec.parameters.integer("steps").map_or(STEPS, |steps| steps.min(STEPS));
    let short: [(&str, ParameterValue); 12] = [
        ("steps", Integer(steps)),
        ("epochs", Absent),
        ("until", Absent),
        ("report_every", Integer(1)),
        ("warm_up", Integer(0)),
        ("validate_every", Integer(steps)),
        ("save_every", Integer(0)),
        ("save_interval", Seconds(NEVER)),
        ("keep", Integer(0)),
        ("patience", Integer(0)),
        ("preflight", Flag(false)),
        ("on_change", Text("retrain".to_owned())),
    ];
    for (name, value) in short {
        if spec.kind.parameters.iter().any(|parameter| parameter.name == name) {
            spec.parameters.0.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::pipeline;

    #[test]
    fn trainings_are_cut_short_and_all_else_stays() {
        let pipeline = pipeline(include_str!("../../../pipelines/demo/pipeline.toml"));
        let tried = shortened(&pipeline);
        for (before, after) in pipeline.stages.iter().zip(&tried.stages) {
            let is_training = before.work == StageWork::Train;
            assert_eq!(before.parameters != after.parameters, is_training, "{}", before.name);
            if is_training {
                assert_eq!(after.parameters.integer("steps").unwrap(), STEPS);
                assert!(!after.parameters.is_set("epochs"));
                for same in ["batch", "accumulation", "max_length", "learning_rate"] {
                    assert_eq!(before.parameters.get(same), after.parameters.get(same));
                }
            }
        }
    }
}
