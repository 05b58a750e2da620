//! Exchange between a cache and a remote: selects results to push, and interprets records. The
//! remote itself knows neither stages nor records.
//!
//! Outcomes of whole stages are written once under their keys. Outcomes of items and buckets, parts of
//! gathers and checkpoints travel in packs, and are found under the scope of their stage.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cache::{Cache, CacheError, Digest, Table};
use remote::{Fresh, Push, Pushed, Pushing, Remote, Rules, Trouble};
use stage_core::event::Event;
use stage_core::key::{HashSink, Sink as _};
use stage_core::{Dataset, Fields};

use crate::archive::is_newer;
use crate::gc::{self, Limits};
use crate::history;
use crate::options::Sink;
use crate::record::{
    CHECKPOINT, CHUNK, CheckpointRecord, ChunkRecord, ITEM, ItemRecord, MADE_OF, MEMO, PARENT,
    PART, PROGRESS, PartRecord, PortValue, STAGE, StageRecord, TRAINED_AS, decode, encode,
};
use crate::runlog;
use crate::units;

/// The tables of records that mean the same on every machine.
const TABLES: [Table; 9] =
    [ITEM, CHUNK, MEMO, PART, MADE_OF, CHECKPOINT, PROGRESS, PARENT, TRAINED_AS];
/// The runs of every pipeline with results that are pushed.
const KEEP_RUNS: usize = 3;

pub fn rules() -> Rules {
    Rules { prefers: is_newer, takes: |table| TABLES.contains(&table) }
}

/// The scope of the records of a stage on whole data sets, its checkpoints included.
pub fn scope_of(pipeline: &str, stage: &str) -> Digest {
    let mut sink = HashSink::default();
    sink.text("scope of pipeline", pipeline);
    sink.text("stage", stage);
    sink.finish()
}

