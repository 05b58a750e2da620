//! The allowance of a run: its time (`stop_after`), its money (`budget`) and the GPU hours of the
//! week.
//!
//! Money and GPU time are written into the index while they are used. Nothing that uses them starts
//! after the limit is reached; trainings get the deadline early enough to save.

use std::time::{Duration, Instant};

use crate::event::Event;
use cache::{Cache, CacheError};

use crate::gpu_hours::{Usage, UsageRecord, WEEK, seconds, why_stopped};
use crate::pipeline::Pipeline;
use crate::record::{SPENT, USAGE, decode, encode};
use crate::spending::{MoneyBudget, Spent};

/// The shortest and the longest interval between writes of a used time: a kill loses at most that
/// time. In between, the interval is a tenth of the time written.
const OFTEN: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(10);
/// The time that a run needs after its last task.
const CLOSING: Duration = Duration::from_millis(500);
/// The part of a run's money that is held back for its last task, at most.
const SHARE: u32 = 10;
/// A shorter pause of the GPUs counts as work.
const PAUSE: Duration = Duration::from_secs(1);
/// Records of GPU time are removed when they are this much older than the counted week, in seconds.
const KEPT: f64 = 2.0 * WEEK;

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedResource {
    Money,
    Time,
    GpuHours,
}

pub struct Allowance {
    /// The end of the session.
    until: Option<Instant>,
    money: Money,
    gpus: GpuTime,
    /// The limits that have been reported.
    told: Vec<LimitedResource>,
    /// The time of the longest task so far: a batch that has begun is finished.
    longest_task: Duration,
}

/// A time that is recorded repeatedly while it lasts.
struct Interval {
    began: Instant,
    written: Option<Instant>,
}

impl Interval {
    fn since(began: Instant) -> Interval {
        Interval { began, written: None }
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// True if it should be recorded now.
    fn is_due(&self) -> bool {
        let every = (self.began.elapsed() / 10).clamp(OFTEN, SELDOM);
        self.written.is_none_or(|written| written.elapsed() >= every)
    }
}

struct Money {
    /// None without a price per hour.
    record: Option<Spent>,
    purse: Option<MoneyBudget>,
    price_per_hour: Option<f64>,
    interval: Interval,
}

struct GpuTime {
    pipeline: String,
    run: u64,
    limit_seconds: Option<f64>,
    /// The usage in the index.
    usage: Usage,
    /// The present period of GPU work.
    stretch: Option<Stretch>,
    /// No more work goes to GPUs in this run.
    is_spent: bool,
}

struct Stretch {
    record: UsageRecord,
    interval: Interval,
    /// The last time at which a GPU was busy.
    busy: Instant,
}

impl Allowance {
    /// The machine is paid for from `began` on.
    pub fn begin(
        cache: &Cache,
        pipeline: &Pipeline,
        run: u64,
        began: Instant,
        until: Option<Instant>,
    ) -> Result<Allowance, CacheError> {
        let money = Money::begin(cache, pipeline, run, began)?;
        let hours = pipeline.session.gpu_hours_per_week;
        let gpus = GpuTime::begin(cache, &pipeline.name, run, hours)?;
        let longest_task = Duration::ZERO;
        Ok(Allowance { until, money, gpus, told: Vec::new(), longest_task })
    }

    /// The first limit that work reaches, and the time at which it does. If two are reached at once,
    /// the order below decides which one is to blame.
    pub fn first(&self, cache: &Cache, on_gpu: bool) -> Option<(LimitedResource, Instant)> {
        let gpus = on_gpu.then(|| self.gpus.deadline(cache)).flatten();
        let deadlines = [
            (LimitedResource::Money, self.money.deadline()),
            (LimitedResource::Time, self.until),
            (LimitedResource::GpuHours, gpus),
        ];
        let deadlines = deadlines.into_iter().filter_map(|(limit, at)| Some((limit, at?)));
        deadlines.min_by_key(|(_, at)| *at)
    }

    /// Tests if GPUs may get no more work.
    pub fn bars_gpus(&self) -> bool {
        self.gpus.is_spent
    }

    pub fn bar_gpus(&mut self) {
        self.gpus.is_spent = true;
    }

