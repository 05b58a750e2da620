//! The thread of a batch: it submits the jobs and waits for their results in the remote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::event::Event;
use cache::fs::MachineFault;
use cache::{CacheError, Digest};
use camino::Utf8PathBuf;
use crossbeam_channel::Sender;
use remote::{Fresh, Push, Remote, RemoteError};
use stage_core::StageError;

use super::job_inputs::Inputs;
use super::open_shard::OpenShard;
use crate::engine::StopFlag;
use crate::executor::batch::{Attempt, AttemptReport, BATCH, Batch, BatchWork, Name};
use crate::executor::decide::{Decision, JobState};
use crate::executor::jobs::Jobs;
use crate::executor::own::{OwnBatch, tell_cancelled};
use crate::mirror;
use crate::pipeline::ExecutorSpec;
use crate::record::{StageRecord, decode, encode};
use crate::run::message::{Failure, Message, Outcome};
use crate::store::{ReadError, Store};

/// The interval between looks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// The thread of a batch.
pub struct BatchThread {
    pub store: Store,
    pub messages: Sender<Message>,
    pub stops: [StopFlag; 2],
    pub remote: Arc<Remote>,
    pub spec: ExecutorSpec,
    pub pipeline: String,
    pub run: u64,
    pub batch: Batch,
    pub id: Digest,
    pub logs: Utf8PathBuf,
    pub open: BTreeMap<u32, OpenShard>,
    /// None if an earlier run has published the batch.
    pub inputs: Option<Inputs>,
    pub jobs: Box<dyn Jobs>,
    /// The shards with a job, as far as the scheduler says.
    pub known: BTreeSet<u32>,
    /// Messages are told once.
    pub told: BTreeSet<String>,
}

/// Why a batch cannot go on.
pub enum JobError {
    /// The machine, the remote or the scheduler: a later run goes on.
    Pause(String),
    Stage(StageError),
}

impl From<RemoteError> for JobError {
    fn from(trouble: RemoteError) -> JobError {
        JobError::Pause(trouble.to_string())
    }
}

impl From<CacheError> for JobError {
    fn from(error: CacheError) -> JobError {
        JobError::Pause(error.whole())
    }
}

impl From<ReadError> for JobError {
    fn from(error: ReadError) -> JobError {
        JobError::Stage(error.into())
    }
}

impl BatchThread {
    pub fn work(mut self) {
        let worked = self.publish().and_then(|()| self.wait());
        self.end(worked);
    }

