//! The stages of the small world: sources, item stages and gathers, on texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{
    Batching, Blob, Context, Default, Expands, FieldSet, FieldType, Fields, GatherInput, GatherJob,
    GatherOutput, InputPort, Item, ItemJob, Job, Kind, NewItem, NewValue, Output, OutputPort,
    Parameter, ParameterType, Place, PortOutput, PortType, Reject, Setup, SourceJob, SourceOutput,
    Stage, StageError, Value, Work, World,
};

use crate::train::{Judge, TRAIN, Train};

pub fn all() -> Vec<Arc<dyn Stage>> {
    vec![
        Arc::new(Lines),
        Arc::new(Many),
        Arc::new(Shout),
        Arc::new(Twice),
        Arc::new(Split),
        Arc::new(Join),
        Arc::new(Tally),
        Arc::new(Train(&TRAIN)),
        Arc::new(Judge),
    ]
}

const TEXT: FieldSet = FieldSet::These(&[("body", FieldType::Blob)]);
const BODY: &[(&str, FieldType)] = &[("body", FieldType::Blob)];

/// Reads every `.txt` file of a folder as an item with its bytes and, as `speaker`, the first
/// letter of its name.
pub struct Lines;

static LINES: Kind = Kind {
    name: "test.lines",
    summary: "Reads text files.",
    work: Work::Source,
    outputs: &[OutputPort {
        writes: &[("body", FieldType::Blob), ("speaker", FieldType::Text)],
        passes: None,
        ..OutputPort::DATASET
    }],
    parameters: &[Parameter {
        name: "folder",
        parameter_type: ParameterType::SourcePath,
        ..Parameter::BASE
    }],
    ..Kind::BASE
};

impl Stage for Lines {
    fn kind(&self) -> &'static Kind {
        &LINES
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Source(Box::new(LinesJob(setup.parameters.text("folder")?.into()))))
    }
}

struct LinesJob(Utf8PathBuf);

impl SourceJob for LinesJob {
    fn scan(&mut self, world: &mut dyn World) -> Result<SourceOutput, StageError> {
        let names: Vec<Utf8PathBuf> = world
            .list(&self.0)?
            .files
            .into_iter()
            .filter(|name| name.extension() == Some("txt"))
            .collect();
        let paths: Vec<Utf8PathBuf> = names.iter().map(|name| self.0.join(name)).collect();
        let mut output = SourceOutput::default();
        for (name, fact) in names.iter().zip(world.files(&paths)?) {
            let id = name.with_extension("").to_string();
            match fact {
                Err(reject) => output.rejects.push((id, reject)),
                Ok(fact) => output.items.push(item(id, fact.digest, fact.size)),
            }
        }
        Ok(output)
    }

    fn passes_files_on(&self) -> bool {
        true
    }
}

fn item(id: String, digest: cache::Digest, size: u64) -> Item {
    let body = Value::Blob(Arc::new(Blob { digest, size, kind: "text/plain".into() }));
    let speaker = Value::text(id.chars().next().map(String::from).unwrap_or_default());
    let fields: Fields = [("body", body), ("speaker", speaker)].into_iter().collect();
    Item::new(id, fields)
}

/// A number of items with missing texts: enough to plan with.
pub struct Many;

static MANY: Kind = Kind {
    name: "test.many",
    parameters: &[Parameter {
        name: "count",
        parameter_type: ParameterType::Integer { min: 0, max: 10_000_000 },
        ..Parameter::BASE
    }],
    ..LINES
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
        let one = |number: i64| {
            let id = format!("clip{number:07}");
            let digest = cache::Digest::of(id.as_bytes());
            item(id, digest, 1000)
        };
        Ok(SourceOutput { items: (0..self.0).map(one).collect(), ..SourceOutput::default() })
    }
}

/// Upper case with a mark after it. A text with `bad` in it is rejected, one with `broken` fails,
/// one with `panic` panics, one with `slow` takes its time, one with `deaf` never ends.
pub struct Shout;

