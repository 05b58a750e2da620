//! Selects the records and objects of a cache for an archive, and decides which of two records
//! counts where an archive and a cache both have one. The file format belongs to `cache`.

use std::collections::HashSet;

use cache::{Archived, Archiving, Cache, CacheError, Digest, Kept, Table, UnpackCounts, Unpacking};
use camino::Utf8PathBuf;
use serde::de::DeserializeOwned;

use crate::failed_output::FailedOutput;
use crate::gc::{self, GcLimits};
use crate::gpu_hours::UsageRecord;
use crate::history;
use crate::measure::Measure;
use crate::record::{
    CHECKPOINT, CheckpointRecord, EXPORT, EXPORTS, FAILED_HERE, ITEM, ItemRecord, JUDGED, LAST,
    LIMIT, LastRecord, MEASURE, MIRRORED, PROGRESS, RUN, SPENT, STEP_TIMES, TRIES, USAGE, decode,
    encode, run_key,
};
use crate::spending::Spent;

/// Packs everything that garbage collection would keep under these limits.
pub fn pack(cache: &Cache, limits: &GcLimits, how: &Archiving) -> Result<Archived, CacheError> {
    let gone = gc::plan(cache, limits)?.sweep;
    let objects: HashSet<&Digest> = gone.objects().collect();
    let records: HashSet<(Table, &Digest)> = gone.records().collect();
    let kept = Kept {
        object: &|digest| !objects.contains(digest),
        record: &|table, key| travels(table) && !records.contains(&(table, key)),
    };
    cache.archive(&kept, how)
}

/// Exported files, GPUs, failures by a time limit and the known contents of remotes belong to one machine. Such records are
/// not read from an archive either: otherwise an export would remove files here that another
/// machine wrote.
fn travels(table: Table) -> bool {
    let own = [EXPORT, EXPORTS, LIMIT, STEP_TIMES, MIRRORED, FAILED_HERE, TRIES, remote::KNOWN];
    !own.contains(&table)
}

/// Takes archives into a cache: the base first, then the archives on top of it.
pub fn unpack(
    cache: &Cache,
    folders: &[Utf8PathBuf],
    progress: &dyn Fn(u64, u64),
) -> Result<UnpackCounts, CacheError> {
    let how = Unpacking { folders, prefers: &is_newer, takes: &travels, progress };
    let taken = cache.take_in(&how)?;
    raise_run_number(cache)?;
    Ok(taken)
}

/// Makes the next run get a number that no run here has, from whichever machine. A killed run has
/// left no record of itself, but possibly records of stages and checkpoints.
fn raise_run_number(cache: &Cache) -> Result<(), CacheError> {
    let finished = history::runs(cache)?.last().map_or(0, |run| run.run);
    let checkpoints = latest(cache, CHECKPOINT, |checkpoint: CheckpointRecord| checkpoint.run)?;
    let stages = latest(cache, LAST, |last: LastRecord| last.run)?;
    let latest = finished.max(checkpoints).max(stages);
    let counted = cache.get(RUN, &run_key(0))?.and_then(|bytes| decode::<u64>(&bytes));
    if counted.unwrap_or(0) < latest {
        cache.record(RUN, &run_key(0), encode(&latest))?;
        cache.commit()?;
    }
    Ok(())
}

fn latest<T: DeserializeOwned>(
    cache: &Cache,
    table: Table,
    run: fn(T) -> u64,
) -> Result<u64, CacheError> {
    let records = cache.scan(table)?;
    Ok(records.iter().filter_map(|(_, bytes)| decode(bytes)).map(run).max().unwrap_or(0))
}

/// Tests if the second of two records under one key replaces the first. Records of runs are
/// compared by run number, checkpoints of one run by step, counted times by length, and measured
/// times by date. A result of an item replaces a verdict, which somebody has retried. Everything else
/// stays valid, and the first record is kept.
pub fn is_newer(table: Table, own: &[u8], other: &[u8]) -> bool {
    match table {
        ITEM => is_later(own, other, |item: &ItemRecord| matches!(item, ItemRecord::Done { .. })),
        LAST => is_later(own, other, |last: &LastRecord| last.run),
        CHECKPOINT => is_later(own, other, |checkpoint: &CheckpointRecord| {
            // Of two archives of one run, the later one is further.
            let step = checkpoint.states.first().and_then(|state| state.number("step"));
            (checkpoint.run, step)
        }),
        JUDGED => is_later(own, other, |judged: &FailedOutput| judged.run),
        SPENT => is_later(own, other, |spent: &Spent| spent.seconds),
        PROGRESS => is_later(own, other, |progress: &(u64, u64)| *progress),
        USAGE => is_later(own, other, |usage: &UsageRecord| usage.seconds),
        MEASURE => is_later(own, other, |measure: &Measure| measure.written),
        _ => false,
    }
}

fn is_later<T: DeserializeOwned, O: PartialOrd>(
    own: &[u8],
    other: &[u8],
    order: fn(&T) -> O,
) -> bool {
    let order = |bytes: &[u8]| decode::<T>(bytes).map(|record| order(&record));
    order(other) > order(own)
}

#[cfg(test)]
mod tests;
