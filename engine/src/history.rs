//! What earlier runs left in the ledger.

use cache::{Cache, CacheError, Digest};

use crate::record::{
    LAST, LastRecord, MADE_OF, Previous, RUN, RunRecord, STAGE, StageRecord, decode, encode,
    last_key, run_key,
};
use crate::show::runlog;

/// All runs, the oldest first.
pub fn runs(cache: &Cache) -> Result<Vec<RunRecord>, CacheError> {
    let records = cache.scan(RUN)?;
    let mut runs: Vec<RunRecord> = records.iter().filter_map(|(_, bytes)| decode(bytes)).collect();
    runs.sort_by_key(|run| run.run);
    Ok(runs)
}

/// The runs that have a log and no record: they were killed, or are under way.
pub fn open_runs(cache: &Cache, runs: &[RunRecord]) -> Result<Vec<u64>, CacheError> {
    let entries = match cache.fs().read_dir(&runlog::folder(cache.dir())) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let logged = entries.iter().filter_map(|entry| runlog::number(&entry.name));
    let mut open: Vec<u64> =
        logged.filter(|number| runs.iter().all(|run| run.run != *number)).collect();
    open.sort_unstable();
    Ok(open)
}

pub fn run(cache: &Cache, number: u64) -> Result<Option<RunRecord>, CacheError> {
    let record = cache.get(RUN, &run_key(number))?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// Keeps a run's results from the garbage collection, or gives them free. `None`: no such run.
pub fn pin(cache: &Cache, number: u64, pinned: bool) -> Result<Option<RunRecord>, CacheError> {
    let Some(mut record) = run(cache, number)? else { return Ok(None) };
    record.pinned = pinned;
    cache.record(RUN, &run_key(number), encode(&record))?;
    cache.commit()?;
    Ok(Some(record))
}

/// The state in which the last run that reached a stage left it.
pub fn last(cache: &Cache, pipeline: &str, stage: &str) -> Result<Option<LastRecord>, CacheError> {
    let record = cache.get(LAST, &last_key(pipeline, stage))?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// The outcome that belongs to that state, as long as it is kept.
pub fn outcome(cache: &Cache, last: &LastRecord) -> Result<Option<StageRecord>, CacheError> {
    outcome_of(cache, &last.key.digest())
}

/// The outcome of a whole-stage key.
pub fn outcome_of(cache: &Cache, key: &Digest) -> Result<Option<StageRecord>, CacheError> {
    let record = cache.get(STAGE, key)?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// What a whole-stage key was made of, and the data sets that went with it.
pub fn made_of(cache: &Cache, key: &Digest) -> Result<Option<Previous>, CacheError> {
    let record = cache.get(MADE_OF, key)?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::Access;
    use cache::fs::MemoryFs;
    use stage_core::event::Status;
    use std::sync::Arc;

    fn record(run: u64) -> RunRecord {
        RunRecord {
            run,
            pipeline: "p".into(),
            started: 0,
            seconds: 1.0,
            status: Status::Done,
            stages: [].into(),
            keys: [].into(),
            licenses: [].into(),
            pinned: false,
        }
    }

    #[test]
    fn runs_are_listed_in_order_and_pins_are_kept() {
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs.clone(), Access::ReadWrite).unwrap();
        for number in [300, 2, 1] {
            cache.record(RUN, &run_key(number), encode(&record(number))).unwrap();
        }
        assert!(pin(&cache, 300, true).unwrap().is_some());
        assert!(pin(&cache, 4, true).unwrap().is_none());
        drop(cache);
        let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
        let seen: Vec<(u64, bool)> =
            runs(&cache).unwrap().iter().map(|run| (run.run, run.pinned)).collect();
        assert_eq!(seen, [(1, false), (2, false), (300, true)]);
    }
}
