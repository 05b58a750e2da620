//! A run: its work, its number, and the records of its beginning and its end.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Status;
use cache::{Cache, CacheError, Claim};

use crate::engine::{Engine, RunOptions};
use crate::history;
use crate::pipeline::{ExecutorSpec, Pipeline, StageId, StageSpec};
use crate::record::{BEGUN, BegunRecord, RUN, RunRecord, decode, encode, run_key};

const RUNS_AT_ONCE: u64 = 64;

/// A run with its number.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub engine: &'a Engine,
    pub pipeline: &'a Pipeline,
    pub cache: &'a Cache,
    pub options: &'a RunOptions,
    pub wanted: &'a BTreeSet<StageId>,
    pub number: u64,
}

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
        // A killed run has left its log, and usually its beginning in the index.
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

impl<'a> Run<'a> {
    pub fn stage(&self, id: StageId) -> &'a StageSpec {
        self.pipeline.stage(id)
    }

    pub fn is_probe(&self) -> bool {
        self.options.mode.is_probe()
    }

    /// The executor with the jobs of a stage. A worker does its shard itself.
    pub fn executor(&self, id: StageId) -> Option<&'a ExecutorSpec> {
        let name = self.stage(id).policy.executor.as_ref();
        name.filter(|_| !self.options.mode.is_shard())
            .and_then(|name| self.pipeline.executors.get(name))
    }

    /// Tests if a stage runs on an executor.
    pub fn is_on_executor(&self, id: StageId) -> bool {
        self.executor(id).is_some()
    }

    /// Written with the first commit of the run.
    pub fn record_beginning(&self) -> Result<(), CacheError> {
        let cache = self.cache;
        if cache.is_read_only() || self.is_probe() {
            return Ok(());
        }
        let started = cache.fs().now() / 1_000_000_000;
        let pipeline = self.pipeline.name.clone();
        let record = BegunRecord { run: self.number, pipeline, started };
        cache.record(BEGUN, &run_key(self.number), encode(&record))
    }

    /// A record of the end contains more than the record of the beginning.
    pub fn forget_beginning(&self) -> Result<(), CacheError> {
        let (cache, key) = (self.cache, run_key(self.number));
        if cache.is_read_only() || cache.get(BEGUN, &key)?.is_none() {
            return Ok(());
        }
        cache.forget(BEGUN, &key)
    }

    /// Records the end of a run that cannot continue.
    pub fn record_broken_off(&self, status: Status) -> Result<(), CacheError> {
        let cache = self.cache;
        let begun = cache.get(BEGUN, &run_key(self.number))?;
        let begun = begun.and_then(|bytes| decode::<BegunRecord>(&bytes));
        let Some(begun) = begun else { return Ok(()) };
        let seconds = (cache.fs().now() / 1_000_000_000 - begun.started).max(0) as f64;
        self.record_end(&RunRecord {
            run: self.number,
            pipeline: begun.pipeline,
            started: begun.started,
            seconds,
            status,
            stages: BTreeMap::new(),
            keys: BTreeMap::new(),
            licenses: self.licenses(),
            pinned: false,
        })?;
        self.forget_beginning()?;
        cache.commit().map(drop)
    }

    pub fn record_end(&self, record: &RunRecord) -> Result<(), CacheError> {
        let cache = self.cache;
        if cache.is_read_only() {
            return Ok(());
        }
        cache.record(RUN, &run_key(record.run), encode(record))?;
        let latest = cache.get(RUN, &run_key(0))?.and_then(|bytes| decode::<u64>(&bytes));
        let latest = latest.unwrap_or(0).max(record.run);
        cache.record(RUN, &run_key(0), encode(&latest))
    }

    pub fn licenses(&self) -> BTreeSet<String> {
        self.pipeline.stages.iter().flat_map(|stage| stage.licenses.clone()).collect()
    }
}
