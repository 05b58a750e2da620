//! Item stages that stay open for items from elsewhere, such as the sentences that a server is
//! asked for.
//!
//! The items go through the same job as in a run, with the parameters and artifacts of the
//! pipeline; before that, they go through the stages that change their texts (module `before`).
//! Nothing is recorded and nothing is kept: results are handed to the caller, and the cache is only
//! read.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::{Cache, Digest};
use camino::Utf8Path;
use crossbeam_channel::unbounded;
use stage_core::wire::{Answer, PROTOCOL, Question, Reply, Request, receive, send};
use stage_core::{
    Blob, Fields, Item, Kind, NewValue, Output, Place, Reject, Setup, StageError, Value,
};

use super::arrived::artifacts;
use super::before::{Before, before};
use super::context::EngineContext;
use super::replay::ReplayError;
use super::scratch::Scratch;
use super::shared::Shared;
use super::worker::{Spare, Worker};
use crate::engine::{Engine, EngineError, Sink, StopFlag};
use crate::pipeline::{ITEMS, Pipeline, Reference, StageSpec, StageWork};
use crate::plan::inputs::arriving;
use crate::plan::planner::Planner;
use crate::store::Store;

/// The time that an idle worker has to exit.
const PARTING: Duration = Duration::from_secs(5);

/// The result of each item.
pub type Results = Vec<Result<Output, Reject>>;

/// A stage with everything but its items.
pub struct Prepared {
    pub stage: String,
    pub kind: &'static Kind,
    pub setup: Setup,
    /// As the manifest has it: `auto`, `cpu`, `cuda` or `cuda:1`.
    device: String,
    before: Vec<Before>,
    shared: Shared,
}

/// Items from elsewhere.
pub struct Elsewhere<'a> {
    /// The fields that they may have.
    pub fields: &'a [&'a str],
    /// A folder for the working files of the programs that they come through.
    pub folder: &'a Utf8Path,
}

/// Prepares a stage on the worker; all its artifacts must exist.
///
/// # Errors
///
/// If it is no item stage of the worker, if one of its inputs is not up to date, or if a stage before
/// it cannot be applied to single items.
pub fn prepare(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    spec: &StageSpec,
    items: &Elsewhere,
    sink: Sink,
) -> Result<Prepared, ReplayError> {
    if spec.work != StageWork::Item || spec.kind.place != Place::Worker {
        let why = "does not run a model on single items";
        return Err(ReplayError::Unfit { stage: spec.name.clone(), why });
    }
    let mut planner = Planner::new(engine, pipeline, cache)?;
    let plan = planner.plan(&[spec.id], sink)?;
    let arrived = arriving(pipeline, &plan.stages, &planner.assets, spec);
    let missing = arrived.missing(true).into_iter();
    let of_items = spec.inputs.get(ITEMS).and_then(|input| input.references.first());
    let is_items = |id| matches!(of_items, Some(Reference::Stage { stage, .. }) if *stage == id);
    let mut missing = missing.filter(|id| !is_items(*id));
    if let Some(id) = missing.next() {
        return Err(ReplayError::Early(pipeline.stage(id).name.clone()));
    }
    let at = |error| EngineError::Stage { stage: spec.name.clone(), error };
    let mut setup = engine.setup(pipeline, spec).map_err(at)?;
    setup.artifacts = artifacts(pipeline, &plan.stages, &planner.assets, spec);
    setup.files = planner.files[spec.id.0].clone();
    let shared = shared(engine, &planner.store, items.folder);
    let parts = (&planner, plan.stages.as_slice());
    let before = before(engine, pipeline, parts, spec, items.fields, &shared)?;
    Ok(Prepared {
        stage: spec.name.clone(),
        kind: spec.kind,
        setup,
        device: spec.policy.device.clone(),
        before,
        shared,
    })
}

fn shared(engine: &Engine, store: &Store, folder: &Utf8Path) -> Shared {
    Shared {
        engine: Arc::new(engine.clone()),
        store: store.clone(),
        // Nobody listens to reports.
        messages: unbounded().0,
        stop: StopFlag::default(),
        gpu_stop: StopFlag::default(),
        scratch: Scratch::at(folder),
        spare: Spare::default(),
        kept: None,
    }
}

impl Prepared {
    /// The item as it arrives at the stage.
    fn arriving(&self, mut item: Item) -> Result<Result<Item, Reject>, StageError> {
        for before in &self.before {
            item = match before.apply(item, &self.shared)? {
                Ok(item) => item,
                Err(reject) => return Ok(Err(reject)),
            };
        }
        Ok(Ok(item))
    }
}

/// A worker process with the jobs of prepared stages. It is started for the first items, and again
/// if it dies. It has one device, that of the first stage.
pub struct Standing {
    engine: Engine,
    prepared: Vec<Prepared>,
    worker: Option<(Worker, String)>,
    stop: StopFlag,
}

