//! Runs one item of a stage, or a whole stage, again by itself: with the inputs that a run would
//! give it, on a read-only cache; results stay in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::{Event, StageCounts};
use cache::{Cache, Digest};
use camino::Utf8Path;
use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use stage_core::{Item, with_parents};

use super::arrived::{artifacts, gather_sources};
use super::message::{GatherTask, ItemTask, JobHandle, Message, Outcome, ProgressReport, Task};
use super::shared::SharedState;
use super::threads::Threads;
use crate::engine::{Engine, EngineError, Sink, StopFlag};
use crate::history;
use crate::pipeline::{Pipeline, StageSpec, StageWork};
use crate::plan::inputs::arriving;
use crate::plan::items::item_reads;
use crate::plan::planner::Planner;
use crate::plan::{PartialBucket, PartialDataset, PartialItem, Plan, PlannedValue};
use crate::record::{ItemRecord, StageRecord};
use crate::run::items::intake::Intake;
use crate::store::{ReadError, Store};

pub use super::message::{Failure, GatherSource, GatherSources, ItemOutcome};

/// The inputs, the result, and the result of a run for the same inputs.
pub struct Replay {
    pub given: ReplayInput,
    pub made: ReplayResult,
    pub seconds: f64,
    pub store: Store,
}

pub enum ReplayInput {
    Item(Item),
    Whole(GatherSources),
}

/// There is one at a time.
#[allow(clippy::large_enum_variant)]
pub enum ReplayResult {
    Item { outcome: ItemOutcome, known: Option<ItemRecord> },
    Whole { outcome: Result<StageRecord, Failure>, known: Option<StageRecord> },
}

/// The reason why nothing can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("the items of `{0}` are unknown until its upstream stages have run")]
    Early(String),
    #[error("no item `{item}` arrives at `{stage}` yet: its upstream stages are not finished")]
    NotYet { stage: String, item: String },
    #[error("no item `{item}` arrives at `{stage}`")]
    NoItem { stage: String, item: String },
    #[error("`{0}` works on single items")]
    Items(String),
    #[error("`{0}` works on all items together")]
    NoItems(String),
    #[error("`{stage}` {why}")]
    Unfit { stage: String, why: &'static str },
    #[error("`{stage}` cannot make the field `{field}` for a single sentence: it {why}")]
    Apart { stage: String, field: String, why: String },
}

impl From<cache::CacheError> for ReplayError {
    fn from(error: cache::CacheError) -> ReplayError {
        EngineError::Cache(error).into()
    }
}

/// The only task.
const TICKET: u64 = 1;
/// The interval between checks for a request to stop.
const PATIENCE: Duration = Duration::from_millis(50);

pub struct Replayer<'a> {
    pub engine: &'a Engine,
    pub pipeline: &'a Pipeline,
    /// Opened read-only.
    pub cache: &'a Cache,
    pub spec: &'a StageSpec,
    /// The place for working folders of stages.
    pub folder: &'a Utf8Path,
    pub stop: StopFlag,
}