    /// Ends the work; false if it was stopped before all shards had ended.
    pub fn end(mut self, worked: Result<bool, JobError>) {
        let has_ended = match worked {
            Ok(true) => true,
            Ok(false) => self.leave(),
            Err(JobError::Pause(why)) => {
                let _ = self.messages.send(Message::Full { why });
                self.leave()
            }
            Err(JobError::Stage(error)) => {
                let open: Vec<u32> = self.open.keys().copied().collect();
                open.into_iter().for_each(|shard| self.fail(shard, error.clone()));
                true
            }
        };
        if has_ended {
            // The schedule closes the batch after it has recorded the outcomes: a run that finds a
            // closed batch and no outcomes starts the same jobs again.
            let _ = self.messages.send(Message::BatchEnded(self.id));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stops.iter().any(StopFlag::is_requested)
    }

    fn note(&mut self, message: String) {
        if self.told.insert(message.clone()) {
            let event = Event::Note { stage: Some(self.batch.stage.clone()), message };
            let _ = self.messages.send(Message::Event(event));
        }
    }

    /// Writes the batch and everything that its workers read, and then notes it here. A batch that did
    /// not reach the remote is not noted: it would be found if it arrives late, beside another one with
    /// the same items.
    pub fn publish(&mut self) -> Result<(), JobError> {
        let cache = self.store.cache().clone();
        cache.fs().create_dir_all(&self.logs).map_err(CacheError::from)?;
        let Some(inputs) = self.inputs.take() else { return Ok(()) };
        if inputs.ports.is_some() {
            // A training may have been begun here, and continues from another one.
            mirror::push(&cache, &self.remote, &|_, _| {})?;
            mirror::push_checkpoints(&cache, &self.remote)?;
        }
        let wanted: Vec<Digest> = inputs.all(&self.store)?.into_iter().collect();
        let known = self.remote.knows(&wanted)?;
        let lacking = wanted.iter().zip(known).filter(|(_, known)| !known);
        let lacking: BTreeSet<Digest> = lacking.map(|(digest, _)| *digest).collect();
        for digest in &lacking {
            if !cache.contains(digest)? {
                // A file of the user.
                cache.put_with_digest(*digest, self.store.read(digest)?)?;
            }
        }
        cache.commit()?;
        let mut objects = cache.objects()?;
        objects.retain(|(digest, _)| lacking.contains(digest));
        let outcome = Fresh {
            key: self.id,
            name: self.batch.stage.clone(),
            table: BATCH,
            value: encode(&self.batch).into(),
            summary: self.id,
            objects: wanted,
        };
        self.remote.push(Push { objects, outcomes: vec![outcome], ..Push::nothing() })?;
        let open = OwnBatch {
            key: self.batch.key,
            pipeline: self.pipeline.clone(),
            stage: self.batch.stage.clone(),
            executor: self.spec.name.clone(),
            shards: self.batch.shards(),
            is_training: matches!(self.batch.work, BatchWork::Training),
            run: self.run,
            begun: cache.fs().now() / 1_000_000_000,
            is_closed: false,
        };
        cache.record(BATCH, &self.id, encode(&open))?;
        cache.commit()?;
        Ok(())
    }

    /// Waits for all shards; false if it was stopped before.
    fn wait(&mut self) -> Result<bool, JobError> {
        let pause = Duration::from_secs_f64(self.spec.poll_seconds);
        while !self.open.is_empty() {
            if self.is_stopped() {
                return Ok(false);
            }
            self.round()?;
            let until = Instant::now() + pause;
            while Instant::now() < until && !self.is_stopped() && !self.open.is_empty() {
                std::thread::sleep(LOOK.min(pause));
            }
        }
        Ok(true)
    }

    /// Looks at all open shards once, and starts the jobs that they need.
    pub fn round(&mut self) -> Result<(), JobError> {
        // The scheduler is asked before the store: a job that has ended since is in the store.
        let seen = self.jobs.look();
        let seen = match seen {
            Ok(seen) => {
                self.known = seen.keys().copied().collect();
                Some(seen)
            }
            Err(why) => {
                self.note(format!("`{}` does not answer: {why}", self.spec.name));
                None
            }
        };
        let mut submitted = Vec::new();
        for shard in self.open.keys().copied().collect::<Vec<_>>() {
            let state = match &seen {
                Some(seen) => seen.get(&shard).copied().unwrap_or(JobState::Unknown),
                None => JobState::NoAnswer,
            };
            if self.step(shard, state)? {
                submitted.push(shard);
            }
        }
        if !self.remote.is_usable() {
            let url = self.remote.address();
            return Err(JobError::Pause(format!("the remote `{url}` no longer answers")));
        }
        if !submitted.is_empty() && !self.is_stopped() {
            self.submit(&submitted);
        }
        Ok(())
    }

    fn submit(&mut self, shards: &[u32]) {
        let (count, name) = (shards.len(), self.spec.name.clone());
        let jobs = if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") };
        match self.jobs.submit(shards) {
            Ok(named) => {
                self.known.extend(shards);
                self.note(format!("started {jobs} on `{name}`: {named}"));
            }
            Err(why) => self.note(format!("cannot start {jobs} on `{name}`: {why}")),
        }
    }

    /// True if a job has to be started for the shard.
    fn step(&mut self, shard: u32, seen: JobState) -> Result<bool, JobError> {
        self.read_reports(shard)?;
        let key = match self.batch.work {
            BatchWork::Items(_) => Name::Result(shard).of(&self.id),
            BatchWork::Training => self.batch.key,
        };
        let result = self.remote.look_up(&key)?;
        if !self.remote.is_usable() {
            return Ok(false);
        }
        let Some(sent) = self.open.get_mut(&shard) else { return Ok(false) };
        let stored = sent.stored(result.is_some());
        match sent.tried.decide(stored, seen, self.spec.attempts) {
            Decision::Take => self.take(shard, &result.unwrap_or_default()),
            Decision::Fail => {
                let failed = sent.attempts.iter().flatten().find_map(|report| match report {
                    AttemptReport::Failed { message } => Some(message.clone()),
                    AttemptReport::Later { .. } => None,
                });
                self.fail(shard, StageError::failed(failed.unwrap_or_default()));
            }
            Decision::GiveUp => {
                let error = self.gave_up(shard);
                // A fault of a machine, such as a full disk, is no verdict on the stage.
                if MachineFault::of_message(&error.to_string()).is_some() {
                    return Err(JobError::Pause(error.to_string()));
                }
                self.fail(shard, error);
            }
            Decision::Submit => return Ok(true),
            Decision::Wait => {}
        }
        Ok(false)
    }

    /// Reads what the attempts at a shard have left in the store.
    fn read_reports(&mut self, shard: u32) -> Result<(), JobError> {
        let Some(sent) = self.open.get_mut(&shard) else { return Ok(()) };
        let mut begun = Vec::new();
        for number in 0.. {
            let at = number as usize;
            if at == sent.attempts.len() {
                let name = Name::Attempt(shard, number).of(&self.id);
                let Some(bytes) = self.remote.look_up(&name)? else { break };
                sent.attempts.push(None);
                begun.extend(decode::<Attempt>(&bytes).map(|attempt| (number, attempt.machine)));
            }
            if sent.attempts[at].is_none() {
                let report = self.remote.look_up(&Name::Report(shard, number).of(&self.id))?;
                sent.attempts[at] = report.and_then(|bytes| decode(&bytes));
            }
        }
        for (number, machine) in begun {
            let again =
                if number == 0 { String::new() } else { format!(", attempt {}", number + 1) };
            let of = self.batch.shards();
            self.note(format!("shard {} of {of} runs on `{machine}`{again}", shard + 1));
        }
        Ok(())
    }

    fn gave_up(&self, shard: u32) -> StageError {
        let (jobs, name) = (self.spec.attempts, &self.spec.name);
        let mut message = format!("{jobs} jobs on `{name}` ended without a result");
        let sent = self.open.get(&shard);
        let why = sent.and_then(|sent| {
            sent.attempts.iter().flatten().rev().find_map(|report| match report {
                AttemptReport::Later { why, .. } => Some(why.clone()),
                AttemptReport::Failed { .. } => None,
            })
        });
        if let Some(why) = why.or_else(|| self.jobs.last_words(shard)) {
            message.push_str(&format!("; the last output: {why}"));
        }
        StageError::with_help(message, format!("see the output of the jobs in `{}`", self.logs))
    }

    fn take(&mut self, shard: u32, bytes: &[u8]) {
        let Some(sent) = self.open.remove(&shard) else { return };
        let outcome = match self.batch.work {
            BatchWork::Training => {
                let unreadable = || StageError::failed("the outcome in the remote cannot be read");
                let record = decode::<StageRecord>(bytes).ok_or_else(unreadable);
                Outcome::Gather(record.map_err(Failure::Stage))
            }
            BatchWork::Items(_) => Outcome::Items(sent.outcomes(decode(bytes))),
        };
        self.done(sent.ticket, outcome);
    }

    fn fail(&mut self, shard: u32, error: StageError) {
        let Some(sent) = self.open.remove(&shard) else { return };
        let failure = Failure::Open(error);
        self.done(sent.ticket, sent.failed(failure));
    }

    fn done(&self, ticket: u64, outcome: Outcome) {
        let (lost, written, took) = (Vec::new(), 0, None);
        // The schedule is gone only after the run.
        let _ = self.messages.send(Message::Done { ticket, outcome, lost, written, took });
    }

    /// The run ends before the jobs do. True if the batch is cancelled.
    fn leave(&mut self) -> bool {
        let mut is_cancelled = false;
        let name = self.spec.name.clone();
        let jobs = match self.open.keys().filter(|shard| self.known.contains(shard)).count() {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        };
        if self.spec.cancels {
            let told = tell_cancelled(&self.remote, &self.id);
            is_cancelled = told.is_ok();
            let told = told.map_err(|why| why.to_string());
            match self.jobs.cancel().and(told) {
                Ok(()) => self.note(format!("cancelled {jobs} on `{name}`")),
                Err(why) => self.note(format!("cannot cancel the jobs on `{name}`: {why}")),
            }
        } else {
            self.jobs.leave();
            if !jobs.starts_with('0') {
                self.note(format!(
                    "left {jobs} running on `{name}`: the next run uses their results"
                ));
            }
        }
        for sent in std::mem::take(&mut self.open).into_values() {
            self.done(sent.ticket, sent.failed(Failure::Stage(StageError::Stopped)));
        }
        is_cancelled
    }
}
