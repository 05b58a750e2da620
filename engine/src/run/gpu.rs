//! The weekly limit on GPU hours: usage is written into the ledger during work, and at the limit no
//! more work goes to GPUs. Training is told early enough to save; stages without GPU continue.

use std::time::{Duration, Instant};

use cache::{Cache, CacheError};
use stage_core::event::Event;

use super::schedule::Schedule;
use crate::engine::EngineError;
use crate::gpu_hours::{Usage, UsageRecord, WEEK, seconds, why_stopped};
use crate::pipeline::StageId;
use crate::record::{USAGE, decode, encode};

/// The shortest and the longest interval between writes of the GPU time: a kill loses at most that
/// time. In between, the interval is a tenth of the time written.
const OFTEN: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(10);
/// A shorter pause counts as work.
const PAUSE: Duration = Duration::from_secs(1);
/// Records are removed when they are this much older than the counted week, in seconds.
const KEPT: f64 = 2.0 * WEEK;

/// The state of the weekly limit in a run.
pub struct Gpus {
    pipeline: String,
    run: u64,
    limit_seconds: Option<f64>,
    /// The usage in the ledger.
    usage: Usage,
    /// The present period of GPU work.
    stretch: Option<Stretch>,
    /// No more work goes to GPUs in this run.
    pub spent: bool,
    told: bool,
}

struct Stretch {
    record: UsageRecord,
    began: Instant,
    busy: Instant,
    written: Option<Instant>,
}

impl Gpus {
    /// Reads earlier usage, and removes records that no longer matter.
    pub fn begin(
        cache: &Cache,
        pipeline: &str,
        run: u64,
        hours_per_week: Option<f64>,
    ) -> Result<Gpus, CacheError> {
        let oldest = seconds(cache.fs().now()) - KEPT;
        for (key, bytes) in cache.scan(USAGE)? {
            let record: Option<UsageRecord> = decode(&bytes);
            let is_old = |record: UsageRecord| seconds(record.started) < oldest;
            if record.is_none_or(is_old) && !cache.is_read_only() {
                cache.forget(USAGE, &key)?;
            }
        }
        let mut gpus = Gpus {
            pipeline: pipeline.to_owned(),
            run,
            limit_seconds: hours_per_week.map(|hours| hours * 3600.0),
            usage: Usage::read(cache)?,
            stretch: None,
            spent: false,
            told: false,
        };
        gpus.spent = gpus.left(cache).is_some_and(|left| left <= 0.0);
        Ok(gpus)
    }

    /// The seconds that are left of the limit.
    fn left(&self, cache: &Cache) -> Option<f64> {
        let limit = self.limit_seconds?;
        Some(limit - self.usage_now().seconds(seconds(cache.fs().now())))
    }

    fn usage_now(&self) -> Usage {
        match &self.stretch {
            Some(stretch) => self.usage.with(&stretch.record),
            None => self.usage.clone(),
        }
    }

    /// The time at which work that begins on a GPU now reaches the limit.
    pub fn deadline(&self, cache: &Cache) -> Option<Instant> {
        let left = Duration::try_from_secs_f64(self.left(cache)?.max(0.0)).ok()?;
        Instant::now().checked_add(left)
    }

    /// Notes ongoing work on GPUs, which began at this time at the latest. True if something was
    /// recorded.
    fn watch(&mut self, cache: &Cache, busy: Option<Instant>) -> Result<bool, CacheError> {
        let now = Instant::now();
        if let Some(since) = busy {
            let stretch = self.stretch.get_or_insert_with(|| Stretch {
                record: UsageRecord {
                    pipeline: self.pipeline.clone(),
                    run: self.run,
                    started: cache.fs().now() - (now - since).as_nanos() as i64,
                    seconds: 0.0,
                },
                began: since,
                busy: now,
                written: None,
            });
            stretch.busy = now;
            stretch.record.seconds = (now - stretch.began).as_secs_f64();
        }
        let Some(stretch) = &mut self.stretch else { return Ok(false) };
        let is_over = now - stretch.busy > PAUSE;
        let every = ((now - stretch.began) / 10).clamp(OFTEN, SELDOM);
        if !is_over && stretch.written.is_some_and(|written| now - written < every) {
            return Ok(false);
        }
        stretch.written = Some(now);
        self.write(cache, is_over)?;
        Ok(true)
    }

    fn write(&mut self, cache: &Cache, is_over: bool) -> Result<(), CacheError> {
        let Some(stretch) = &self.stretch else { return Ok(()) };
        cache.record(USAGE, &stretch.record.key(), encode(&stretch.record))?;
        if is_over {
            self.stretch = None;
        }
        // Other processes on this cache count too.
        self.usage = Usage::read(cache)?;
        Ok(())
    }
}

