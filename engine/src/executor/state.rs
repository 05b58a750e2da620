//! The jobs of a pipeline, for people: from the records in the remote first, and from the scheduler
//! second.

use std::collections::{BTreeMap, BTreeSet};

use cache::{Cache, Digest};
use camino::{Utf8Path, Utf8PathBuf};
use remote::{Remote, RemoteError};
use serde::Serialize;

use super::batch::{Attempt, AttemptReport, Name, log_name};
use super::command;
use super::decide::JobState;
use super::jobs::name;
use super::own::{OwnBatch, own};
use super::queue::{QueuedJob, Shards};
use crate::pipeline::{Adapter, Pipeline};
use crate::record::decode;

/// A batch and its shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BatchState {
    pub batch: Digest,
    pub stage: String,
    pub executor: String,
    /// The run that has made it.
    pub run: u64,
    /// Seconds since 1970.
    pub begun: i64,
    /// No run waits for it.
    pub closed: bool,
    pub shards: Vec<ShardState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardState {
    /// Counted from 1.
    pub part: u32,
    pub state: ShardPhase,
    /// The jobs that have begun, the oldest first.
    pub attempts: Vec<AttemptState>,
    /// The number of the job in the queue of the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The reason for a failure, or why its job waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The file with the output of its jobs, if there is output and no job has begun to work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardPhase {
    /// Without a job, or with one that waits.
    Pending,
    Running,
    Done,
    Failed,
}

impl ShardPhase {
    pub fn name(self) -> &'static str {
        match self {
            ShardPhase::Pending => "pending",
            ShardPhase::Running => "running",
            ShardPhase::Done => "done",
            ShardPhase::Failed => "failed",
        }
    }
}

/// A job that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptState {
    /// Counted from 1.
    pub attempt: u32,
    pub machine: String,
    pub job: String,
    /// Seconds since 1970.
    pub begun: i64,
    /// It ended without a result, for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The name of its log in the remote, which is there after its end.
    pub log: String,
}

/// The batches of a pipeline, according to the remote. Without a remote, nothing is known of shards.
pub fn batches(
    cache: &Cache,
    remote: Option<&Remote>,
    pipeline: &str,
    is_wanted: impl Fn(&OwnBatch) -> bool,
) -> Result<Vec<BatchState>, RemoteError> {
    let mut states = Vec::new();
    for (id, batch) in own(cache)? {
        if batch.pipeline != pipeline || !is_wanted(&batch) {
            continue;
        }
        let read = |shard| -> Result<ShardState, RemoteError> {
            let mut state = read_shard(remote, &id, &batch, shard)?;
            state.add_output(cache, &id, batch.is_closed && remote.is_some());
            Ok(state)
        };
        let shards = (0..batch.shards).map(read).collect::<Result<_, _>>()?;
        let OwnBatch { stage, executor, run, begun, is_closed: closed, .. } = batch;
        states.push(BatchState { batch: id, stage, executor, run, begun, closed, shards });
    }
    Ok(states)
}

fn read_shard(
    remote: Option<&Remote>,
    id: &Digest,
    batch: &OwnBatch,
    shard: u32,
) -> Result<ShardState, RemoteError> {
    let attempts = Vec::new();
    let (part, state) = (shard + 1, ShardPhase::Pending);
    let mut state = ShardState { part, state, attempts, job: None, why: None, output: None };
    let Some(remote) = remote else { return Ok(state) };
    let look_up = |name: Name| remote.look_up(&name.of(id));
    for number in 0.. {
        let Some(bytes) = look_up(Name::Attempt(shard, number))? else { break };
        let Some(Attempt { machine, job, begun, .. }) = decode(&bytes) else { continue };
        let report = look_up(Name::Report(shard, number))?;
        let report = report.and_then(|bytes| decode::<AttemptReport>(&bytes));
        if let Some(AttemptReport::Failed { message }) = &report {
            state.state = ShardPhase::Failed;
            state.why = Some(message.clone());
        }
        let ended = report.map(|report| match report {
            AttemptReport::Later { why, .. } => why,
            AttemptReport::Failed { message } => message,
        });
        let (attempt, log) = (number + 1, log_name(id, shard, number));
        state.attempts.push(AttemptState { attempt, machine, job, begun, ended, log });
    }
    let runs = state.attempts.last().is_some_and(|last| last.ended.is_none());
    if remote.look_up(&batch.result(id, shard))?.is_some() {
        state.state = ShardPhase::Done;
        state.why = None;
    } else if runs && state.state == ShardPhase::Pending {
        state.state = ShardPhase::Running;
    }
    Ok(state)
}