impl Replayer<'_> {
    pub fn replay(&self, item: Option<&str>, sink: Sink) -> Result<Replay, ReplayError> {
        self.check(item)?;
        let mut planner = Planner::new(self.engine, self.pipeline, self.cache)?;
        let plan = planner.plan(&[self.spec.id], sink)?;
        let given = self.given(&planner, &plan, item)?;
        let job = Arc::new(self.job(&planner, &plan)?);
        let task = match &given {
            ReplayInput::Item(item) => {
                let key = self.job_key(&planner, &plan);
                let intake = Arc::new(Intake { key, reads: item_reads(self.spec) });
                let items = Arc::new(vec![intake.queued(0, item.clone())]);
                Task::Items(ItemTask { ticket: TICKET, job, intake, items, route: None })
            }
            ReplayInput::Whole(_) => Task::Gather(Box::new(GatherTask {
                ticket: TICKET,
                job,
                outputs: self.spec.kind.outputs,
                ports: Arc::new(gather_sources(
                    self.pipeline,
                    &plan.stages,
                    &planner.assets,
                    self.spec,
                )),
                policy: self.spec.policy.clone(),
                training: None,
                own_key: None,
                inputs: None,
                awaits: Vec::new(),
            })),
        };
        let started = Instant::now();
        let outcome = self.work(&planner.store, task, sink)?;
        let seconds = started.elapsed().as_secs_f64();
        let made = self.made(&planner, &plan, &given, outcome)?;
        Ok(Replay { given, made, seconds, store: planner.store.clone() })
    }

    fn check(&self, item: Option<&str>) -> Result<(), ReplayError> {
        let stage = self.spec.name.clone();
        match (self.spec.work, item) {
            (StageWork::Source, _) => {
                let why = "is a source, which cannot be replayed: every plan checks its files";
                Err(ReplayError::Unfit { stage, why })
            }
            (StageWork::Train, _) => {
                let why = "is a training, which cannot be replayed: see its log; a run resumes \
                           from its checkpoint";
                Err(ReplayError::Unfit { stage, why })
            }
            (StageWork::Item, None) => Err(ReplayError::Items(stage)),
            (StageWork::Item, Some(_)) => Ok(()),
            (_, Some(_)) => Err(ReplayError::NoItems(stage)),
            (_, None) => Ok(()),
        }
    }

    fn given(
        &self,
        planner: &Planner,
        plan: &Plan,
        item: Option<&str>,
    ) -> Result<ReplayInput, ReplayError> {
        let assets = &planner.assets;
        let arrived = arriving(self.pipeline, &plan.stages, assets, self.spec);
        if !arrived.missing(item.is_some()).is_empty() {
            return Err(ReplayError::Early(self.spec.name.clone()));
        }
        let Some(id) = item else {
            let sources = gather_sources(self.pipeline, &plan.stages, assets, self.spec);
            return Ok(ReplayInput::Whole(sources));
        };
        let find = |id: &str| match arrived.items() {
            Some(PlannedValue::Root { root, .. }) => planner.store.item(root, id),
            Some(PlannedValue::Partial(partial)) => find_partial(&planner.store, partial, id),
            _ => Ok(None),
        };
        // The id of an item that the stage has made stands for the item that it was made of.
        let most = if self.spec.kind.expands.is_some() { usize::MAX } else { 1 };
        let mut found = None;
        for id in with_parents(id).take(most) {
            found = match found {
                None => find(id)?,
                found => found,
            };
        }
        let (stage, item) = (self.spec.name.clone(), id.to_owned());
        match (found, arrived.items()) {
            (Some(found), _) => Ok(ReplayInput::Item(found)),
            (None, Some(PlannedValue::Partial(_))) => Err(ReplayError::NotYet { stage, item }),
            (None, _) => Err(ReplayError::NoItem { stage, item }),
        }
    }

    /// The key of the stage that all its items share.
    fn job_key(&self, planner: &Planner, plan: &Plan) -> Digest {
        let arrived = arriving(self.pipeline, &plan.stages, &planner.assets, self.spec);
        arrived.job_key(&planner.file_digests(self.spec)).digest()
    }

    fn job(&self, planner: &Planner, plan: &Plan) -> Result<JobHandle, EngineError> {
        let spec = self.spec;
        let at = |error| EngineError::Stage { stage: spec.name.clone(), error };
        let mut setup = self.engine.setup(self.pipeline, spec).map_err(at)?;
        setup.artifacts = artifacts(self.pipeline, &plan.stages, &planner.assets, spec);
        setup.files = planner.files[spec.id.0].clone();
        Ok(JobHandle::new(1, spec.kind, setup))
    }

    /// Hands the task to a thread that does such work in a run, and forwards its events.
    fn work(&self, store: &Store, task: Task, sink: Sink) -> Result<Outcome, EngineError> {
        let (messages, received) = unbounded();
        let engine = Engine { threads: 1, ..self.engine.clone() };
        let shared = SharedState {
            kept: Some(self.folder.to_owned()),
            ..SharedState::new(&engine, store.clone(), messages, &self.stop)
        };
        let mut threads = Threads::new(shared).map_err(EngineError::Thread)?;
        threads.hand_out(self.spec, task).map_err(EngineError::Thread)?;
        let outcome = self.wait(&received, sink);
        threads.dismiss();
        Ok(outcome)
    }

    fn wait(&self, received: &Receiver<Message>, sink: Sink) -> Outcome {
        let stage = || self.spec.name.clone();
        loop {
            match received.recv_timeout(PATIENCE) {
                Ok(Message::Done { outcome, .. }) => return outcome,
                Ok(Message::Report { report, .. }) => match report {
                    ProgressReport::Progress { done, total } => {
                        let counts = StageCounts::default();
                        sink(Event::Progress { stage: stage(), done, total, counts });
                    }
                    ProgressReport::Metrics { step, values } => {
                        sink(Event::Metrics { stage: stage(), step, values });
                    }
                    ProgressReport::Begins(course) => {
                        sink(Event::TrainingStarted { stage: stage(), course });
                    }
                    ProgressReport::CheckpointKept(_) | ProgressReport::SetAside(_) => {}
                },
                Ok(Message::Event(event)) => sink(event),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if !self.stop.is_urgent() => {}
                Err(_) => {
                    let message = "it was cancelled".to_owned();
                    return Outcome::Gather(Err(Failure::Died { message }));
                }
            }
        }
    }

    fn made(
        &self,
        planner: &Planner,
        plan: &Plan,
        given: &ReplayInput,
        outcome: Outcome,
    ) -> Result<ReplayResult, ReplayError> {
        match (given, outcome) {
            (ReplayInput::Item(item), Outcome::Items(outcomes)) => {
                let key = item_reads(self.spec).see(item).key(&self.job_key(planner, plan));
                let known = planner.store.known_items(&[key])?.pop().flatten();
                let none = || Failure::Died { message: "it returned no result".to_owned() };
                let outcome = outcomes.into_iter().next();
                let outcome = outcome.unwrap_or_else(|| ItemOutcome::Failed(none()));
                Ok(ReplayResult::Item { outcome, known })
            }
            (ReplayInput::Item(_), outcome) => {
                let none = || Failure::Died { message: "it returned no result".to_owned() };
                let failure = match outcome {
                    Outcome::Gather(Err(failure)) => failure,
                    _ => none(),
                };
                Ok(ReplayResult::Item { outcome: ItemOutcome::Failed(failure), known: None })
            }
            (ReplayInput::Whole(_), Outcome::Gather(outcome)) => {
                let keyed = plan.stage(self.spec.id).known.keyed.as_ref();
                let known = match keyed {
                    Some(keyed) => history::outcome_of(self.cache, &keyed.digest)?,
                    None => None,
                };
                Ok(ReplayResult::Whole { outcome, known })
            }
            (ReplayInput::Whole(_), Outcome::Items(_) | Outcome::Results(_)) => {
                let message = "it returned items instead of one result".to_owned();
                let outcome = Err(Failure::Died { message });
                Ok(ReplayResult::Whole { outcome, known: None })
            }
        }
    }
}

/// Searches the outputs of the upstream stage so far.
fn find_partial(
    store: &Store,
    partial: &PartialDataset,
    id: &str,
) -> Result<Option<Item>, ReadError> {
    for bucket in &partial.buckets {
        let found = match bucket {
            PartialBucket::Closed(bucket) => {
                let items = store.chunk(&bucket.chunk)?.items;
                items.into_iter().find(|item| *item.id == *id)
            }
            PartialBucket::Open { items, .. } => items.iter().find_map(|item| match item {
                PartialItem::Known(item) if *item.id == *id => Some(item.clone()),
                _ => None,
            }),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
