//! What of a cache goes into an archive, and which record counts where an archive and a cache
//! both have one. The files themselves are the cache's matter.

use std::collections::HashSet;

use cache::{Archived, Archiving, Cache, CacheError, Digest, Kept, Table, TakenIn, Unpacking};
use camino::Utf8PathBuf;
use serde::de::DeserializeOwned;

use crate::gc::{self, Limits};
use crate::gpu_hours::UsageRecord;
use crate::history;
use crate::measure::Measure;
use crate::record::{
    CHECKPOINT, CheckpointRecord, EXPORT, EXPORTS, LAST, LIMIT, LastRecord, MEASURE, PROGRESS, RUN,
    SPENT, USAGE, decode, encode, run_key,
};
use crate::spending::Spent;

/// Packs what the garbage collection would keep under these limits.
pub fn pack(cache: &Cache, limits: &Limits, how: &Archiving) -> Result<Archived, CacheError> {
    let gone = gc::plan(cache, limits)?.sweep;
    let objects: HashSet<&Digest> = gone.objects().collect();
    let records: HashSet<(Table, &Digest)> = gone.records().collect();
    let travels = |table: Table| ![EXPORT, EXPORTS, LIMIT].contains(&table);
    let kept = Kept {
        object: &|digest| !objects.contains(digest),
        // What was exported lies on this machine and on no other, and so do its GPUs.
        record: &|table, key| travels(table) && !records.contains(&(table, key)),
    };
    cache.archive(&kept, how)
}

/// Takes archives into a cache: the base first, then what builds on it.
pub fn unpack(
    cache: &Cache,
    folders: &[Utf8PathBuf],
    progress: &dyn Fn(u64, u64),
) -> Result<TakenIn, CacheError> {
    let taken = cache.take_in(&Unpacking { folders, prefers: &is_newer, progress })?;
    raise_run_number(cache)?;
    Ok(taken)
}

/// The next run gets a number that no run here has, whichever machine it was on. A run that was
/// killed has left no record of itself, but perhaps of stages and of checkpoints.
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

/// Whether the second of two records under one key takes the place of the first. What has a run
/// goes by its number, a time that was being counted by its length, and what stages took by when
/// it was written; everything else was true before and stays.
fn is_newer(table: Table, own: &[u8], other: &[u8]) -> bool {
    match table {
        LAST => is_later(own, other, |last: &LastRecord| last.run),
        CHECKPOINT => is_later(own, other, |checkpoint: &CheckpointRecord| checkpoint.run),
        SPENT => {
            let long = |bytes: &[u8]| decode::<Spent>(bytes).map(|record| record.seconds);
            long(other) > long(own)
        }
        PROGRESS => decode::<(u64, u64)>(other) > decode::<(u64, u64)>(own),
        USAGE => {
            let long = |bytes: &[u8]| decode::<UsageRecord>(bytes).map(|record| record.seconds);
            long(other) > long(own)
        }
        MEASURE => {
            let written = |bytes: &[u8]| decode::<Measure>(bytes).map(|measure| measure.written);
            written(other) > written(own)
        }
        _ => false,
    }
}

fn is_later<T: DeserializeOwned>(own: &[u8], other: &[u8], run: fn(&T) -> u64) -> bool {
    let run = |bytes: &[u8]| decode::<T>(bytes).map(|record| run(&record));
    run(other) > run(own)
}