static SHOUT: Kind = Kind {
    name: "test.shout",
    summary: "Shouts.",
    inputs: &[InputPort { reads: TEXT, ..InputPort::DATASET }],
    outputs: &[OutputPort { writes: BODY, ..OutputPort::DATASET }],
    parameters: &[Parameter { name: "mark", default: Default::Text("!"), ..Parameter::BASE }],
    ..Kind::BASE
};

impl Stage for Shout {
    fn kind(&self) -> &'static Kind {
        &SHOUT
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(ShoutJob(setup.parameters.text("mark")?.to_owned()))))
    }
}

struct ShoutJob(String);

impl ItemJob for ShoutJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        items.iter().map(|item| self.one(item, context)).collect()
    }
}

impl ShoutJob {
    fn one(
        &self,
        item: &Item,
        context: &mut dyn Context,
    ) -> Result<Result<Output, Reject>, StageError> {
        let text = body(item, context)?;
        if text.contains("panic") {
            panic!("told to");
        }
        if text.contains("broken") {
            return Err(StageError::failed("cannot shout this"));
        }
        if text.contains("slow") {
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        while text.contains("deaf") {
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        if text.contains("bad") {
            return Ok(Err(Reject::new("bad-word", "it has a bad word in it")));
        }
        let shout = format!("{}{}", text.trim().to_uppercase(), self.0);
        Ok(Ok(Output::default().with("body", NewValue::bytes("text/plain", shout.into_bytes()))))
    }
}

fn body(item: &Item, context: &mut dyn Context) -> Result<String, StageError> {
    let blob = item.fields.blob("body").ok_or_else(|| StageError::failed("no body"))?;
    let bytes = context.read(blob)?;
    String::from_utf8(bytes.to_vec()).map_err(|error| StageError::failed(error.to_string()))
}

/// Doubles every text.
pub struct Twice;

static TWICE: Kind =
    Kind { name: "test.twice", summary: "Repeats.", parameters: &[], ..SHOUT_BASE };

const SHOUT_BASE: Kind = Kind {
    inputs: &[InputPort { reads: TEXT, ..InputPort::DATASET }],
    outputs: &[OutputPort { writes: BODY, ..OutputPort::DATASET }],
    ..Kind::BASE
};

impl Stage for Twice {
    fn kind(&self) -> &'static Kind {
        &TWICE
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(TwiceJob)))
    }
}

pub struct TwiceJob;

impl ItemJob for TwiceJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let twice = |item: &Item, context: &mut dyn Context| {
            let text = body(item, context)?;
            let bytes = format!("{text} {text}").into_bytes();
            Ok(Ok(Output::default().with("body", NewValue::bytes("text/plain", bytes))))
        };
        items.iter().map(|item| twice(item, context)).collect()
    }
}

/// Makes an item of each word, named after its content. A text with `whole` in it is rejected, one
/// with `unsplit` fails, and an empty one has no words.
pub struct Split;

static SPLIT: Kind = Kind {
    name: "test.split",
    summary: "Makes an item of each word.",
    expands: Some(Expands { bytes_per_child: 5.0 }),
    parameters: &[],
    ..SHOUT_BASE
};

impl Stage for Split {
    fn kind(&self) -> &'static Kind {
        &SPLIT
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(SplitJob)))
    }
}

struct SplitJob;

impl ItemJob for SplitJob {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        items.iter().map(|item| split(&body(item, context)?, context)).collect()
    }
}

