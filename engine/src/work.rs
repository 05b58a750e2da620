//! A job of an executor: it does one shard of a batch with the engine, and knows only the remote.
//!
//! It may run twice at the same time, and may be killed at any moment. Results are written once, and
//! a second result is compared with the first.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::event::{Event, Status};
use cache::{Cache, Digest};
use camino::Utf8Path;
use remote::{Fresh, Push, Remote};
use stage_core::Reject;

use crate::engine::{Engine, EngineError, Mode, RunOptions, Sink, StopFlag};
use crate::executor::batch::{
    Attempt, AttemptReport, BATCH, Batch, BatchWork, Name, ShardResult, Share, log_name,
};
use crate::manifest::{self, FileKind, LoadOptions};
use crate::mirror;
use crate::misplaced::{data_in_cache, misplaced};
use crate::pipeline::{Pipeline, Session, StageId};
use crate::record::{ITEM, ItemRecord, decode, encode};

/// The interval between looks for a cancellation.
const LOOK: Duration = Duration::from_secs(15);
/// The largest number of attempts at a shard.
const MOST: u32 = 100_000;

/// The process of a job.
pub struct JobRunner<'a> {
    /// With the remote, which is required.
    pub engine: &'a Engine,
    pub cache: &'a Cache,
    pub batch: Digest,
    pub shard: u32,
    pub by: Attempt,
    pub stop: StopFlag,
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The result is in the remote.
    Done,
    /// Another job can continue.
    Later,
    /// No other job would succeed.
    Failed,
}

/// The end of the process, and the name and the run of its log.
pub struct JobEnd {
    pub worked: AttemptEnd,
    pub log: Option<(String, u64)>,
}

impl JobEnd {
    fn at_once(worked: AttemptEnd) -> JobEnd {
        JobEnd { worked, log: None }
    }
}

/// The beginning of an attempt.
pub enum AttemptStart {
    /// There is nothing to do.
    Ended(AttemptEnd),
    /// The share of the work, and the number of the attempt.
    Begun(Arc<Share>, u32),
}

/// The end of a run, from its events.
#[derive(Default)]
pub struct RunNotes {
    run: Option<u64>,
    failed: Option<String>,
    why: Option<String>,
    has_moved: bool,
    /// The number of items that this attempt has tried.
    tried: u64,
    /// Items that were quarantined, by name.
    aside: BTreeMap<String, Reject>,
}

impl RunNotes {
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::StageFailed { message, help, .. } => {
                let help = help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
                self.failed.get_or_insert_with(|| format!("{message}{help}"));
            }
            Event::Started { run, .. } => self.run = Some(*run),
            Event::Stopping { why } => self.why = Some(why.clone()),
            Event::CheckpointKept { .. } => self.has_moved = true,
            Event::Finished { stages, .. } => {
                self.tried = stages.values().map(|counts| counts.executed).sum();
            }
            Event::ItemQuarantined { item, code, reason, .. } => {
                self.aside.insert(item.clone(), Reject::new(code.clone(), reason.clone()));
            }
            _ => {}
        }
    }
}