impl Schedule<'_> {
    /// Tests if a stage would run on a GPU.
    pub fn is_on_gpu(&self, id: StageId) -> bool {
        let spec = self.pipeline.stage(id);
        self.hands.is_on_gpu(spec.kind, &spec.policy.device)
    }

    /// Tests if a stage has to wait: for another week, or, if GPU time is counted or paid from a
    /// budget, for all its inputs.
    pub fn is_barred(&self, id: StageId) -> bool {
        self.is_on_gpu(id) && (self.gpus.spent || (self.is_thrifty() && !self.upstream_is_done(id)))
    }

    fn is_thrifty(&self) -> bool {
        let session = &self.pipeline.session;
        session.budget.is_some() || session.gpu_hours_per_week.is_some()
    }

    /// The GPUs' time so far, and the limit.
    pub fn watch_gpus(&mut self) -> Result<(), EngineError> {
        let cache = self.store.cache();
        if self.gpus.watch(cache, self.hands.gpus_are_busy().then(Instant::now))? {
            self.committer.note(Vec::new());
        }
        if self.gpus.stretch.is_some() && self.gpus.left(cache).is_some_and(|left| left <= 0.0) {
            self.gpus.spent = true;
            self.hands.stop_gpus();
            self.tell_spent();
        }
        Ok(())
    }

    /// Makes the time of a finished task durable with its outcome.
    pub fn count_gpu_time(&mut self, id: StageId, started: Instant) -> Result<(), EngineError> {
        if self.is_on_gpu(id) {
            let is_over = !self.hands.gpus_are_busy();
            self.gpus.watch(self.store.cache(), Some(started))?;
            self.gpus.write(self.store.cache(), is_over)?;
            self.committer.note(Vec::new());
        }
        Ok(())
    }

    /// Writes the last usage at the end of the run, and reports work that had to wait.
    pub fn end_gpus(&mut self) -> Result<(), EngineError> {
        if self.gpus.stretch.is_some() {
            self.gpus.write(self.store.cache(), true)?;
            self.committer.note(Vec::new());
        }
        if self.gpus.spent && self.pipeline.ids().any(|id| self.waits(id) && self.is_barred(id)) {
            self.tell_spent();
        }
        Ok(())
    }

    /// Training has saved and stopped by itself, since the limit is near.
    pub fn has_saved_for_limit(&mut self, id: StageId) {
        let stop = self.options.stop.is_requested() || self.unable;
        let limit = self.gpus.deadline(self.store.cache());
        let is_ours = match (limit, self.options.deadline) {
            (Some(limit), Some(deadline)) => limit < deadline,
            (limit, _) => limit.is_some(),
        };
        if !stop && is_ours && self.is_on_gpu(id) {
            self.gpus.spent = true;
            self.tell_spent();
        }
    }

    /// Reports once that work has to wait.
    fn tell_spent(&mut self) {
        let Some(limit) = self.gpus.limit_seconds.filter(|_| !self.gpus.told) else { return };
        self.gpus.told = true;
        let now = seconds(self.store.cache().fs().now());
        (self.sink)(Event::Stopping { why: why_stopped(&self.gpus.usage_now(), now, limit) });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cache::Access;
    use cache::fs::{Fs, MemoryFs};
    use std::sync::Arc;

    fn open(fs: &MemoryFs) -> Cache {
        Cache::open("/cache".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap()
    }

    fn a_minute_ago() -> Instant {
        Instant::now().checked_sub(Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn the_time_of_a_run_that_is_killed_has_been_counted() {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        let mut gpus = Gpus::begin(&cache, "voice", 1, None).unwrap();
        assert!(gpus.watch(&cache, Some(a_minute_ago())).unwrap());
        cache.commit().unwrap();
        let fs = fs.crash();
        let now = seconds(fs.now());
        assert!(Usage::read(&open(&fs)).unwrap().seconds(now) >= 60.0);
    }

    #[test]
    fn it_is_not_written_at_every_look() {
        let cache = open(&MemoryFs::new());
        let mut gpus = Gpus::begin(&cache, "voice", 1, None).unwrap();
        assert!(gpus.watch(&cache, Some(Instant::now())).unwrap());
        assert!(!gpus.watch(&cache, Some(Instant::now())).unwrap());
        gpus.stretch.as_mut().unwrap().written = Some(a_minute_ago());
        assert!(gpus.watch(&cache, Some(Instant::now())).unwrap());
        assert_eq!(cache.scan(USAGE).unwrap().len(), 1, "one record for one time");
    }

    #[test]
    fn times_that_no_week_reaches_any_more_are_forgotten() {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        for weeks in [1, 3] {
            let started = fs.now() - weeks * WEEK as i64 * 1_000_000_000;
            let record = UsageRecord { pipeline: "p".into(), run: 1, started, seconds: 1.0 };
            cache.record(USAGE, &record.key(), encode(&record)).unwrap();
        }
        Gpus::begin(&cache, "voice", 2, None).unwrap();
        assert_eq!(cache.scan(USAGE).unwrap().len(), 1);
    }
}