impl Standing {
    /// `stop` asks the worker to leave out items that it has not begun.
    pub fn new(engine: Engine, stop: StopFlag) -> Standing {
        Standing { engine, prepared: Vec::new(), worker: None, stop }
    }

    /// Adds a stage, and returns its number.
    pub fn add(&mut self, prepared: Prepared) -> usize {
        self.prepared.push(prepared);
        self.prepared.len() - 1
    }

    pub fn prepared(&self, number: usize) -> &Prepared {
        &self.prepared[number]
    }

    /// Loads the model of a stage, as far as it is loaded before the first item.
    ///
    /// # Errors
    ///
    /// Those of opening the stage.
    pub fn open(&mut self, number: usize) -> Result<(), StageError> {
        let mut shelf = Shelf::new(&self.prepared[number], &self.stop);
        open(&self.engine, &mut self.worker, &self.prepared, number, &mut shelf)
    }

    /// The results of items, in their order; the bytes of blobs are in them. Items that do not fit
    /// into memory together are processed in parts.
    ///
    /// # Errors
    ///
    /// Those that concern all items, such as a worker that died; the next call starts another.
    pub fn process(&mut self, number: usize, items: &[Item]) -> Result<Results, StageError> {
        let arriving = items.iter().map(|item| self.prepared[number].arriving(item.clone()));
        let arriving: Vec<Result<Item, Reject>> = arriving.collect::<Result<_, _>>()?;
        let good: Vec<Item> = arriving.iter().flatten().cloned().collect();
        let made = match self.parts(number, &good) {
            // The worker died, perhaps long ago: a new one tries once.
            Err(StageError::Transient { .. }) => self.parts(number, &good)?,
            other => other?,
        };
        let mut made = made.into_iter();
        let lost = || Err(StageError::failed("the worker returned too few results"));
        let result = |arrived| match arrived {
            Ok(_) => made.next().map_or_else(lost, Ok),
            Err(reject) => Ok(Err(reject)),
        };
        arriving.into_iter().map(result).collect()
    }

    fn parts(&mut self, number: usize, items: &[Item]) -> Result<Results, StageError> {
        if items.is_empty() {
            return Ok(Results::new());
        }
        match self.at_once(number, items) {
            Err(StageError::OutOfMemory { .. }) if items.len() > 1 => {
                let (first, second) = items.split_at(items.len() / 2);
                let mut results = self.parts(number, first)?;
                results.extend(self.parts(number, second)?);
                Ok(results)
            }
            other => other,
        }
    }

    fn at_once(&mut self, number: usize, items: &[Item]) -> Result<Results, StageError> {
        let mut shelf = Shelf::new(&self.prepared[number], &self.stop);
        open(&self.engine, &mut self.worker, &self.prepared, number, &mut shelf)?;
        let request =
            Request::Process { job: number as u32, items: items.to_vec(), blobs: Vec::new() };
        match ask(&mut self.worker, request, &mut shelf)? {
            Reply::Processed(results) => {
                let whole = |result: Result<Output, Reject>| result.map(|made| shelf.whole(made));
                Ok(results?.into_iter().map(whole).collect())
            }
            _ => Err(out_of_turn(&mut self.worker)),
        }
    }

    /// Ends the worker.
    pub fn end(mut self) {
        let Some((Worker { program, mut input, .. }, _)) = self.worker.take() else { return };
        // If it does not respond, closing its pipe ends it.
        let _ = send(&mut input, &Request::Shutdown);
        drop(input);
        let _ = program.ends_within(PARTING);
        let _ = program.end();
    }
}

type Running = Option<(Worker, String)>;

/// Makes sure that a process is running and has the job open.
fn open(
    engine: &Engine,
    worker: &mut Running,
    prepared: &[Prepared],
    number: usize,
    shelf: &mut Shelf,
) -> Result<(), StageError> {
    if worker.is_none() {
        start(engine, worker, &prepared[0].device, shelf)?;
    }
    let job = number as u32;
    let Some((running, device)) = worker else { return Err(no_worker()) };
    if running.open.contains(&job) {
        return Ok(());
    }
    let Prepared { kind, setup, .. } = &prepared[number];
    let setup = Setup { device: device.clone(), ..setup.clone() };
    let request = Request::Open { job, kind: kind.name.to_owned(), version: kind.version, setup };
    match ask(worker, request, shelf)? {
        Reply::Opened(opened) => opened?,
        _ => return Err(out_of_turn(worker)),
    }
    if let Some((running, _)) = worker {
        running.open.insert(job);
    }
    Ok(())
}