    /// Records the money and the GPU time so far. GPUs have been busy from this time on at the
    /// latest, if they are. True if anything was recorded.
    pub fn watch(&mut self, cache: &Cache, busy: Option<Instant>) -> Result<bool, CacheError> {
        let money = self.money.interval.is_due() && self.money.write(cache)?;
        Ok(self.gpus.watch(cache, busy)? || money)
    }

    pub fn saw_task(&mut self, started: Instant) {
        self.longest_task = self.longest_task.max(started.elapsed());
    }

    /// Records the GPU time of a finished task, which becomes durable with its outcome.
    pub fn count_task(
        &mut self,
        cache: &Cache,
        started: Instant,
        is_busy: bool,
    ) -> Result<(), CacheError> {
        self.gpus.watch(cache, Some(started))?;
        self.gpus.write(cache, !is_busy)
    }

    /// Records everything at the end of a pass. True if anything was recorded.
    pub fn end_pass(&mut self, cache: &Cache) -> Result<bool, CacheError> {
        let has_gpus = self.gpus.stretch.is_some();
        self.gpus.write(cache, true)?;
        Ok(self.money.write(cache)? || has_gpus)
    }

    /// Records the final amount, after everything that takes time. It has its own commit, since the
    /// last commit of a run may take long.
    pub fn end_run(&mut self, cache: &Cache) -> Result<(), CacheError> {
        if self.money.write(cache)? { cache.commit().map(drop) } else { Ok(()) }
    }

    /// The limits of money and GPU time that are reached now.
    pub fn reached(&mut self, cache: &Cache) -> Vec<LimitedResource> {
        let is_over = self.money.is_nearly_used_up(self.longest_task + CLOSING);
        let is_spent = self.gpus.stretch.is_some() && self.gpus.has_nothing_left(cache);
        self.gpus.is_spent |= is_spent;
        let reached = [(LimitedResource::GpuHours, is_spent), (LimitedResource::Money, is_over)];
        reached.into_iter().filter(|(_, is_reached)| *is_reached).map(|(limit, _)| limit).collect()
    }

    /// The message for a reached limit, once. The end of the session is reported by its clock.
    pub fn why_stopped(&mut self, cache: &Cache, limit: LimitedResource) -> Option<String> {
        let why = match limit {
            LimitedResource::Time => None,
            LimitedResource::Money => self.money.why_stopped(),
            LimitedResource::GpuHours => self.gpus.why_stopped(cache),
        };
        if self.told.contains(&limit) {
            return None;
        }
        self.told.push(limit);
        why
    }

    /// The time and money of the run; None if neither is limited.
    pub fn event(&self) -> Option<Event> {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        let seconds_left = self.until.map(|until| left(until).as_secs_f64());
        let Money { purse, price_per_hour, .. } = self.money;
        let (spent, budget) = (purse.map(|purse| purse.spent), purse.map(|purse| purse.budget));
        (seconds_left.is_some() || price_per_hour.is_some()).then_some(Event::Session {
            seconds_left,
            price_per_hour,
            spent,
            budget,
        })
    }
}

impl Money {
    fn begin(
        cache: &Cache,
        pipeline: &Pipeline,
        run: u64,
        began: Instant,
    ) -> Result<Money, CacheError> {
        let price_per_hour = pipeline.session.price_per_hour;
        let record = price_per_hour.filter(|_| !cache.is_read_only()).map(|price_per_hour| Spent {
            pipeline: pipeline.name.clone(),
            run,
            started: cache.fs().now() - began.elapsed().as_nanos() as i64,
            seconds: 0.0,
            price_per_hour,
        });
        let purse = MoneyBudget::read(cache, pipeline)?;
        Ok(Money { record, purse, price_per_hour, interval: Interval::since(began) })
    }

    /// The time at which the budget is used up.
    fn deadline(&self) -> Option<Instant> {
        let left = Duration::try_from_secs_f64(self.purse?.left_seconds()).ok()?;
        self.interval.began.checked_add(left)
    }

    /// True if work that takes this long no longer fits. At most a tenth of the budget of this run
    /// is held back for it.
    fn is_nearly_used_up(&self, work: Duration) -> bool {
        let Some(deadline) = self.deadline() else { return false };
        let whole = deadline.saturating_duration_since(self.interval.began);
        Instant::now() + work.min(whole / SHARE) >= deadline
    }

