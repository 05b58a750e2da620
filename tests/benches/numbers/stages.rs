//! Two nearly empty stages, to measure the engine itself: a source with any number of items, and an
//! item stage that counts letters.

use std::sync::Arc;

use cache::Digest;
use stage_core::{
    Blob, Context, Default, FieldSet, FieldType, Fields, InputPort, Item, ItemJob, Job, Kind,
    NewValue, Output, OutputPort, Parameter, ParameterType, Reject, Setup, SourceJob, SourceOutput,
    Stage, StageError, Value, Work, World,
};

pub const MANIFEST: &str = r#"[pipeline]
name = "many"

[stage.many]
use = "bench.many"

[stage.first]
use = "bench.letters"
input = "many"

[stage.second]
use = "bench.letters"
input = "first"
"#;

pub fn all() -> Vec<Arc<dyn Stage>> {
    vec![Arc::new(Many), Arc::new(Letters)]
}

struct Many;

static MANY: Kind = Kind {
    name: "bench.many",
    summary: "Gives many small items.",
    work: Work::Source,
    outputs: &[OutputPort {
        writes: &[("text", FieldType::Text), ("audio", FieldType::Blob)],
        passes: None,
        ..OutputPort::DATASET
    }],
    parameters: &[Parameter {
        name: "count",
        parameter_type: ParameterType::Integer { min: 0, max: 100_000_000 },
        default: Default::Integer(1_000),
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

impl Stage for Many {
    fn kind(&self) -> &'static Kind {
        &MANY
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Source(Box::new(ManyJob(setup.parameters.integer("count")?))))
    }
}

struct ManyJob(i64);

impl SourceJob for ManyJob {
    fn scan(&mut self, _: &mut dyn World) -> Result<SourceOutput, StageError> {
        Ok(SourceOutput { items: (0..self.0).map(item).collect(), ..SourceOutput::default() })
    }
}

fn item(number: i64) -> Item {
    let digest = Digest::of(&number.to_le_bytes());
    let blob = Blob { digest, size: 88_200, kind: "audio/wav".into() };
    let fields: Fields = [
        ("text", Value::text(format!("The text of clip {number}, of a usual length."))),
        ("audio", Value::Blob(Arc::new(blob))),
    ]
    .into_iter()
    .collect();
    Item::new(format!("clip{number:08}"), fields)
}

struct Letters;

static LETTERS: Kind = Kind {
    name: "bench.letters",
    summary: "Counts letters.",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("text", FieldType::Text)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort { writes: &[("letters", FieldType::Number)], ..OutputPort::DATASET }],
    ..Kind::BASE
};

impl Stage for Letters {
    fn kind(&self) -> &'static Kind {
        &LETTERS
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(LettersJob)))
    }
}

struct LettersJob;

impl ItemJob for LettersJob {
    fn process(
        &self,
        items: &[Item],
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let letters = |item: &Item| {
            let text = item.fields.text("text").unwrap_or_default();
            Ok(Output::default().with("letters", NewValue::Number(text.chars().count() as f64)))
        };
        Ok(items.iter().map(letters).collect())
    }
}
