//! Exchange between a cache and a remote: selects results to push, and interprets records. The
//! remote itself knows neither stages nor records.
//!
//! Outcomes of whole stages are written once under their keys. Outcomes of items and buckets, and parts of
//! gathers, travel in packs, and are found under the scope of their stage. Checkpoints of trainings are
//! numbered.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::event::Event;
use bytes::Bytes;
use cache::{Cache, CacheError, Digest, Table};
use remote::{
    CheckpointWrite, Fresh, Push, PushCounts, Pushing, Remote, RemoteError, Rules, Salvage,
};
use stage_core::key::{HashSink, Sink as _};
use stage_core::{Dataset, Fields};

pub use self::complete::find_incomplete;
pub use self::pusher::Pusher;
use self::repair::only_whole;
pub use self::repair::repair;
pub use self::training::{Mirror, adopt, adopt_any, put};
use crate::archive::is_newer;
use crate::gc::{self, GcLimits};
use crate::history;
use crate::options::Sink;
use crate::record::{
    CHUNK, ChunkRecord, FAILED, ITEM, ItemRecord, MADE_OF, MEMO, PARENT, PART, PROGRESS,
    PartRecord, PortValue, STAGE, StageRecord, TRAINED_AS, decode, encode,
};
use crate::runlog;
use crate::units;

mod complete;
mod pusher;
mod repair;
mod training;

/// The tables of records that mean the same on every machine.
const TABLES: [Table; 9] = [ITEM, CHUNK, MEMO, PART, MADE_OF, PROGRESS, PARENT, TRAINED_AS, FAILED];
/// The runs of every pipeline with results that are pushed.
const KEEP_RUNS: usize = 3;

/// The time that an item took differs between machines.
fn meaning(table: Table, value: &[u8]) -> Option<Vec<u8>> {
    if table != ITEM {
        return None;
    }
    match decode(value)? {
        ItemRecord::Done { fields, notes, .. } => {
            Some(encode(&ItemRecord::Done { fields, notes, seconds: 0.0 }))
        }
        ItemRecord::Rejected(_) => None,
    }
}

pub fn rules() -> Rules {
    Rules {
        prefers: is_newer,
        takes: |table| TABLES.contains(&table),
        meaning,
        is_scoped: |table| matches!(table, ITEM | CHUNK | PART),
    }
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
) -> Result<PushCounts, RemoteError> {
    remote.push(selected(cache, remote, Salvage::default(), progress)?)
}

/// The results of this machine, with the contents of damaged packs to write again.
fn selected<'a>(
    cache: &Cache,
    remote: &Remote,
    mut salvage: Salvage,
    progress: &'a (dyn Fn(u64, u64) + Sync),
) -> Result<Push<'a>, RemoteError> {
    let limits = GcLimits { keep_runs: KEEP_RUNS, kept_since: None, most_bytes: None };
    let gone = gc::plan(cache, &limits)?.sweep;
    let gone: HashSet<(Table, Digest)> = gone.records().map(|(table, key)| (table, *key)).collect();
    let mut reached = HashSet::new();
    // This machine may have only read an outcome that is to be written again.
    let (read, mut outcomes): (Vec<Fresh>, Vec<Fresh>) =
        outcomes(cache, remote, &gone, &mut reached)?
            .into_iter()
            .partition(|outcome| remote.repairs_outcome(&outcome.key));
    outcomes.extend(only_whole(cache, remote, &salvage, read, |_| false)?);
    let own: HashSet<Digest> = outcomes.iter().map(|outcome| outcome.key).collect();
    let again = std::mem::take(&mut salvage.outcomes);
    let is_listed = |outcome: &Fresh| !salvage.unlisted.contains(&outcome.key);
    let again = only_whole(cache, remote, &salvage, again, is_listed)?;
    outcomes.extend(again.into_iter().filter(|outcome| !own.contains(&outcome.key)));
    reached.extend(outcomes.iter().flat_map(|outcome| &outcome.objects));
    reached.extend(salvage.objects.iter().map(|(digest, _)| *digest));
    let again: HashSet<(Table, Digest)> = salvage.records.into_iter().collect();
    let mut records = Vec::new();
    for table in TABLES {
        for (key, value) in cache.scan(table)? {
            if !gone.contains(&(table, key)) || again.contains(&(table, key)) {
                reach(table, &value, &mut reached);
                records.push((table, key, value));
            }
        }
    }
    let mut objects = cache.objects()?;
    objects.retain(|(digest, _)| reached.contains(digest));
    Ok(Push { objects, records, outcomes, logs: Vec::new(), progress })
}