    fn write(&mut self, cache: &Cache) -> Result<bool, CacheError> {
        let Some(record) = &mut self.record else { return Ok(false) };
        self.interval.written = Some(Instant::now());
        record.seconds = self.interval.seconds();
        cache.record(SPENT, &record.key(), encode(record))?;
        Ok(true)
    }

    fn why_stopped(&self) -> Option<String> {
        let purse = self.purse?;
        let now = self.interval.seconds() / 3600.0 * purse.price_per_hour;
        let purse = MoneyBudget { spent: purse.spent + now, ..purse };
        Some(format!("{purse}; raise `budget` to continue"))
    }
}

impl GpuTime {
    /// Reads earlier usage, and removes records that no longer matter.
    fn begin(
        cache: &Cache,
        pipeline: &str,
        run: u64,
        hours_per_week: Option<f64>,
    ) -> Result<GpuTime, CacheError> {
        let oldest = seconds(cache.fs().now()) - KEPT;
        for (key, bytes) in cache.scan(USAGE)? {
            let record: Option<UsageRecord> = decode(&bytes);
            let is_old = |record: UsageRecord| seconds(record.started) < oldest;
            if record.is_none_or(is_old) && !cache.is_read_only() {
                cache.forget(USAGE, &key)?;
            }
        }
        let mut gpus = GpuTime {
            pipeline: pipeline.to_owned(),
            run,
            limit_seconds: hours_per_week.map(|hours| hours * 3600.0),
            usage: Usage::read(cache)?,
            stretch: None,
            is_spent: false,
        };
        gpus.is_spent = gpus.has_nothing_left(cache);
        Ok(gpus)
    }

    fn usage_now(&self) -> Usage {
        match &self.stretch {
            Some(stretch) => self.usage.with(&stretch.record),
            None => self.usage.clone(),
        }
    }

    /// The seconds that are left of the limit.
    fn left(&self, cache: &Cache) -> Option<f64> {
        let limit = self.limit_seconds?;
        Some(limit - self.usage_now().seconds(seconds(cache.fs().now())))
    }

    fn has_nothing_left(&self, cache: &Cache) -> bool {
        self.left(cache).is_some_and(|left| left <= 0.0)
    }