/// Writes everything to the remote that it is not known to have and that garbage collection would
/// keep here.
pub fn push(
    cache: &Cache,
    remote: &Remote,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Pushed, Trouble> {
    let limits = Limits { keep_runs: KEEP_RUNS, kept_since: None, most_bytes: None };
    let gone = gc::plan(cache, &limits)?.sweep;
    let gone: HashSet<(Table, Digest)> = gone.records().map(|(table, key)| (table, *key)).collect();
    let mut reached = HashSet::new();
    let outcomes = outcomes(cache, remote, &gone, &mut reached)?;
    let mut records = Vec::new();
    for table in TABLES {
        for (key, value) in cache.scan(table)? {
            if !gone.contains(&(table, key)) {
                reach(table, &value, &mut reached);
                records.push((table, key, value));
            }
        }
    }
    let mut objects = cache.objects()?;
    objects.retain(|(digest, _)| reached.contains(digest));
    remote.push(Push { objects, records, outcomes, logs: Vec::new(), progress })
}

/// The kept outcomes of stages that the remote is not known to have.
fn outcomes(
    cache: &Cache,
    remote: &Remote,
    gone: &HashSet<(Table, Digest)>,
    reached: &mut HashSet<Digest>,
) -> Result<Vec<Fresh>, CacheError> {
    let names = names(cache)?;
    let mut fresh = Vec::new();
    for (key, value) in cache.scan(STAGE)? {
        let Some(record) = decode::<StageRecord>(&value) else { continue };
        if gone.contains(&(STAGE, key)) {
            continue;
        }
        let mut objects = HashSet::new();
        for output in record.outputs.values() {
            gc::mark_value(cache, output, &mut objects)?;
        }
        reached.extend(&objects);
        if !remote.has_outcome(&key)? {
            let name = names.get(&key).cloned().unwrap_or_else(|| key.short());
            // Times differ between machines.
            let summary = Digest::of(&encode(&record.outputs));
            let objects = objects.into_iter().collect();
            fresh.push(Fresh { key, name, table: STAGE, value, summary, objects });
        }
    }
    Ok(fresh)
}

/// The names of stages by their keys.
fn names(cache: &Cache) -> Result<HashMap<Digest, String>, CacheError> {
    let runs = history::runs(cache)?;
    let keys = runs.into_iter().flat_map(|run| run.keys);
    Ok(keys.map(|(name, key)| (key, name)).collect())
}

/// The objects that a record refers to.
fn reach(table: Table, value: &[u8], reached: &mut HashSet<Digest>) {
    let mut blobs = |fields: &Fields| reached.extend(fields.blobs().map(|blob| blob.digest));
    match table {
        ITEM => {
            if let Some(ItemRecord::Done { fields, .. }) = decode(value) {
                blobs(&fields);
            }
        }
        MEMO => {
            if let Some(fields) = gc::decode_whole::<Fields>(value) {
                blobs(&fields);
            }
        }
        CHECKPOINT => {
            if let Some(record) = decode::<CheckpointRecord>(value) {
                record.states.iter().for_each(blobs);
            }
        }
        CHUNK => reached.extend(decode::<ChunkRecord>(value).and_then(|record| record.chunk)),
        PART => reached.extend(decode::<PartRecord>(value).map(|record| record.chunk)),
        _ => {}
    }
}

/// All objects that these outcomes of stages reach and that this cache lacks. Fetches their tables.
pub fn wanted(
    cache: &Cache,
    remote: &Remote,
    keys: impl IntoIterator<Item = Digest>,
) -> Result<Vec<Digest>, Trouble> {
    let mut objects = HashSet::new();
    for key in keys {
        let Some(record) = history::outcome_of(cache, &key)? else { continue };
        for output in record.outputs.values() {
            if let PortValue::Dataset { root, .. } = output {
                bring_tables(cache, remote, root)?;
            }
            gc::mark_value(cache, output, &mut objects)?;
        }
    }
    lacking(cache, objects.into_iter().collect())
}

fn lacking(cache: &Cache, mut objects: Vec<Digest>) -> Result<Vec<Digest>, Trouble> {
    let mut there = cache.contains_all(&objects)?.into_iter();
    objects.retain(|_| !there.next().unwrap_or(false));
    Ok(objects)
}

fn bring_tables(cache: &Cache, remote: &Remote, root: &Digest) -> Result<(), Trouble> {
    if !remote.bring(root)? {
        return Ok(());
    }
    let dataset = Dataset::decode(&cache.read(root)?).unwrap_or_default();
    let chunks = dataset.buckets.iter().map(|bucket| bucket.chunk).collect();
    remote.pull(&lacking(cache, chunks)?, &|_, _| {}).map(drop)
}

/// Writes the logs of ended runs to the remote, unless they are there.
pub fn push_logs(cache: &Cache, remote: &Remote) -> Result<u64, Trouble> {
    let mut logs = Vec::new();
    for run in history::runs(cache)? {
        let Ok(bytes) = cache.fs().read(&runlog::path(cache.dir(), run.run)) else { continue };
        // Equal logs have equal names, and two machines have different logs.
        let digest = Digest::of(&bytes).short();
        let name = format!("{}-{}-{digest}.jsonl", run.pipeline, run.started);
        logs.push((name, Bytes::from(bytes)));
    }
    let (objects, records, outcomes) = (Vec::new(), Vec::new(), Vec::new());
    let push = Push { objects, records, outcomes, logs, progress: &|_, _| {} };
    Ok(remote.push(push)?.logs)
}

/// Passes on the messages of the remote.
pub fn tell_notes(remote: Option<&Arc<Remote>>, sink: Sink) {
    for message in remote.map(|remote| remote.take_notes()).unwrap_or_default() {
        sink(Event::Note { stage: None, message });
    }
}

/// Pushes at the end of a run that did something.
pub fn push_run(cache: &Cache, remote: &Arc<Remote>, sink: Sink) -> Result<(), Trouble> {
    let is_written = remote.is_writable() && remote.settings().push != Pushing::Never;
    if !is_written || cache.is_read_only() || !remote.is_usable() {
        return Ok(());
    }
    let what = format!("the results to be written to `{}`", remote.address());
    sink(Event::Waiting { what });
    let pushed = match push(cache, remote, &|_, _| {}) {
        Err(trouble @ Trouble::Cache(_)) => return Err(trouble),
        Err(trouble) if remote.settings().require => return Err(trouble),
        Err(trouble) => {
            let message = format!("{trouble}; results are not pushed: run `throstle push` later");
            sink(Event::Note { stage: None, message });
            return Ok(());
        }
        Ok(pushed) => pushed,
    };
    for message in conflicts(&pushed) {
        sink(Event::Note { stage: None, message });
    }
    if !pushed.is_nothing() {
        let message = format!("pushed to `{}`: {}", remote.address(), summary(&pushed));
        sink(Event::Note { stage: None, message });
    }
    Ok(())
}

/// The counts of a push, for people.
pub fn summary(pushed: &Pushed) -> String {
    let (objects, outcomes) = (units::count(pushed.objects), units::count(pushed.outcomes));
    let bytes = units::bytes(pushed.bytes);
    format!("{objects} objects, {bytes}, and {outcomes} outcomes of stages")
}

/// A message for each stage with another result in the remote.
pub fn conflicts(pushed: &Pushed) -> Vec<String> {
    let mut names: BTreeMap<&str, ()> = BTreeMap::new();
    names.extend(pushed.conflicts.iter().map(|name| (name.as_str(), ())));
    let told = |name: &str| {
        format!(
            "stage `{name}` is not reproducible: the remote has another result under the same key, \
             and keeps it"
        )
    };
    names.into_keys().map(told).collect()
}

/// Pushes during a run, on a thread of its own.
pub struct Pusher {
    ends: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// The shortest time between two pushes.
const EVERY: Duration = Duration::from_secs(60);
/// Pushing takes at most this part of the time.
const SHARE: u32 = 20;

impl Pusher {
    /// None if the remote is not written to during a run.
    pub fn start(cache: &Cache, remote: Option<&Arc<Remote>>) -> Option<Pusher> {
        let is_written = |remote: &&Arc<Remote>| {
            remote.settings().push == Pushing::Always && remote.is_writable()
        };
        let remote = remote.filter(is_written)?;
        let ends = Arc::new((Mutex::new(false), Condvar::new()));
        let (cache, remote, told) = (cache.clone(), Arc::clone(remote), Arc::clone(&ends));
        let work = move || {
            let mut pause = EVERY;
            while !waited(&told, pause) && remote.is_usable() {
                let started = Instant::now();
                // After a failure, the push at the end of the run tries again and reports it.
                let _ = push(&cache, &remote, &|_, _| {});
                pause = EVERY.max(started.elapsed() * SHARE);
            }
        };
        // If the thread cannot start, everything is pushed at the end.
        let thread = Builder::new().name("push".into()).spawn(work).ok();
        Some(Pusher { ends, thread })
    }
}

/// Waits for this time, or until the end: then true.
fn waited(ends: &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let (ended, changed) = ends;
    let ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = changed.wait_timeout_while(ended, time, |ended| !*ended);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}

impl Drop for Pusher {
    /// Waits for a push that is going on.
    fn drop(&mut self) {
        *self.ends.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there is a bug, and the push at the end still follows.
            let _ = thread.join();
        }
    }
}