impl JobRunner<'_> {
    pub fn work(&self, sink: Sink) -> Result<JobEnd, EngineError> {
        let remote = self.remote()?;
        let (share, number) = match self.enter(&remote)? {
            AttemptStart::Ended(worked) => return Ok(JobEnd::at_once(worked)),
            AttemptStart::Begun(share, number) => (share, number),
        };
        let watch = CancelWatch::start(remote.clone(), self.batch, self.stop.clone());
        let mut heard = RunNotes::default();
        let pipeline = self.pipeline(&share.batch);
        let ran = pipeline.and_then(|pipeline| {
            self.require_place(&pipeline, &remote)?;
            self.run(&pipeline, &share, &mut |event| {
                heard.note(&event);
                sink(event);
            })
        });
        drop(watch);
        self.leave(&remote, &share, number, ran, heard)
    }

    /// Reads the batch, and begins an attempt if there is something to do.
    pub fn enter(&self, remote: &Remote) -> Result<AttemptStart, EngineError> {
        let Some(batch) = self.read_batch(remote)? else {
            return Err(internal("the batch is not in the remote, or has an unsupported version"));
        };
        if self.shard >= batch.shards() {
            return Err(internal("the batch has no such shard"));
        }
        let share = Arc::new(Share { batch, shard: self.shard });
        if self.is_done(remote, &share)? {
            return Ok(AttemptStart::Ended(AttemptEnd::Done));
        }
        if remote.look_up(&Name::Cancel.of(&self.batch))?.is_some() {
            return Ok(AttemptStart::Ended(AttemptEnd::Later));
        }
        let number = self.begin(remote)?;
        if let BatchWork::Items(_) = share.batch.work {
            // The batch has only items that nobody had when it was made: what there is now comes from
            // other attempts at this shard.
            remote.read_only_under(&Name::Scope(self.shard).of(&self.batch))?;
        }
        Ok(AttemptStart::Begun(share, number))
    }

    /// Writes the result of an attempt, or a report on its end without one.
    pub fn leave(
        &self,
        remote: &Remote,
        share: &Share,
        number: u32,
        ran: Result<Status, EngineError>,
        mut heard: RunNotes,
    ) -> Result<JobEnd, EngineError> {
        let worked = self.end(remote, share, ran, &mut heard)?;
        let report = match worked {
            AttemptEnd::Done => None,
            AttemptEnd::Later => {
                let why = heard.why.unwrap_or_default();
                Some(AttemptReport::Later { has_moved: heard.has_moved, why })
            }
            AttemptEnd::Failed => {
                Some(AttemptReport::Failed { message: heard.failed.unwrap_or_default() })
            }
        };
        if let Some(report) = report {
            self.publish(remote, Name::Report(self.shard, number), encode(&report))?;
        }
        let name = log_name(&self.batch, self.shard, number);
        Ok(JobEnd { worked, log: heard.run.map(|run| (name, run)) })
    }

    /// Fails for folders that a run refuses too.
    fn require_place(&self, pipeline: &Pipeline, remote: &Remote) -> Result<(), EngineError> {
        let (cache, address) = (self.cache.dir(), remote.address());
        let why = misplaced(pipeline, cache, address)
            .map(|why| format!("the remote `{address}` cannot be used: {why}"))
            .or_else(|| {
                let path = data_in_cache(pipeline, cache)?;
                Some(format!("`{path}` of the manifest is in the cache `{cache}`"))
            });
        match why {
            None => Ok(()),
            Some(message) => {
                let help = "choose another folder with `--cache`".to_owned();
                Err(EngineError::Unready { message, help })
            }
        }
    }

    fn remote(&self) -> Result<Arc<Remote>, EngineError> {
        let remote = self.engine.remote.clone();
        remote.ok_or_else(|| internal("a worker needs a remote"))
    }

    fn read_batch(&self, remote: &Remote) -> Result<Option<Batch>, EngineError> {
        let bytes = remote.look_up(&self.batch)?;
        Ok(bytes.and_then(|bytes| Batch::decode(&bytes, &self.batch)))
    }

    fn is_done(&self, remote: &Remote, share: &Share) -> Result<bool, EngineError> {
        let key = match share.batch.work {
            BatchWork::Items(_) => Name::Result(self.shard).of(&self.batch),
            BatchWork::Training => share.batch.key,
        };
        Ok(remote.look_up(&key)?.is_some())
    }

    /// Takes the next free number of an attempt.
    fn begin(&self, remote: &Remote) -> Result<u32, EngineError> {
        for number in 0..MOST {
            let name = Name::Attempt(self.shard, number);
            if remote.look_up(&name.of(&self.batch))?.is_none()
                && self.publish(remote, name, encode(&self.by))?
            {
                return Ok(number);
            }
        }
        Err(internal("too many attempts"))
    }

    /// Writes a record of the batch; false if there is one already.
    fn publish(&self, remote: &Remote, name: Name, value: Vec<u8>) -> Result<bool, EngineError> {
        let summary = Digest::of(&value);
        let fresh = Fresh {
            key: name.of(&self.batch),
            name: format!("{name:?}"),
            table: BATCH,
            value: value.into(),
            summary,
            objects: Vec::new(),
        };
        Ok(remote.publish(&fresh)?)
    }

    fn run(
        &self,
        pipeline: &Pipeline,
        share: &Arc<Share>,
        sink: Sink,
    ) -> Result<Status, EngineError> {
        let options = RunOptions {
            targets: targets(pipeline, &share.batch)?,
            mode: Mode::Shard(share.clone()),
            stop: self.stop.clone(),
            ..RunOptions::default()
        };
        self.engine.run(pipeline, self.cache, &options, sink)
    }

    /// The pipeline of the batch. It writes nothing outside of the cache.
    fn pipeline(&self, batch: &Batch) -> Result<Pipeline, EngineError> {
        let options = LoadOptions {
            set: batch.set.clone(),
            secrets: &|name| (self.engine.secret)(name),
            is_in_cache: &|_| false,
        };
        let (file, catalogue) = (Utf8Path::new(&batch.file), &self.engine.catalogue);
        let loaded =
            manifest::load(&batch.manifest, file, catalogue, &options, &|_| FileKind::File);
        let mut pipeline = match loaded {
            Ok(loaded) => loaded.pipeline,
            Err(_) => return Err(internal("this program cannot load the manifest of the batch")),
        };
        pipeline.stages.iter_mut().for_each(|stage| stage.exports.clear());
        pipeline.session = Session::default();
        pipeline.remote = None;
        Ok(pipeline)
    }

    fn end(
        &self,
        remote: &Remote,
        share: &Share,
        ran: Result<Status, EngineError>,
        heard: &mut RunNotes,
    ) -> Result<AttemptEnd, EngineError> {
        let status = match ran {
            Ok(status) => status,
            Err(EngineError::Stage { stage, error }) => {
                heard.failed = Some(format!("stage `{stage}`: {error}"));
                Status::Failed
            }
            Err(EngineError::Internal { message } | EngineError::Unready { message, .. }) => {
                heard.failed = Some(message);
                Status::Failed
            }
            Err(error) => return Err(error),
        };
        if heard.failed.is_some() && status == Status::Failed {
            return Ok(AttemptEnd::Failed);
        }
        match share.batch.work {
            BatchWork::Training => {
                if status == Status::Done && !self.is_done(remote, share)? {
                    // This cache had the result before: the run did nothing, and wrote nothing.
                    mirror::push(self.cache, remote, &|_, _| {})?;
                }
                Ok(if self.is_done(remote, share)? { AttemptEnd::Done } else { AttemptEnd::Later })
            }
            BatchWork::Items(_) => self.end_items(remote, share, heard),
        }
    }

    /// Writes the result of a shard if everything in it is decided.
    fn end_items(
        &self,
        remote: &Remote,
        share: &Share,
        heard: &mut RunNotes,
    ) -> Result<AttemptEnd, EngineError> {
        let keys = share.keys();
        let records = self.cache.get_many(ITEM, keys)?;
        let mut items = Vec::new();
        for (key, bytes) in keys.iter().zip(records) {
            if let Some(record) = bytes.and_then(|bytes| decode::<ItemRecord>(&bytes)) {
                items.push((*key, record));
            }
        }
        let verdicts: Vec<&Reject> = items
            .iter()
            .filter_map(|(_, record)| match record {
                ItemRecord::Rejected(reject) => Some(reject),
                ItemRecord::Done { .. } => None,
            })
            .collect();
        let aside = std::mem::take(&mut heard.aside);
        let failed: Vec<(Arc<str>, Reject)> = aside
            .into_iter()
            .filter(|(_, reject)| !verdicts.contains(&reject))
            .map(|(item, reject)| (Arc::from(item), reject))
            .collect();
        // Items of earlier attempts, and items without a verdict, are no progress: an item that never
        // ends in time would be tried for ever.
        heard.has_moved |= heard.tried > failed.len() as u64;
        if items.len() + failed.len() < keys.len() {
            return Ok(AttemptEnd::Later);
        }
        // Those that an earlier run left in this cache are not in the remote yet.
        let objects = items.iter().flat_map(|(_, record)| match record {
            ItemRecord::Done { fields, .. } => {
                fields.blobs().map(|blob| (blob.digest, blob.size)).collect::<Vec<_>>()
            }
            ItemRecord::Rejected(_) => Vec::new(),
        });
        let objects: Vec<(Digest, u64)> = objects.collect();
        let result = ShardResult { items, failed, by: self.by.clone() };
        let outcome = Fresh {
            key: Name::Result(self.shard).of(&self.batch),
            name: share.batch.stage.clone(),
            table: BATCH,
            summary: result.summary(),
            value: encode(&result).into(),
            objects: objects.iter().map(|(digest, _)| *digest).collect(),
        };
        let (records, logs) = (Vec::new(), Vec::new());
        let outcomes = vec![outcome];
        remote.push(Push { objects, records, outcomes, logs, progress: &|_, _| {} })?;
        Ok(AttemptEnd::Done)
    }
}

