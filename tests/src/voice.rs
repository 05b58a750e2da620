//! A pipeline with everything that a report shows, without libtorch: recordings, one of them
//! truncated, a training with a log and checkpoints, and a synthesis model.

use std::sync::Arc;

use serde_json::json;
use stage_core::{
    Context, Default, FieldSet, FieldType, GatherInput, GatherJob, GatherOutput, InputPort, Item,
    ItemJob, Job, Kind, NewItem, NewValue, Output, OutputPort, Parameter, ParameterType,
    PortOutput, PortType, Reject, Setup, Stage, StageError, Work,
};

use crate::{Project, tone};

pub fn all() -> Vec<Arc<dyn Stage>> {
    vec![Arc::new(Learn), Arc::new(Speak)]
}

pub const MANIFEST: &str = r#"
[pipeline]
name = "voice"

[assets.base]
path = "base.bin"
license = "CC-BY-NC-SA-4.0"

[assets.table]
path = "data/metadata.csv"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.checked]
use = "audio.check"
input = "clips"
min_duration = "100ms"
min_snr = -20
max_silence = 1
max_clipped = 1
quarantine = 0.5

[stage.model]
use = "test.learn"
input = "checked"
base = "assets.base"
steps = 60

[stage.auditions]
use = "model.audition"
input = "checked"
checkpoints = "model.checkpoints"

[stage.auditioned]
use = "test.speak"
input = "auditions"
model = "model"

[stage.again]
use = "test.speak"
input = "checked"
model = "model"

[stage.measured]
use = "quality.measure"
input = "again"

[stage.regression]
use = "quality.regression"
input = "measured"
measures = [{ field = "duration_ratio", tolerance = 0.1 }]

[session]
price_per_hour = 1.2
"#;

/// The pipeline with this number of clips, and a truncated one.
pub fn project(clips: usize) -> Project {
    let project = Project::new(MANIFEST);
    project.write("base.bin", "base");
    let mut table = String::new();
    for at in 0..clips {
        let seconds = 0.3 + (at * 7 % 11) as f64 * 0.1;
        let wav = tone(200.0 + at as f64 * 10.0, seconds, 2_000 + (at % 13 * 900) as i16);
        project.write(&format!("data/wavs/clip{at:05}.wav"), wav);
        let speaker = ["aino", "eero", "veikko"][at % 7 % 3];
        table.push_str(&format!("clip{at:05}.wav|Lause numero {at}, ja vähän lisää.|{speaker}\n"));
    }
    let cut = tone(300.0, 1.0, 5_000);
    project.write("data/wavs/cut.wav", &cut[..cut.len() / 2]);
    table.push_str("cut.wav|Tämä on poikki.|eero\n");
    project.write("data/metadata.csv", table);
    project
}

/// Trains nothing, and reports like the training stages.
struct Learn;