    /// The time at which work that begins on a GPU now reaches the limit.
    fn deadline(&self, cache: &Cache) -> Option<Instant> {
        let left = Duration::try_from_secs_f64(self.left(cache)?.max(0.0)).ok()?;
        Instant::now().checked_add(left)
    }

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
                interval: Interval::since(since),
                busy: now,
            });
            stretch.busy = now;
            stretch.record.seconds = stretch.interval.seconds();
        }
        let Some(stretch) = &self.stretch else { return Ok(false) };
        let is_over = now - stretch.busy > PAUSE;
        if !is_over && !stretch.interval.is_due() {
            return Ok(false);
        }
        self.write(cache, is_over)?;
        Ok(true)
    }

    fn write(&mut self, cache: &Cache, is_over: bool) -> Result<(), CacheError> {
        let Some(stretch) = &mut self.stretch else { return Ok(()) };
        stretch.interval.written = Some(Instant::now());
        cache.record(USAGE, &stretch.record.key(), encode(&stretch.record))?;
        if is_over {
            self.stretch = None;
        }
        // Other processes on this cache count too.
        self.usage = Usage::read(cache)?;
        Ok(())
    }

    fn why_stopped(&self, cache: &Cache) -> Option<String> {
        let now = seconds(cache.fs().now());
        Some(why_stopped(&self.usage_now(), now, self.limit_seconds?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::spending::spent;
    use crate::testing::pipeline;
    use cache::Access;
    use cache::fs::{Fs, MemoryFs};
    use std::sync::Arc;

    const HOUR: Duration = Duration::from_secs(3600);

    fn open(fs: &MemoryFs) -> Cache {
        Cache::open("/cache".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap()
    }

    fn a_minute_ago() -> Instant {
        Instant::now().checked_sub(Duration::from_secs(60)).unwrap()
    }

    /// A run that began a minute ago at 60 an hour, with this session.
    fn allowance(cache: &Cache, session: &str, until: Option<Instant>) -> Allowance {
        let text = format!(
            "[pipeline]\nname = \"voice\"\n\n[session]\nprice_per_hour = 60.0\n{session}\n"
        );
        Allowance::begin(cache, &pipeline(&text), 1, a_minute_ago(), until).unwrap()
    }

    #[test]
    fn a_killed_run_has_counted_its_money_and_its_gpu_time() {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        let mut allowance = allowance(&cache, "", None);
        assert!(allowance.watch(&cache, Some(a_minute_ago())).unwrap());
        cache.commit().unwrap();
        let fs = fs.crash();
        let (cache, now) = (open(&fs), seconds(fs.now()));
        assert!(Usage::read(&cache).unwrap().seconds(now) >= 60.0);
        assert!(spent(&cache, "voice").unwrap() >= 1.0);
    }

    #[test]
    fn used_time_is_not_written_at_every_look_and_is_one_record() {
        let cache = open(&MemoryFs::new());
        let mut allowance = allowance(&cache, "", None);
        assert!(allowance.watch(&cache, Some(Instant::now())).unwrap());
        assert!(!allowance.watch(&cache, Some(Instant::now())).unwrap());
        allowance.gpus.stretch.as_mut().unwrap().interval.written = Some(a_minute_ago());
        assert!(allowance.watch(&cache, Some(Instant::now())).unwrap());
        allowance.money.interval.written = Some(a_minute_ago());
        assert!(allowance.watch(&cache, None).unwrap());
        assert_eq!(cache.scan(USAGE).unwrap().len(), 1);
        assert_eq!(cache.scan(SPENT).unwrap().len(), 1);
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
        GpuTime::begin(&cache, "voice", 2, None).unwrap();
        assert_eq!(cache.scan(USAGE).unwrap().len(), 1);
    }

    #[test]
    fn the_limit_that_is_reached_first_is_to_blame() {
        let cache = open(&MemoryFs::new());
        let first = |session: &str, until: Duration, on_gpu: bool| {
            let allowance = allowance(&cache, session, Instant::now().checked_add(until));
            allowance.first(&cache, on_gpu).map(|(limit, _)| limit)
        };
        // Ten hours of money, and two hours of GPU time.
        let session = "budget = 600.0\ngpu_hours_per_week = 2.0";
        assert_eq!(first(session, HOUR, true), Some(LimitedResource::Time));
        assert_eq!(first(session, 5 * HOUR, true), Some(LimitedResource::GpuHours));
        assert_eq!(first(session, 5 * HOUR, false), Some(LimitedResource::Time));
        assert_eq!(first(session, 20 * HOUR, false), Some(LimitedResource::Money));
        assert_eq!(allowance(&cache, "", None).first(&cache, true), None);
    }

    #[test]
    fn no_task_begins_that_the_money_does_not_last_for() {
        let cache = open(&MemoryFs::new());
        // Sixty seconds are used, and the money lasts for ninety: a tenth of them is nine.
        for (seconds, is_reached) in [(0, false), (20, false), (28, true)] {
            let mut allowance = allowance(&cache, "budget = 1.5", None);
            allowance.money.interval.began -= Duration::from_secs(seconds);
            assert_eq!(!allowance.reached(&cache).is_empty(), seconds >= 30, "{seconds}");
            allowance.longest_task = Duration::from_secs(5);
            assert_eq!(!allowance.reached(&cache).is_empty(), is_reached, "{seconds}");
        }
    }

    #[test]
    fn a_reached_limit_is_told_once() {
        let cache = open(&MemoryFs::new());
        // A minute costs 1, which is all the money.
        let mut allowance = allowance(&cache, "budget = 0.5\ngpu_hours_per_week = 0.01", None);
        allowance.watch(&cache, Some(a_minute_ago())).unwrap();
        assert_eq!(allowance.reached(&cache), [LimitedResource::GpuHours, LimitedResource::Money]);
        assert!(allowance.bars_gpus());
        for (limit, part) in
            [(LimitedResource::Money, "budget"), (LimitedResource::GpuHours, "gpus used")]
        {
            let why = allowance.why_stopped(&cache, limit).unwrap().to_lowercase();
            assert!(why.contains(part), "{why}");
            assert_eq!(allowance.why_stopped(&cache, limit), None);
        }
    }
}