fn targets(pipeline: &Pipeline, batch: &Batch) -> Result<Vec<StageId>, EngineError> {
    let stage = pipeline.find(&batch.stage);
    let fits = |stage: &&crate::pipeline::StageSpec| {
        stage.kind.name == batch.kind && stage.kind.version == batch.version
    };
    match stage.filter(fits) {
        Some(stage) => Ok(vec![stage.id]),
        None => Err(internal(
            "this program has another version of the stage: use the same version of throstle \
             everywhere",
        )),
    }
}

fn internal(message: &str) -> EngineError {
    EngineError::Internal { message: message.to_owned() }
}

/// Looks for a cancellation until it is dropped.
struct CancelWatch {
    ends: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl CancelWatch {
    fn start(remote: Arc<Remote>, batch: Digest, stop: StopFlag) -> CancelWatch {
        let ends = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&ends);
        let work = move || {
            while !waited(&told, LOOK) && !stop.is_requested() {
                if let Ok(Some(_)) = remote.look_up(&Name::Cancel.of(&batch)) {
                    stop.request();
                }
            }
        };
        // Without a thread, the scheduler alone can cancel the job.
        let thread = Builder::new().name("cancel".into()).spawn(work).ok();
        CancelWatch { ends, thread }
    }
}

/// Waits for this time, or until the end: then true.
fn waited(ends: &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let (ended, changed) = ends;
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(ended, time, |ended| !*ended);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for CancelWatch {
    fn drop(&mut self) {
        *self.ends.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there is a bug, and costs only the cancellation.
            let _ = thread.join();
        }
    }
}
