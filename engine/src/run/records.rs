//! The records of a run: its number, its beginning and its end.

use std::collections::BTreeMap;

use cache::{Cache, CacheError, Claim};
use stage_core::event::Status;

use crate::engine::RunOptions;
use crate::history;
use crate::pipeline::Pipeline;
use crate::record::{BEGUN, BegunRecord, RUN, RunRecord, decode, encode, run_key};

const RUNS_AT_ONCE: u64 = 64;

/// The number of this run. It is claimed until the run ends, so that two runs at once have
/// different numbers.
pub fn next_run(cache: &Cache) -> Result<(u64, Option<Claim>), CacheError> {
    let latest = cache.get(RUN, &run_key(0))?;
    let first = latest.and_then(|bytes| decode::<u64>(&bytes)).unwrap_or(0) + 1;
    if cache.is_read_only() {
        return Ok((first, None));
    }
    let (mut number, mut others) = (first, 0);
    while others < RUNS_AT_ONCE {
        // A killed run has left its log, and usually its beginning in the ledger.
        if !history::is_taken(cache, number)? {
            match cache.claim_number(number)? {
                Some(claim) => return Ok((number, Some(claim))),
                None => others += 1,
            }
        }
        number += 1;
    }
    Ok((number, None))
}

/// Written with the first commit of the run.
pub fn begin_run(
    pipeline: &Pipeline,
    cache: &Cache,
    options: &RunOptions,
    run: u64,
) -> Result<(), CacheError> {
    if cache.is_read_only() || options.probe.is_some() {
        return Ok(());
    }
    let started = cache.fs().now() / 1_000_000_000;
    let record = BegunRecord { run, pipeline: pipeline.name.clone(), started };
    cache.record(BEGUN, &run_key(run), encode(&record))
}

/// A record of the end contains more than the record of the beginning.
pub fn end_run(cache: &Cache, run: u64) -> Result<(), CacheError> {
    match cache.is_read_only() || cache.get(BEGUN, &run_key(run))?.is_none() {
        true => Ok(()),
        false => cache.forget(BEGUN, &run_key(run)),
    }
}

/// Records the end of a run that cannot continue.
pub fn record_broken_off(
    pipeline: &Pipeline,
    cache: &Cache,
    run: u64,
    status: Status,
) -> Result<(), CacheError> {
    let begun = cache.get(BEGUN, &run_key(run))?;
    let Some(begun) = begun.and_then(|bytes| decode::<BegunRecord>(&bytes)) else { return Ok(()) };
    let seconds = (cache.fs().now() / 1_000_000_000 - begun.started).max(0) as f64;
    record_run(
        cache,
        &RunRecord {
            run,
            pipeline: begun.pipeline,
            started: begun.started,
            seconds,
            status,
            stages: BTreeMap::new(),
            keys: BTreeMap::new(),
            licenses: pipeline.stages.iter().flat_map(|stage| stage.licenses.clone()).collect(),
            pinned: false,
        },
    )?;
    end_run(cache, run)?;
    cache.commit().map(drop)
}

pub fn record_run(cache: &Cache, record: &RunRecord) -> Result<(), CacheError> {
    if cache.is_read_only() {
        return Ok(());
    }
    cache.record(RUN, &run_key(record.run), encode(record))?;
    let latest = cache.get(RUN, &run_key(0))?.and_then(|bytes| decode::<u64>(&bytes));
    let latest = latest.unwrap_or(0).max(record.run);
    cache.record(RUN, &run_key(0), encode(&latest))?;
    Ok(())
}
