//! Messages from the threads of a run to the schedule, and their tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::event::Event;
use cache::{CacheError, Digest};
use crossbeam_channel::{Receiver, Sender};
use stage_core::course::Course;
use stage_core::device::Devices;
use stage_core::{Context, Fields, GatherJob, ItemJob, Job, Kind, Reject, Setup, StageError};

use super::training::{SavedCheckpoint, Training};
use crate::engine::Engine;
use crate::pipeline::{Policy, Reads};
use crate::record::{ItemRecord, StageRecord};
use crate::run::items::intake::{Intake, Route};
use crate::run::items::queue::QueuedItem;
use crate::run::items::results::ItemResults;

pub enum Message {
    Done {
        ticket: u64,
        outcome: Outcome,
        lost: Vec<Digest>,
        /// The size of the objects that were made.
        written: u64,
        /// The time of the work, without waits before, in and after it. None stands for the time
        /// since the task was handed out.
        took: Option<Duration>,
    },
    /// A report of a running task.
    Report {
        ticket: u64,
        report: ProgressReport,
    },
    /// The disk is full.
    Full {
        why: String,
    },
    /// Another attempt at the training of a task is ahead.
    Overtaken {
        ticket: u64,
        why: String,
    },
    /// A message of a running task for people.
    Note {
        ticket: u64,
        message: String,
    },
    Committed(Result<(), CacheError>),
    /// All parts of a batch have ended, and their outcomes were sent before this message.
    BatchEnded(Digest),
    /// A worker has said which GPUs there are.
    Found(Devices),
    Event(Event),
}

pub enum ProgressReport {
    Progress {
        done: u64,
        total: u64,
    },
    Metrics {
        step: u64,
        values: BTreeMap<String, f64>,
    },
    /// Items quarantined by a stage on whole data sets.
    SetAside(Vec<(Arc<str>, Reject)>),
    /// A training is about to make its first step.
    Begins(Course),
    /// A checkpoint is durable.
    CheckpointKept(SavedCheckpoint),
}

pub enum Outcome {
    /// One for each item of the task. Nothing is recorded.
    Items(Vec<ItemOutcome>),
    /// The same, as a thread of this process has recorded them.
    Results(Result<ItemResults, CacheError>),
    Gather(Result<StageRecord, Failure>),
}

#[derive(Clone, Debug)]
pub enum ItemOutcome {
    Done {
        fields: Fields,
        notes: Vec<(String, u64)>,
        seconds: f32,
        /// The size of new objects.
        bytes: u64,
    },
    Rejected(Reject),
    Failed(Failure),
}

impl ItemOutcome {
    /// The outcome of an item with such a record, which made new objects of this size.
    pub fn of(record: ItemRecord, bytes: u64) -> ItemOutcome {
        match record {
            ItemRecord::Done { fields, notes, seconds } => {
                ItemOutcome::Done { fields, notes, seconds, bytes }
            }
            ItemRecord::Rejected(reject) => ItemOutcome::Rejected(reject),
        }
    }
}

/// The reason why work has no outcome. None of these is recorded.
#[derive(Clone, Debug)]
pub enum Failure {
    Stage(StageError),
    /// The job could not be opened: no item can be processed.
    Open(StageError),
    /// The worker process is gone.
    Died {
        message: String,
    },
}

impl Failure {
    /// A machine fault, or a request to stop, concerns all items and not one.
    pub fn of_the_item(self) -> Failure {
        match self {
            Failure::Open(error) if error.is_of_machine() || error == StageError::Stopped => {
                Failure::Stage(error)
            }
            other => other,
        }
    }
}

pub enum Task {
    Items(ItemTask),
    Gather(Box<GatherTask>),
    /// The job of a stage that has ended. It has no outcome.
    Close(u32),
    /// All jobs: another process needs the memory of the device, and waits until this is dropped.
    CloseAll(Sender<()>),
}

impl Task {
    pub fn ticket(&self) -> u64 {
        match self {
            Task::Items(task) => task.ticket,
            Task::Gather(task) => task.ticket,
            Task::Close(_) | Task::CloseAll(_) => 0,
        }
    }
}

pub struct ItemTask {
    pub ticket: u64,
    pub job: Arc<JobHandle>,
    pub intake: Arc<Intake>,
    pub items: Arc<Vec<QueuedItem>>,
    /// None for a replay, which executes all items and records nothing.
    pub route: Option<Route>,
}

pub struct GatherTask {
    pub ticket: u64,
    pub job: Arc<JobHandle>,
    pub outputs: &'static [stage_core::OutputPort],
    pub ports: Arc<GatherSources>,
    pub policy: Policy,
    pub training: Option<Training>,
    /// The stage's key without its inputs, to remember parts of the work. None if all of it is to be
    /// done anew.
    pub own_key: Option<Digest>,
    /// The name of the folder in which the inputs of its program stay between runs.
    pub inputs: Option<Digest>,
    /// Closed once the workers of its other devices have dropped what they hold.
    pub awaits: Vec<Receiver<()>>,
}

impl GatherTask {
    pub fn await_devices(&mut self) {
        for dropped in self.awaits.drain(..) {
            // Nothing is sent. A worker that ends drops everything too.
            let _ = dropped.recv();
        }
    }
}

/// The value of one reference of a gather.
pub enum GatherSource {
    Dataset { stage: String, root: Digest, reads: Reads, rejects: Vec<(Arc<str>, Reject)> },
    Artifact { stage: String, fields: Fields },
}

/// By port, one for each reference.
pub type GatherSources = BTreeMap<&'static str, Vec<GatherSource>>;

/// A stage's job, opened by the first thread that needs it.
pub struct JobHandle {
    /// Identifies jobs in a worker.
    pub number: u32,
    pub kind: &'static Kind,
    pub setup: Setup,
    opened: Mutex<Option<Result<Arc<dyn ItemJob>, StageError>>>,
}

impl JobHandle {
    pub fn new(number: u32, kind: &'static Kind, setup: Setup) -> JobHandle {
        JobHandle { number, kind, setup, opened: Mutex::new(None) }
    }

    /// The job in this process.
    pub fn item_job(
        &self,
        engine: &Engine,
        context: &mut dyn Context,
    ) -> Result<Arc<dyn ItemJob>, StageError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &*opened {
            return opened.clone();
        }
        let now = engine.open(self.kind, self.setup.clone(), context).and_then(|job| match job {
            Job::Item(job) => Ok(Arc::<dyn ItemJob>::from(job)),
            _ => Err(StageError::failed(format!("`{}` is not an item stage", self.kind.name))),
        });
        // The machine may have recovered for the next item.
        if !now.as_ref().is_err_and(StageError::is_of_machine) {
            *opened = Some(now.clone());
        }
        now
    }

    pub fn gather_job(
        &self,
        engine: &Engine,
        context: &mut dyn Context,
    ) -> Result<Box<dyn GatherJob>, StageError> {
        match engine.open(self.kind, self.setup.clone(), context)? {
            Job::Gather(job) => Ok(job),
            _ => Err(StageError::failed(format!("`{}` is not a gather", self.kind.name))),
        }
    }
}