/// Writes the checkpoints of trainings that are not finished, unless another attempt is ahead. Returns
/// the number of new ones, and the pipelines of trainings that are behind.
pub fn push_checkpoints(
    cache: &Cache,
    remote: &Remote,
) -> Result<(u64, BTreeSet<String>), RemoteError> {
    let (mut written, mut behind) = (0, BTreeSet::new());
    for (key, record) in gc::open_checkpoints(cache, KEEP_RUNS)? {
        match training::push(cache, remote, &key)? {
            Some(CheckpointWrite::Written) => written += 1,
            Some(CheckpointWrite::Taken) => _ = behind.insert(record.pipeline),
            None => {}
        }
    }
    Ok((written, behind))
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
        CHUNK => reached.extend(decode::<ChunkRecord>(value).and_then(|record| record.chunk)),
        PART => reached.extend(decode::<PartRecord>(value).map(|record| record.chunk)),
        _ => {}
    }
}

/// All objects that these outcomes of stages and the checkpoints of these open trainings reach, and that
/// this cache lacks. Fetches their tables.
pub fn wanted(
    cache: &Cache,
    remote: &Remote,
    keys: impl IntoIterator<Item = Digest>,
    trainings: impl IntoIterator<Item = Digest>,
) -> Result<Vec<Digest>, RemoteError> {
    let mut objects = HashSet::new();
    for key in trainings {
        objects.extend(training::objects(cache, &key)?);
    }
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

fn lacking(cache: &Cache, mut objects: Vec<Digest>) -> Result<Vec<Digest>, RemoteError> {
    let mut there = cache.contains_all(&objects)?.into_iter();
    objects.retain(|_| !there.next().unwrap_or(false));
    Ok(objects)
}

fn bring_tables(cache: &Cache, remote: &Remote, root: &Digest) -> Result<(), RemoteError> {
    if !remote.bring(root)? {
        return Ok(());
    }
    let dataset = Dataset::decode(&cache.read(root)?).unwrap_or_default();
    let chunks = dataset.buckets.iter().map(|bucket| bucket.chunk).collect();
    remote.pull(&lacking(cache, chunks)?, &|_, _| {})
}

/// Writes the logs of ended runs to the remote, unless they are there.
pub fn push_logs(cache: &Cache, remote: &Remote) -> Result<u64, RemoteError> {
    let mut logs = Vec::new();
    for run in history::runs(cache)? {
        let Ok(bytes) = cache.home().read(&runlog::path(cache.dir(), run.run)) else { continue };
        // Equal logs have equal names, and two machines have different logs.
        let digest = Digest::of(&bytes).short();
        let name = format!("{}-{}-{digest}.jsonl", run.pipeline, run.started);
        logs.push((name, Bytes::from(bytes)));
    }
    let (objects, records, outcomes) = (Vec::new(), Vec::new(), Vec::new());
    let push = Push { objects, records, outcomes, logs, progress: &|_, _| {} };
    Ok(remote.push(push)?.logs)
}

/// Writes the log of a run under this name.
pub fn push_log(cache: &Cache, remote: &Remote, run: u64, name: String) -> Result<(), RemoteError> {
    let Ok(bytes) = cache.home().read(&runlog::path(cache.dir(), run)) else { return Ok(()) };
    let logs = vec![(name, Bytes::from(bytes))];
    remote.push(Push { logs, ..Push::nothing() }).map(drop)
}

/// Passes on the messages of the remote.
pub fn tell_notes(remote: Option<&Arc<Remote>>, sink: Sink) {
    for message in remote.map(|remote| remote.take_notes()).unwrap_or_default() {
        sink(Event::Note { stage: None, message });
    }
}

/// Pushes at the end of a run that did something.
pub fn push_run(cache: &Cache, remote: &Arc<Remote>, sink: Sink) -> Result<(), RemoteError> {
    let is_written = remote.is_writable() && remote.settings().push != Pushing::Never;
    if !is_written || cache.is_read_only() || !remote.is_usable() {
        return Ok(());
    }
    let push = selected(cache, remote, Salvage::default(), &|_, _| {});
    let pushed = push.and_then(|push| {
        if remote.has_new(&push)? || !gc::open_checkpoints(cache, KEEP_RUNS)?.is_empty() {
            let what = format!("results to be pushed to `{}`", remote.address());
            sink(Event::Waiting { what });
        }
        remote.push(push)
    });
    let pushed = match pushed.and_then(|pushed| Ok((pushed, push_checkpoints(cache, remote)?))) {
        Err(trouble @ RemoteError::Cache(_)) => return Err(trouble),
        Err(trouble) if remote.settings().require => return Err(trouble),
        Err(trouble) => {
            let message = format!("{trouble}; results are not pushed: run `throstle push` later");
            sink(Event::Note { stage: None, message });
            return Ok(());
        }
        Ok(pushed) => pushed,
    };
    let (pushed, (checkpoints, behind)) = pushed;
    for message in conflicts(&pushed).into_iter().chain(overtaken(&behind)) {
        sink(Event::Note { stage: None, message });
    }
    if !pushed.is_nothing() || checkpoints > 0 {
        let message =
            format!("pushed to `{}`: {}", remote.address(), summary(&pushed, checkpoints));
        sink(Event::Note { stage: None, message });
    }
    Ok(())
}

/// The counts of a push, for people.
pub fn summary(pushed: &PushCounts, checkpoints: u64) -> String {
    let objects = units::counted(pushed.objects, "object");
    let outcomes = units::counted(pushed.outcomes, "stage outcome");
    let mut parts = vec![objects, units::bytes(pushed.bytes), outcomes];
    for (number, what) in [(checkpoints, "checkpoint"), (pushed.labels, "missing label")] {
        if number > 0 {
            parts.push(units::counted(number, what));
        }
    }
    let last = parts.pop().unwrap_or_default();
    format!("{}, and {last}", parts.join(", "))
}

/// A message for each pipeline with a training that another attempt has overtaken.
pub fn overtaken(behind: &BTreeSet<String>) -> impl Iterator<Item = String> {
    behind.iter().map(|pipeline| {
        format!(
            "another attempt at a training of `{pipeline}` is ahead in the remote: the next run \
             continues from there"
        )
    })
}

/// A message for each stage with another result in the remote.
pub fn conflicts(pushed: &PushCounts) -> Vec<String> {
    let mut names: BTreeMap<&str, ()> = BTreeMap::new();
    names.extend(pushed.conflicts.iter().map(|name| (name.as_str(), ())));
    let told = |name: &str| {
        format!(
            "stage `{name}` is not reproducible: the remote keeps another result under the same key"
        )
    };
    let retried: BTreeSet<&str> = pushed.retried.iter().map(String::as_str).collect();
    let of_retried = |name: &str| {
        format!(
            "stage `{name}`: the remote keeps the result from before `retry`, which other machines \
             use; this machine uses the new one"
        )
    };
    let retried = retried.into_iter().map(of_retried);
    names.into_keys().map(told).chain(retried).collect()
}