/// The names of the jobs on Slurm that these batches wait for.
pub fn names_on_slurm(pipeline: &Pipeline, batches: &[BatchState]) -> BTreeSet<String> {
    let is_slurm = |batch: &&BatchState| {
        let executor = pipeline.executors.get(&batch.executor);
        !batch.closed && executor.is_some_and(|spec| matches!(spec.adapter, Adapter::Slurm(_)))
    };
    batches.iter().filter(is_slurm).map(|batch| name(&batch.batch)).collect()
}

/// Adds what the scheduler says about the shards without a result. Without an answer from Slurm, the
/// remote counts alone.
pub fn add_schedulers(
    cache: &Utf8Path,
    pipeline: &Pipeline,
    batches: &mut [BatchState],
    on_slurm: Option<&BTreeMap<String, Shards>>,
) {
    for batch in batches.iter_mut().filter(|batch| !batch.closed) {
        let adapter = pipeline.executors.get(&batch.executor).map(|spec| &spec.adapter);
        let jobs = match adapter {
            Some(Adapter::Slurm(_)) => match on_slurm {
                Some(jobs) => jobs.get(&name(&batch.batch)).cloned(),
                None => continue,
            },
            Some(Adapter::Command(_)) => {
                let logs = folder(cache, &batch.batch);
                let shards = batch.shards.len() as u32;
                Some(command::listed(&logs, &batch.batch, shards))
            }
            None => continue,
        };
        let jobs = jobs.unwrap_or_default();
        for shard in &mut batch.shards {
            shard.add(jobs.get(&(shard.part - 1)));
        }
    }
}

impl ShardState {
    /// Jobs may end before they begin to work, for example if their command does not start the
    /// worker: only their output tells about them.
    fn add_output(&mut self, cache: &Cache, batch: &Digest, has_ended: bool) {
        if !self.attempts.is_empty() {
            return;
        }
        let file = output(cache.dir(), batch, self.part);
        if cache.fs().metadata(&file).is_ok_and(|found| found.is_file() && found.size > 0) {
            self.output = Some(file.into_string());
            if has_ended && self.state == ShardPhase::Pending {
                self.state = ShardPhase::Failed;
                self.why = Some("no job started work".to_owned());
            }
        }
    }

    /// A job that the scheduler does not know has ended, or was lost: the next run starts another.
    fn add(&mut self, listed: Option<&QueuedJob>) {
        if matches!(self.state, ShardPhase::Done | ShardPhase::Failed) {
            return;
        }
        let Some(listed) = listed else {
            self.state = ShardPhase::Pending;
            self.why = Some("no job".to_owned());
            return;
        };
        self.job = Some(listed.job.clone());
        self.state = match listed.seen {
            JobState::Running => ShardPhase::Running,
            _ => ShardPhase::Pending,
        };
        let reason = Some(&listed.reason).filter(|_| self.state == ShardPhase::Pending);
        self.why = reason.filter(|why| !why.is_empty()).cloned();
    }
}

/// The folder of the output of the jobs of a batch.
pub fn folder(cache: &Utf8Path, batch: &Digest) -> Utf8PathBuf {
    cache.join("jobs").join(batch.short())
}

/// The file with the output of the jobs of a part, counted from 1.
pub fn output(cache: &Utf8Path, batch: &Digest, part: u32) -> Utf8PathBuf {
    folder(cache, batch).join(format!("{}.log", part - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(state: ShardPhase) -> ShardState {
        ShardState { part: 1, state, attempts: Vec::new(), job: None, why: None, output: None }
    }

    fn listed(seen: JobState) -> QueuedJob {
        let (job, node, reason) = ("7".to_owned(), "n1".to_owned(), "Priority".to_owned());
        QueuedJob { seen, job, node, reason }
    }

    #[test]
    fn the_remote_is_right_about_results_and_the_scheduler_about_jobs() {
        for (stored, seen, expected) in [
            (ShardPhase::Done, Some(JobState::Running), ShardPhase::Done),
            (ShardPhase::Failed, None, ShardPhase::Failed),
            (ShardPhase::Running, None, ShardPhase::Pending),
            (ShardPhase::Running, Some(JobState::Waiting), ShardPhase::Pending),
            (ShardPhase::Pending, Some(JobState::Running), ShardPhase::Running),
        ] {
            let mut shard = shard(stored);
            shard.add(seen.map(listed).as_ref());
            assert_eq!(shard.state, expected, "{stored:?} {seen:?}");
        }
    }
}
