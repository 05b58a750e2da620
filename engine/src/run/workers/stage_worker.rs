//! Item stages that stay open for items from elsewhere, such as the sentences that a server is
//! asked for.
//!
//! The items go through the same job as in a run, with the parameters and artifacts of the
//! pipeline; before that, the caller sends them through the stages that change their texts
//! ([`Chain`], module `before`). Nothing is recorded and nothing is kept: results are handed to the
//! caller, and the cache is only read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cache::{Cache, CacheError, Digest};
use camino::Utf8Path;
use crossbeam_channel::unbounded;
use stage_core::device::DeviceName;
use stage_core::{
    Blob, Fields, Item, Kind, NewValue, Output, Place, Reject, Setup, StageError, Value,
};
use stage_worker::wire::{Answer, Question};

use super::client::{ReplyLimits, WorkerClient};
use super::desk::{Desk, refusal};
use crate::engine::{Engine, EngineError, Sink, StopFlag};
use crate::history;
use crate::pipeline::{ITEMS, Pipeline, Reference, StageId, StageSpec, StageWork};
use crate::plan::inputs::arriving;
use crate::plan::planner::Planner;
use crate::plan::{Plan, PlannedValue, planned};
use crate::run::arrived::artifacts;
use crate::run::context::EngineContext;
use crate::run::items::before::{UpstreamJob, before};
use crate::run::message::{Failure, JobHandle};
use crate::run::replay::ReplayError;
use crate::run::scratch::Scratch;
use crate::run::shared::SharedState;
use crate::store::Store;

/// For opening a stage, and for the items of one without `timeout`: a worker that computes is not
/// given up on before an hour.
const UNTIMED: ReplyLimits =
    ReplyLimits { whole: Some(Duration::from_secs(3600)), silence: Some(Duration::from_secs(60)) };

/// The result of each item. An error is not the fault of the item.
pub type Results = Vec<Result<Result<Output, Reject>, StageError>>;

/// The results of items that were processed together.
type BatchResult = Result<Vec<Result<Output, Reject>>, Failure>;

/// A stage with everything but its items.
pub struct PreparedStage {
    pub stage: String,
    pub kind: &'static Kind,
    pub setup: Setup,
    device: DeviceName,
    /// The stages that its items come through.
    pub chain: Chain,
    /// Upstream stages that are not up to date, with the run of the result that takes the place.
    pub earlier: Vec<(String, u64)>,
    shared: SharedState,
}

/// The stages that items from elsewhere come through, in their order. Clones share their jobs.
#[derive(Clone)]
pub struct Chain {
    before: Arc<[UpstreamJob]>,
    shared: SharedState,
}

/// Items from elsewhere.
pub struct Elsewhere<'a> {
    /// The fields that they may have.
    pub fields: &'a [&'a str],
    /// A folder for the working files of the programs that they come through.
    pub folder: &'a Utf8Path,
}

/// Prepares a stage on the worker. Of an upstream stage that is not up to date, such as a training that
/// is to be longer, the last result is used.
///
/// # Errors
///
/// If it is no item stage of the worker, if one of its inputs has no result, or if a stage before it
/// cannot be applied to single items.
pub fn prepare(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    spec: &StageSpec,
    items: &Elsewhere,
    sink: Sink,
) -> Result<PreparedStage, ReplayError> {
    if spec.work != StageWork::Item || spec.kind.place != Place::Worker {
        let why = "does not run a model on single items";
        return Err(ReplayError::Unfit { stage: spec.name.clone(), why });
    }
    let mut planner = Planner::new(engine, pipeline, cache)?;
    let mut plan = planner.plan(&[spec.id], sink)?;
    let mut earlier: Vec<(String, u64)> = Vec::new();
    while let Some(id) = missing(pipeline, &plan, &planner, spec) {
        let above = pipeline.stage(id);
        let known = last_outputs(cache, pipeline, above)?;
        let known = known.filter(|_| earlier.iter().all(|(used, _)| *used != above.name));
        let Some((run, outputs)) = known else {
            return Err(ReplayError::Early(above.name.clone()));
        };
        earlier.push((above.name.clone(), run));
        plan.stages[id.0].known.outputs = outputs;
    }
    let at = |error| EngineError::Stage { stage: spec.name.clone(), error };
    let mut setup = engine.setup(pipeline, spec).map_err(at)?;
    setup.artifacts = artifacts(pipeline, &plan.stages, &planner.assets, spec);
    setup.files = planner.files[spec.id.0].clone();
    let shared = shared(engine, &planner.store, items.folder);
    let parts = (&planner, plan.stages.as_slice());
    let before = before(engine, pipeline, parts, spec, items.fields, &shared)?.into();
    Ok(PreparedStage {
        stage: spec.name.clone(),
        kind: spec.kind,
        setup,
        device: spec.policy.device,
        chain: Chain { before, shared: shared.clone() },
        earlier,
        shared,
    })
}