static LEARN: Kind = Kind {
    name: "test.learn",
    summary: "Trains.",
    work: Work::Train,
    inputs: &[
        InputPort { reads: FieldSet::These(&[("text", FieldType::Text)]), ..InputPort::DATASET },
        InputPort { name: "base", optional: true, reads: FieldSet::All, ..InputPort::ARTIFACT },
    ],
    outputs: &[
        OutputPort { writes: &[("weights", FieldType::Blob)], ..OutputPort::ARTIFACT },
        OutputPort {
            name: "log",
            port_type: PortType::Artifact,
            writes: &[("metrics", FieldType::Blob)],
            passes: None,
            ..OutputPort::ARTIFACT
        },
        OutputPort {
            name: "checkpoints",
            writes: &[("step", FieldType::Number), ("weights", FieldType::Blob)],
            passes: None,
            open: true,
            ..OutputPort::DATASET
        },
    ],
    parameters: &[Parameter {
        name: "steps",
        parameter_type: ParameterType::Integer { min: 1, max: 1_000_000 },
        default: Default::Integer(40),
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

impl Stage for Learn {
    fn kind(&self) -> &'static Kind {
        &LEARN
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let steps = setup.parameters.integer("steps")? as u64;
        Ok(Job::Gather(Box::new(LearnJob { steps })))
    }
}

struct LearnJob {
    steps: u64,
}

impl LearnJob {
    fn held_out(step: u64) -> f64 {
        4.0 / (1.0 + step as f64 / 20.0) + 1.5
    }

    fn log(&self) -> Vec<u8> {
        let values = (1..=self.steps).map(|step| {
            let loss = 5.0 / (1.0 + step as f64 / 12.0) + (step * 7 % 5) as f64 * 0.05 + 1.0;
            let mut values = json!({
                "step": step, "loss": loss, "loss/base": loss * 0.6, "loss/semantic": loss * 0.4,
                "rate": 1e-3 * (1.0 - step as f64 / (self.steps + 1) as f64),
                "gradient_norm": 1.0 + (step % 4) as f64 * 0.1, "passes": step as f64 * 0.25,
            });
            if step.is_multiple_of(10) {
                values["held_out"] = json!(LearnJob::held_out(step));
            }
            values
        });
        let last = LearnJob::held_out(self.steps);
        let log = json!({
            "steps": self.steps, "passes": self.steps as f64 * 0.25, "stopped_early": true,
            "skipped": 0, "went_back": null, "held_out": last,
            "best": { "step": self.steps, "held_out": last }, "values": values.collect::<Vec<_>>(),
        });
        log.to_string().into_bytes()
    }
}

impl GatherJob for LearnJob {
    fn run(
        &mut self,
        _: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let weights = |step: u64| NewValue::bytes("tensor", format!("weights of step {step}"));
        let checkpoint = |step: u64| {
            NewItem { id: format!("step-{step}"), values: Vec::new() }
                .with("step", NewValue::Number(step as f64))
                .with("held_out", NewValue::Number(LearnJob::held_out(step)))
                .with("weights", weights(step))
        };
        for step in 1..=self.steps {
            context.metrics(step, &[("loss", 1.0 / step as f64)]);
        }
        let artifact = |name: &str, value| PortOutput::Artifact(vec![(name.to_owned(), value)]);
        let steps = [self.steps / 2, self.steps];
        Ok(GatherOutput::default()
            .with("output", artifact("weights", weights(self.steps)))
            .with("log", artifact("metrics", NewValue::bytes("application/json", self.log())))
            .with("checkpoints", PortOutput::Dataset(steps.map(checkpoint).to_vec())))
    }
}

/// Hums its texts.
struct Speak;

static SPEAK: Kind = Kind {
    name: "test.speak",
    summary: "Speaks.",
    inputs: &[
        InputPort {
            reads: FieldSet::These(&[("text", FieldType::Text)]),
            may_read: &[("weights", FieldType::Blob), ("step", FieldType::Number)],
            ..InputPort::DATASET
        },
        InputPort { name: "model", ..InputPort::ARTIFACT },
    ],
    outputs: &[OutputPort {
        writes: &[
            ("audio", FieldType::Blob),
            ("duration_ratio", FieldType::Number),
            ("stop", FieldType::Text),
        ],
        ..OutputPort::DATASET
    }],
    ..Kind::BASE
};

impl Stage for Speak {
    fn kind(&self) -> &'static Kind {
        &SPEAK
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(SpeakJob)))
    }
}

struct SpeakJob;

impl ItemJob for SpeakJob {
    fn process(
        &self,
        items: &[Item],
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let spoken = |item: &Item| {
            let letters = item.fields.text("text").unwrap_or("").chars().count() as f64;
            let step = item.fields.number("step").unwrap_or(0.0);
            let wav = tone(150.0 + letters + step, 0.2 + letters / 100.0, 8_000);
            Ok(Output::default()
                .with("audio", NewValue::bytes("audio/wav", wav))
                .with("duration_ratio", NewValue::Number(1.0 + step / 100.0))
                .with("stop", NewValue::Text("end".into())))
        };
        Ok(items.iter().map(spoken).collect())
    }
}