/// Starts a worker on the device, or on the first one of this sort.
fn start(
    engine: &Engine,
    worker: &mut Running,
    device: &str,
    shelf: &mut Shelf,
) -> Result<(), StageError> {
    *worker = Some((Worker::start(engine)?, String::new()));
    let device = match device {
        "auto" | "cuda" => match ask(worker, Request::Devices, shelf)? {
            Reply::Devices(found) => match (found.names().into_iter().next(), device) {
                (Some(first), _) => first,
                (None, "auto") => "cpu".to_owned(),
                (None, _) => "cuda:0".to_owned(),
            },
            _ => return Err(out_of_turn(worker)),
        },
        named => named.to_owned(),
    };
    let threads = engine.threads as u32;
    let hello = Request::Hello { protocol: PROTOCOL, device: device.clone(), threads };
    match ask(worker, hello, shelf)? {
        Reply::Ready { protocol: PROTOCOL, .. } => {}
        Reply::Ready { program, .. } => {
            end(worker, "");
            return Err(StageError::with_help(
                format!("{program} and this program use different protocols"),
                "build the worker from the same source as `throstle`",
            ));
        }
        _ => return Err(out_of_turn(worker)),
    }
    if let Some((_, own)) = worker {
        *own = device;
    }
    Ok(())
}

/// Sends a request and answers the worker's questions until its final reply.
fn ask(worker: &mut Running, request: Request, shelf: &mut Shelf) -> Result<Reply, StageError> {
    let mut message = request;
    loop {
        let Some((running, _)) = worker else { return Err(no_worker()) };
        if let Err(error) = send(&mut running.input, &message) {
            return Err(died(worker, &error.to_string()));
        }
        message = loop {
            match receive(&mut running.output) {
                Ok(Some(Reply::Question(question))) => {
                    break Request::Answer(shelf.answer(question));
                }
                Ok(Some(Reply::Progress { .. } | Reply::Begins(_) | Reply::Metrics { .. })) => {}
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => return Err(died(worker, "it closed its output")),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Err(died(
                        worker,
                        "something other than its messages is on its standard output",
                    ));
                }
                Err(error) => return Err(died(worker, &error.to_string())),
            }
        };
    }
}

fn no_worker() -> StageError {
    StageError::failed("the worker is not running")
}

fn out_of_turn(worker: &mut Running) -> StageError {
    died(worker, "unexpected answer")
}

fn died(worker: &mut Running, why: &str) -> StageError {
    StageError::Transient { message: end(worker, why) }
}

fn end(worker: &mut Running, why: &str) -> String {
    worker.take().map_or_else(String::new, |(worker, _)| worker.last_words(why))
}

/// The objects that a job reads, and those that it made.
struct Shelf {
    context: EngineContext,
    stop: StopFlag,
    made: HashMap<Digest, Bytes>,
}

impl Shelf {
    fn new(prepared: &Prepared, stop: &StopFlag) -> Shelf {
        let context = prepared.shared.context(0, prepared.kind);
        Shelf { context, stop: stop.clone(), made: HashMap::new() }
    }

    fn answer(&mut self, question: Question) -> Answer {
        let none = || StageError::failed("nothing can be recorded here");
        match question {
            Question::Read(blob) => Answer::Bytes(self.read(&blob)),
            Question::Find(blob) => Answer::Path(self.context.file_of(&blob)),
            // So objects come as bytes, which are gone with the answer.
            Question::Staging => Answer::Path(None),
            Question::Keep { kind, bytes } => Answer::Kept(Ok(self.keep(&kind, bytes))),
            Question::Recall(_) => Answer::Recalled(Ok(None)),
            Question::Remember(_, output) => Answer::Remembered(Ok(self.fields(output))),
            Question::Stopping => Answer::Stopping(self.stop.is_requested()),
            Question::KeepFile { .. } => Answer::Kept(Err(none())),
            Question::Checkpoint(_) => Answer::Saved(Err(none())),
            Question::LastCheckpoint | Question::Parent => Answer::Found(Ok(None)),
            Question::SetAside(..) => Answer::SetAside(Err(none())),
            Question::MayBegin { .. } => Answer::May(false),
        }
    }

    fn read(&mut self, blob: &Blob) -> Result<Bytes, StageError> {
        match self.made.get(&blob.digest) {
            Some(bytes) => Ok(bytes.clone()),
            None => Ok(self.context.store.read(&blob.digest)?),
        }
    }

    fn keep(&mut self, kind: &str, bytes: Bytes) -> Blob {
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        self.made.insert(digest, bytes);
        Blob { digest, size, kind: kind.into() }
    }

    fn fields(&mut self, output: Output) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in output.values {
            let value = match value {
                NewValue::Text(text) => Value::text(text),
                NewValue::Number(number) => Value::Number(number),
                NewValue::Kept(value) => value,
                NewValue::Bytes { kind, bytes } => Value::Blob(Arc::new(self.keep(&kind, bytes))),
            };
            fields.set(name, value);
        }
        fields
    }

    /// Puts the bytes of large objects into an output.
    fn whole(&self, mut output: Output) -> Output {
        for (_, value) in &mut output.values {
            if let NewValue::Kept(Value::Blob(blob)) = value
                && let Some(bytes) = self.made.get(&blob.digest)
            {
                *value = NewValue::bytes(blob.kind.to_string(), bytes.clone());
            }
        }
        output
    }
}