/// An upstream stage of artifacts that is not up to date.
fn missing(
    pipeline: &Pipeline,
    plan: &Plan,
    planner: &Planner,
    spec: &StageSpec,
) -> Option<StageId> {
    let arrived = arriving(pipeline, &plan.stages, &planner.assets, spec);
    let of_items = spec.inputs.get(ITEMS).and_then(|input| input.references.first());
    let is_items = |id| matches!(of_items, Some(Reference::Stage { stage, .. }) if *stage == id);
    arrived.missing(true).into_iter().find(|id| !is_items(*id))
}

/// A run, and the outputs of a stage in it.
type EarlierOutputs = (u64, BTreeMap<&'static str, PlannedValue>);

/// The run that last finished a stage, and the outputs.
fn last_outputs(
    cache: &Cache,
    pipeline: &Pipeline,
    spec: &StageSpec,
) -> Result<Option<EarlierOutputs>, CacheError> {
    let Some(last) = history::last(cache, &pipeline.name, &spec.name)? else { return Ok(None) };
    let Some(outcome) = history::outcome(cache, &last)? else { return Ok(None) };
    let ports = spec.kind.outputs.iter();
    let values =
        ports.filter_map(|port| Some((port.name, planned(outcome.outputs.get(port.name)?))));
    Ok(Some((last.run, values.collect())))
}

fn shared(engine: &Engine, store: &Store, folder: &Utf8Path) -> SharedState {
    // Nobody listens to reports.
    let messages = unbounded().0;
    let shared = SharedState::new(engine, store.clone(), messages, &StopFlag::default());
    SharedState { scratch: Scratch::at(folder), ..shared }
}

impl Chain {
    /// The item as it arrives at the stage behind the chain.
    ///
    /// # Errors
    ///
    /// Those of the stages; a reject blames the item.
    pub fn apply(&self, mut item: Item) -> Result<Result<Item, Reject>, StageError> {
        for before in &*self.before {
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
pub struct StageWorker {
    engine: Arc<Engine>,
    stages: Vec<OpenStage>,
    client: Option<WorkerClient>,
    stop: StopFlag,
}

/// A stage with its job.
struct OpenStage {
    prepared: PreparedStage,
    job: JobHandle,
    /// The number of items that fit into memory together, once some did not.
    most: usize,
}

impl StageWorker {
    /// `stop` asks the worker to leave out items that it has not begun.
    pub fn new(engine: Engine, stop: StopFlag) -> StageWorker {
        StageWorker { engine: Arc::new(engine), stages: Vec::new(), client: None, stop }
    }

    /// Adds a stage, and returns its number.
    pub fn add(&mut self, prepared: PreparedStage) -> usize {
        let number = self.stages.len();
        let job = JobHandle::new(number as u32, prepared.kind, prepared.setup.clone());
        self.stages.push(OpenStage { prepared, job, most: usize::MAX });
        number
    }

    /// Loads the model of a stage, as far as it is loaded before the first item.
    ///
    /// # Errors
    ///
    /// Those of opening the stage.
    pub fn open(&mut self, number: usize) -> Result<(), StageError> {
        let (stage, client, mut shelf) = self.at(number);
        client.limits = UNTIMED;
        client.open(&stage.job, &mut shelf).map_err(error_of)
    }

    /// The results of items that have come through the chain of the stage, in their order; the bytes
    /// of blobs are in them. Items that do not fit into memory together are processed in parts, from
    /// then on. So are items with which the worker dies: the next part starts another.
    pub fn process(&mut self, number: usize, items: &[Item]) -> Results {
        let most = self.stages[number].most.min(items.len()).max(1);
        let mut results = Results::new();
        for part in items.chunks(most) {
            results.extend(match self.at_once(number, part) {
                // The worker may have died long ago: a new one tries once.
                Err(Failure::Died { .. }) => {
                    let again = self.at_once(number, part);
                    self.or_halved(number, part, again)
                }
                result => self.or_halved(number, part, result),
            });
        }
        results
    }

    /// The results, or those of smaller parts if all together are too much for the worker.
    fn or_halved(&mut self, number: usize, items: &[Item], result: BatchResult) -> Results {
        let half = items.len() / 2;
        let failure = match result {
            Ok(made) => return made.into_iter().map(Ok).collect(),
            Err(failure) => failure,
        };
        match failure {
            Failure::Stage(StageError::OutOfMemory { .. }) if half > 0 => {
                self.stages[number].most = half;
            }
            Failure::Died { .. } if half > 0 => {}
            failure => return vec![Err(error_of(failure)); items.len()],
        }
        let (mut results, mut left) = (Results::new(), items);
        while !left.is_empty() {
            let size = self.stages[number].most.min(half).min(left.len());
            let (part, rest) = left.split_at(size);
            let made = self.at_once(number, part);
            results.extend(self.or_halved(number, part, made));
            left = rest;
        }
        results
    }

    fn at_once(&mut self, number: usize, items: &[Item]) -> BatchResult {
        let (stage, client, mut shelf) = self.at(number);
        client.limits = UNTIMED;
        client.open(&stage.job, &mut shelf)?;
        client.limits = stage.limits(items.len());
        let results = client.process(&stage.job, items, &[], &mut shelf)?;
        let results = results.map_err(Failure::Stage)?;
        if results.len() != items.len() {
            return Err(Failure::Stage(too_few()));
        }
        let whole = |result: Result<Output, Reject>| result.map(|made| shelf.whole(made));
        Ok(results.into_iter().map(whole).collect())
    }

    /// A stage, the client of its worker, and the objects for one request.
    fn at(&mut self, number: usize) -> (&OpenStage, &mut WorkerClient, Shelf) {
        let first = &self.stages[0].prepared;
        let client = self.client.get_or_insert_with(|| client(&self.engine, first));
        let stage = &self.stages[number];
        let shelf = Shelf::new(&stage.prepared, &self.stop);
        (stage, client, shelf)
    }

    /// Ends the worker.
    pub fn end(self) {
        if let Some(client) = self.client {
            client.shut_down();
        }
    }
}

impl OpenStage {
    /// As in a run, the time limit of an item counts for each item of a batch.
    fn limits(&self, items: usize) -> ReplyLimits {
        let limit =
            self.prepared.setup.timeout_seconds.and_then(|seconds| {
                Duration::try_from_secs_f64(seconds * items.max(1) as f64).ok()
            });
        match limit {
            Some(limit) => ReplyLimits { whole: Some(limit), silence: None },
            None => UNTIMED,
        }
    }
}

/// A client for the device that a stage wishes, or the first one that fits.
fn client(engine: &Arc<Engine>, prepared: &PreparedStage) -> WorkerClient {
    let SharedState { spare, messages, .. } = &prepared.shared;
    let device = prepared.device.one().unwrap_or_else(|| {
        let found = spare.ask(engine, messages).candidates(prepared.device);
        found.first().copied().unwrap_or_default()
    });
    WorkerClient::new(engine.clone(), device, spare.clone(), messages.clone())
}

fn too_few() -> StageError {
    StageError::failed("the worker returned too few results")
}

fn error_of(failure: Failure) -> StageError {
    match failure {
        Failure::Stage(error) | Failure::Open(error) => error,
        Failure::Died { message } => StageError::Transient { message },
    }
}

/// The objects that a job reads, and those that it made.
struct Shelf {
    context: EngineContext,
    stop: StopFlag,
    made: HashMap<Digest, Bytes>,
}

impl Desk for Shelf {
    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Read(blob) => Answer::Bytes(self.read(&blob)),
            Question::Find(blob) => Answer::Path(self.context.file_of(&blob)),
            Question::Keep { kind, bytes } => Answer::Kept(Ok(self.keep(&kind, bytes))),
            Question::Remember(_, output) => Answer::Remembered(Ok(self.fields(output))),
            Question::Stopping => Answer::Stopping(self.stop.is_requested()),
            // Without a folder, objects come as bytes, which are gone with the answer.
            other => refusal(other),
        }
    }
}

impl Shelf {
    fn new(prepared: &PreparedStage, stop: &StopFlag) -> Shelf {
        let context = prepared.shared.context(0, prepared.kind);
        Shelf { context, stop: stop.clone(), made: HashMap::new() }
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
