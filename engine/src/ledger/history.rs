//! Earlier runs, as recorded in the index.

use std::collections::BTreeSet;

use crate::event::{Event, Status};
use cache::{Cache, CacheError, Digest};

use crate::machine;
use crate::record::{
    BEGUN, BegunRecord, LAST, LastRecord, MADE_OF, Previous, RUN, RunRecord, STAGE, StageRecord,
    decode, encode, last_key, run_key,
};
use crate::runlog::{self, Beginning};
use crate::units;

/// All runs, the oldest first.
pub fn runs(cache: &Cache) -> Result<Vec<RunRecord>, CacheError> {
    let records = cache.scan(RUN)?;
    let mut runs: Vec<RunRecord> = records.iter().filter_map(|(_, bytes)| decode(bytes)).collect();
    runs.sort_by_key(|run| run.run);
    Ok(runs)
}

/// A run without a record of its end.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRun {
    pub run: u64,
    /// For a run that has recorded nothing, this comes from its log.
    pub pipeline: String,
    pub started: Option<i64>,
    /// True when it is running now. Otherwise it was killed, or ended without a record.
    pub is_under_way: bool,
}

/// The runs without a record of their end, the oldest first.
pub fn open_runs(cache: &Cache, runs: &[RunRecord]) -> Result<Vec<OpenRun>, CacheError> {
    let mut open = begun_runs(cache, runs)?;
    let known: BTreeSet<u64> =
        runs.iter().map(|run| run.run).chain(open.iter().map(|run| run.run)).collect();
    for run in logged(cache)?.into_iter().filter(|run| !known.contains(run)) {
        if let Some(pipeline) = unfinished_log(cache, run)? {
            let is_under_way = cache.number_is_held(run)?;
            open.push(OpenRun { run, pipeline, started: None, is_under_way });
        }
    }
    open.sort_by_key(|run| run.run);
    Ok(open)
}

/// The open runs that the index knows.
pub fn begun_runs(cache: &Cache, runs: &[RunRecord]) -> Result<Vec<OpenRun>, CacheError> {
    let ended: BTreeSet<u64> = runs.iter().map(|run| run.run).collect();
    let mut open = Vec::new();
    for (_, bytes) in cache.scan(BEGUN)? {
        let Some(begun) = decode::<BegunRecord>(&bytes) else { continue };
        if !ended.contains(&begun.run) {
            let BegunRecord { run, pipeline, started } = begun;
            let is_under_way = cache.number_is_held(run)?;
            open.push(OpenRun { run, pipeline, started: Some(started), is_under_way });
        }
    }
    open.sort_by_key(|run| run.run);
    Ok(open)
}

/// The other runs that work with this cache now, in words; empty if none is known.
pub fn others_at_work(cache: &Cache, own: u64) -> Result<String, CacheError> {
    let open = open_runs(cache, &runs(cache)?)?.into_iter();
    let own_machine = machine::host();
    let others = open.filter(|run| run.is_under_way && run.run != own).map(|run| {
        let Beginning { time, process, machine } = runlog::beginning(cache, run.run);
        let process = process.map_or(String::new(), |process| format!(", process {process}"));
        let machine = machine.filter(|name| own_machine.as_ref() != Some(name));
        let machine = machine.map_or(String::new(), |name| format!(" on `{name}`"));
        let since = run.started.or(time);
        let since = since.map_or(String::new(), |time| format!(", since {}", units::date(time)));
        format!("run {}{process}{machine}{since}", run.run)
    });
    Ok(others.collect::<Vec<_>>().join("; "))
}

/// True when the last run of a pipeline was stopped, failed or was killed.
pub fn is_unfinished(cache: &Cache, pipeline: &str) -> Result<bool, CacheError> {
    let runs = runs(cache)?;
    let last = runs.iter().rfind(|run| run.pipeline == pipeline);
    if last.is_some_and(|last| last.status != Status::Done) {
        return Ok(true);
    }
    was_cut_off_after(cache, &runs, last, pipeline)
}

/// True when the last run of a pipeline was killed, or ended without a record.
pub fn was_cut_off(cache: &Cache, pipeline: &str) -> Result<bool, CacheError> {
    let runs = runs(cache)?;
    let last = runs.iter().rfind(|run| run.pipeline == pipeline);
    was_cut_off_after(cache, &runs, last, pipeline)
}

fn was_cut_off_after(
    cache: &Cache,
    runs: &[RunRecord],
    last: Option<&RunRecord>,
    pipeline: &str,
) -> Result<bool, CacheError> {
    let begun = begun_runs(cache, runs)?;
    Ok(begun.iter().any(|run| {
        run.pipeline == pipeline && !run.is_under_way && last.is_none_or(|last| last.run < run.run)
    }))
}