fn split(text: &str, context: &mut dyn Context) -> Result<Result<Output, Reject>, StageError> {
    let lower = text.to_lowercase();
    if lower.contains("whole") {
        return Ok(Err(Reject::new("whole", "it is to stay whole")));
    }
    if lower.contains("unsplit") {
        return Err(StageError::failed("cannot split this"));
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut children = Vec::new();
    for word in text.split_whitespace() {
        seen.push(word);
        let name = cache::Digest::of(word.as_bytes()).short();
        let id = match seen.iter().filter(|one| **one == word).count() {
            1 => name,
            twin => format!("{name}-{twin}"),
        };
        let blob = context.keep("text/plain", word.as_bytes().to_vec().into())?;
        children.push(NewItem { id, values: vec![("body".to_owned(), NewValue::blob(blob))] });
    }
    Output::of_children(children).map(Ok)
}

/// All texts in one, sorted by id.
pub struct Join;

static JOIN: Kind = Kind {
    name: "test.join",
    summary: "Joins.",
    work: Work::Gather,
    inputs: &[InputPort { reads: TEXT, reads_id: true, ..InputPort::DATASET }],
    outputs: &[OutputPort {
        port_type: PortType::Artifact,
        writes: &[("all", FieldType::Blob)],
        ..OutputPort::ARTIFACT
    }],
    ..Kind::BASE
};

impl Stage for Join {
    fn kind(&self) -> &'static Kind {
        &JOIN
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(JoinJob)))
    }
}

pub struct JoinJob;

impl GatherJob for JoinJob {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let mut all = String::new();
        for item in input.items("input")? {
            all.push_str(&format!("{}: {}\n", item.id, body(item, context)?));
        }
        let values = vec![("all".to_owned(), NewValue::bytes("text/plain", all.into_bytes()))];
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(values)))
    }
}

/// Counts the items of each text, in sums that the engine remembers.
pub struct Tally;

static TALLY: Kind = Kind {
    name: "test.tally",
    summary: "Counts.",
    inputs: &[InputPort { reads: TEXT, ..InputPort::DATASET }],
    parameters: &[Parameter {
        name: "least",
        parameter_type: ParameterType::Integer { min: 0, max: 1_000 },
        default: Default::Integer(0),
        doc: "Shorter texts are not counted.",
        ..Parameter::BASE
    }],
    ..JOIN
};

impl Stage for Tally {
    fn kind(&self) -> &'static Kind {
        &TALLY
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(TallyJob { least: setup.parameters.integer("least")? as u64 })))
    }
}

struct TallyJob {
    least: u64,
}

/// The number of items by the digest of their text.
type Counts = BTreeMap<String, u64>;

impl GatherJob for TallyJob {
    fn sum(&self, items: &[Item]) -> Option<Bytes> {
        let mut counts = Counts::new();
        let texts = items.iter().filter_map(|item| item.fields.blob("body"));
        for text in texts.filter(|text| text.size >= self.least) {
            *counts.entry(text.digest.to_string()).or_default() += 1;
        }
        serde_json::to_vec(&counts).ok().map(Bytes::from)
    }

    fn run(&mut self, input: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let failed = |error: serde_json::Error| StageError::failed(error.to_string());
        let mut all = Counts::new();
        for sum in input.sums("input", self)? {
            for (text, count) in serde_json::from_slice::<Counts>(&sum).map_err(failed)? {
                *all.entry(text).or_default() += count;
            }
        }
        let all = serde_json::to_vec_pretty(&all).map_err(failed)?;
        let values = vec![("all".to_owned(), NewValue::bytes("application/json", all))];
        Ok(GatherOutput::default().with("output", PortOutput::Artifact(values)))
    }
}

/// Like `test.twice`, but in the worker and in batches; the fake worker serves it.
pub static REMOTE: Kind = Kind {
    name: "test.remote",
    summary: "Repeats in a worker.",
    place: Place::Worker,
    batching: Batching::ByBytes { parameter: "batch" },
    parameters: &[Parameter {
        name: "batch",
        parameter_type: ParameterType::Size,
        default: Default::Bytes(64),
        role: stage_core::Role::Execution,
        ..Parameter::BASE
    }],
    ..SHOUT_BASE
};

/// Like `test.remote`, in batches of a number of items.
pub static COUNTED: Kind = Kind {
    name: "test.counted",
    batching: Batching::ByCount { parameter: "batch" },
    parameters: &[Parameter {
        name: "batch",
        parameter_type: ParameterType::Integer { min: 1, max: 100 },
        default: Default::Integer(5),
        role: stage_core::Role::Execution,
        ..Parameter::BASE
    }],
    ..REMOTE
};

pub fn text_path(id: &str) -> Utf8PathBuf {
    Utf8Path::new("data").join(id).with_extension("txt")
}
