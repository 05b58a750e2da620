//! The cost of a run against the budget: written into the ledger during the run. When the budget is
//! used up, nothing new starts. Training is told early enough to save.

use std::time::{Duration, Instant};

use cache::{Cache, CacheError};
use stage_core::event::Event;

use super::schedule::Schedule;
use crate::engine::EngineError;
use crate::pipeline::Pipeline;
use crate::record::{SPENT, encode};
use crate::spending::{Purse, Spent};

/// The shortest and the longest interval between writes of the cost: a kill loses at most that
/// part. In between, the interval is a tenth of the time written.
const OFTEN: Duration = Duration::from_millis(500);
const SELDOM: Duration = Duration::from_secs(10);

pub struct Spending {
    /// None without a price per hour.
    record: Option<Spent>,
    purse: Option<Purse>,
    began: Instant,
    written: Option<Instant>,
    told: bool,
}

impl Spending {
    /// The machine is paid for from `began` on.
    pub fn begin(
        cache: &Cache,
        pipeline: &Pipeline,
        run: u64,
        began: Instant,
    ) -> Result<Spending, CacheError> {
        let price = pipeline.session.price_per_hour.filter(|_| !cache.is_read_only());
        let record = price.map(|price_per_hour| Spent {
            pipeline: pipeline.name.clone(),
            run,
            started: cache.fs().now() - began.elapsed().as_nanos() as i64,
            seconds: 0.0,
            price_per_hour,
        });
        let purse = Purse::read(cache, pipeline)?;
        Ok(Spending { record, purse, began, written: None, told: false })
    }

    /// The time at which the budget is used up.
    pub fn deadline(&self) -> Option<Instant> {
        let left = Duration::try_from_secs_f64(self.purse?.left_seconds()).ok()?;
        self.began.checked_add(left)
    }

    fn is_over(&self) -> bool {
        self.deadline().is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Records the final amount, after everything that takes time; true if something was recorded.
    /// It has its own commit, since the last commit of a run may take long.
    pub fn end(&mut self, cache: &Cache) -> Result<(), CacheError> {
        match self.write(cache, true)? {
            true => cache.commit().map(drop),
            false => Ok(()),
        }
    }

    fn write(&mut self, cache: &Cache, is_end: bool) -> Result<bool, CacheError> {
        let share = self.began.elapsed() / 10;
        let every = share.clamp(OFTEN, SELDOM);
        let is_due = self.written.is_none_or(|written| written.elapsed() >= every);
        let Some(record) = self.record.as_mut().filter(|_| is_due || is_end) else {
            return Ok(false);
        };
        self.written = Some(Instant::now());
        record.seconds = self.began.elapsed().as_secs_f64();
        cache.record(SPENT, &record.key(), encode(record))?;
        Ok(true)
    }

    /// Reports once that the money is used up.
    fn why_stopped(&mut self) -> Option<String> {
        let purse = self.purse.filter(|_| !self.told)?;
        self.told = true;
        let now = self.began.elapsed().as_secs_f64() / 3600.0 * purse.price_per_hour;
        let purse = Purse { spent: purse.spent + now, ..purse };
        Some(format!("{purse}; raise `budget` to continue"))
    }
}

impl Schedule<'_> {
    /// Reports the time and money of a run; nothing if neither is limited.
    pub fn tell_session(&mut self) {
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        let seconds_left = self.options.deadline.map(|deadline| left(deadline).as_secs_f64());
        let price_per_hour = self.pipeline.session.price_per_hour;
        let purse = self.spending.purse;
        let (spent, budget) = (purse.map(|purse| purse.spent), purse.map(|purse| purse.budget));
        if seconds_left.is_some() || price_per_hour.is_some() {
            (self.sink)(Event::Session { seconds_left, price_per_hour, spent, budget });
        }
    }

    /// Updates the cost; stops the run when the budget is used up.
    pub fn watch_spending(&mut self) -> Result<(), EngineError> {
        if self.spending.write(self.store.cache(), false)? {
            self.committer.note(Vec::new());
        }
        if self.spending.is_over() {
            self.stop_for_budget();
        }
        Ok(())
    }

    fn stop_for_budget(&mut self) {
        if let Some(why) = self.spending.why_stopped() {
            (self.sink)(Event::Stopping { why });
        }
        self.options.stop.request_after_batch();
    }

    /// Training has saved and stopped by itself, since the money would not have lasted for a later
    /// save.
    pub fn has_saved_for_budget(&mut self) {
        let others = [self.options.deadline, self.gpus.deadline(self.store.cache())];
        let is_first = |budget: Instant| others.iter().flatten().all(|other| budget <= *other);
        let stop = self.options.stop.is_requested() || self.unable;
        if !stop && self.spending.deadline().is_some_and(is_first) {
            self.stop_for_budget();
        }
    }

    pub fn end_spending(&mut self) -> Result<(), EngineError> {
        if self.spending.write(self.store.cache(), true)? {
            self.committer.note(Vec::new());
        }
        Ok(())
    }
}