/// True if a run with this number has left a log or a record.
pub fn is_taken(cache: &Cache, number: u64) -> Result<bool, CacheError> {
    Ok(cache.home().exists(&runlog::path(cache.dir(), number))?
        || cache.get(RUN, &run_key(number))?.is_some()
        || cache.get(BEGUN, &run_key(number))?.is_some())
}

/// The runs that have a log.
fn logged(cache: &Cache) -> Result<Vec<u64>, CacheError> {
    let entries = match cache.home().read_dir(&runlog::folder(cache.dir())) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    Ok(entries.iter().filter_map(|entry| runlog::number(&entry.name)).collect())
}

/// The pipeline of a log without an end.
fn unfinished_log(cache: &Cache, run: u64) -> Result<Option<String>, CacheError> {
    let Some((events, _)) = runlog::read(cache, run)? else { return Ok(None) };
    if matches!(events.last(), Some(Event::Finished { .. })) {
        return Ok(None);
    }
    let pipeline = events.into_iter().find_map(|event| match event {
        Event::Started { pipeline, .. } => Some(pipeline),
        _ => None,
    });
    Ok(Some(pipeline.unwrap_or_default()))
}

pub fn run(cache: &Cache, number: u64) -> Result<Option<RunRecord>, CacheError> {
    let record = cache.get(RUN, &run_key(number))?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// Pins or unpins the results of a run. `None`: no such run.
pub fn pin(cache: &Cache, number: u64, pinned: bool) -> Result<Option<RunRecord>, CacheError> {
    let Some(mut record) = run(cache, number)? else { return Ok(None) };
    record.pinned = pinned;
    cache.record(RUN, &run_key(number), encode(&record))?;
    cache.commit()?;
    Ok(Some(record))
}

/// The state of a stage after the last run that reached it.
pub fn last(cache: &Cache, pipeline: &str, stage: &str) -> Result<Option<LastRecord>, CacheError> {
    let record = cache.get(LAST, &last_key(pipeline, stage))?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// The outcome that belongs to this state, if it is still kept.
pub fn outcome(cache: &Cache, last: &LastRecord) -> Result<Option<StageRecord>, CacheError> {
    outcome_of(cache, &last.key.digest())
}

/// The outcome of a whole-stage key.
pub fn outcome_of(cache: &Cache, key: &Digest) -> Result<Option<StageRecord>, CacheError> {
    let record = cache.get(STAGE, key)?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// The parts of a whole-stage key, and its data sets.
pub fn made_of(cache: &Cache, key: &Digest) -> Result<Option<Previous>, CacheError> {
    let record = cache.get(MADE_OF, key)?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::event::Status;
    use cache::Access;
    use cache::fs::{Fs, MemoryFs};
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
    fn a_run_that_recorded_its_beginning_and_no_end_is_open() {
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
        for number in [1, 2, 3] {
            let begun = BegunRecord { run: number, pipeline: "p".into(), started: 9 };
            cache.record(BEGUN, &run_key(number), encode(&begun)).unwrap();
        }
        cache.record(RUN, &run_key(1), encode(&record(1))).unwrap();
        let _claim = cache.claim_number(3).unwrap();
        let open = open_runs(&cache, &runs(&cache).unwrap()).unwrap();
        let seen: Vec<(u64, bool)> = open.iter().map(|run| (run.run, run.is_under_way)).collect();
        assert_eq!(seen, [(2, false), (3, true)]);
        let taken = |number| is_taken(&cache, number).unwrap();
        assert_eq!([1, 2, 3, 4].map(taken), [true, true, true, false]);
    }

    #[test]
    fn other_runs_are_named_with_their_process_and_their_beginning() {
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs.clone(), Access::ReadWrite).unwrap();
        let begun = |run| BegunRecord { run, pipeline: "p".into(), started: 60 };
        for number in [3, 4] {
            cache.record(BEGUN, &run_key(number), encode(&begun(number))).unwrap();
        }
        let started = Event::Started {
            run: 5,
            pipeline: "p".into(),
            stages: Vec::new(),
            time: Some(0),
            process: Some(77),
            machine: Some("node-of-others".into()),
        };
        let mut log = serde_json::to_vec(&started).unwrap();
        log.extend(b"\n{\"event\":\"waiting\",\"what\":\"x\"}\n");
        fs.create_dir_all(&runlog::folder(cache.dir())).unwrap();
        fs.write_durably(&runlog::path(cache.dir(), 5), &log).unwrap();
        let _claims = [3, 5].map(|number| cache.claim_number(number).unwrap());
        assert_eq!(
            others_at_work(&cache, 2).unwrap(),
            "run 3, since 1970-01-01 00:01 UTC; run 5, process 77 on `node-of-others`, since \
             1970-01-01 00:00 UTC"
        );
        assert!(others_at_work(&cache, 3).unwrap().starts_with("run 5"));
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
