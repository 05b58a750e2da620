//! A stage that misbehaves in its process, as its items tell it.

use std::process;

use stage_core::{
    Context, FieldSet, FieldType, InputPort, Item, ItemJob, Job, Kind, NewValue, Output,
    OutputPort, Reject, Setup, SourceJob, SourceOutput, Stage, StageError, Work, World,
};

/// Prints, panics, exits or overflows its stack if the text of an item says so.
pub struct Unruly;

static UNRULY: Kind = Kind {
    name: "test.unruly",
    summary: "Behaves badly.",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("body", FieldType::Blob)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort { writes: &[("body", FieldType::Blob)], ..OutputPort::DATASET }],
    ..Kind::BASE
};

impl Stage for Unruly {
    fn kind(&self) -> &'static Kind {
        &UNRULY
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        println!("{{\"event\":\"printed while a stage was opened\"}}");
        Ok(Job::Item(Box::new(Unruly)))
    }
}

impl ItemJob for Unruly {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        items.iter().map(|item| self.one(item, context).map(Ok)).collect()
    }
}

impl Unruly {
    fn one(&self, item: &Item, context: &mut dyn Context) -> Result<Output, StageError> {
        let blob = item.fields.blob("body").ok_or_else(|| StageError::failed("no body"))?;
        let text = context.read(blob)?;
        match text.as_ref() {
            b"print" => print!("{{\"event\":\"finished\"}}\nand no end of line"),
            b"panic" => panic!("told to \u{1b}[2J"),
            b"abort" => process::abort(),
            b"exit" => process::exit(0),
            b"overflow" => println!("{}", deeper(1)),
            _ => {}
        }
        Ok(Output::default().with("body", NewValue::bytes("text/plain", text)))
    }
}

/// Needs more stack than any thread has.
#[allow(unconditional_recursion)]
fn deeper(depth: u64) -> u64 {
    let here = std::hint::black_box([depth; 64]);
    deeper(depth + 1) + here[0]
}

/// A source that never finishes reading.
pub struct Stuck;

static STUCK: Kind = Kind {
    name: "test.stuck",
    summary: "Reads for ever.",
    work: Work::Source,
    outputs: &[OutputPort { passes: None, ..OutputPort::DATASET }],
    ..Kind::BASE
};

impl Stage for Stuck {
    fn kind(&self) -> &'static Kind {
        &STUCK
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Source(Box::new(Stuck)))
    }
}

impl SourceJob for Stuck {
    fn scan(&mut self, _: &mut dyn World) -> Result<SourceOutput, StageError> {
        loop {
            std::thread::park();
        }
    }
}
