//! GPU hours, counted over runs, processes and machines that share a cache or pass it on, and the
//! rest of a weekly limit.
//!
//! Time counts while any GPU is at work: two GPUs at once for an hour are one hour, as platforms
//! count that give sessions by the week. The week is the last seven days.

use cache::{Cache, CacheError, Digest};
use serde::{Deserialize, Serialize};
use stage_core::key::{HashSink, Sink};

use crate::record::{USAGE, decode};
use crate::units;

const DAY: f64 = 86_400.0;
/// The period of the limit, in seconds.
pub const WEEK: f64 = 7.0 * DAY;

/// A period in which a run had GPUs at work, written repeatedly while it lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsageRecord {
    pub pipeline: String,
    pub run: u64,
    /// Nanoseconds since 1970 by the machine's clock.
    pub started: i64,
    pub seconds: f64,
}

impl UsageRecord {
    pub fn key(&self) -> Digest {
        let mut sink = HashSink::default();
        sink.text("GPUs at work for", &self.pipeline);
        sink.integer("run", self.run as i64);
        sink.integer("started", self.started);
        sink.finish()
    }

    fn stretch(&self) -> (f64, f64) {
        let start = seconds(self.started);
        (start, start + self.seconds.max(0.0))
    }
}

/// Periods of GPU work, as start and end in seconds since 1970: ordered, without overlaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage(Vec<(f64, f64)>);

impl Usage {
    pub fn read(cache: &Cache) -> Result<Usage, CacheError> {
        let records = cache.scan(USAGE)?;
        let records = records.iter().filter_map(|(_, bytes)| decode::<UsageRecord>(bytes));
        Ok(records.map(|record| record.stretch()).collect())
    }

    /// Adds a period that may not be recorded yet.
    pub fn with(&self, record: &UsageRecord) -> Usage {
        self.0.iter().copied().chain([record.stretch()]).collect()
    }

    /// The seconds in the seven days before a time. Periods after it, from a wrong clock, count
    /// too.
    pub fn seconds(&self, now: f64) -> f64 {
        self.0.iter().map(|(start, end)| (end - start.max(now - WEEK)).max(0.0)).sum()
    }

    /// The time at which usage falls below the limit again, and the seconds that become free in the
    /// day after it. `None` if nothing was used.
    fn comes_free(&self, now: f64, limit: f64) -> Option<(f64, f64)> {
        let mut over = (self.seconds(now) - limit).max(0.0);
        for (start, end) in self.0.iter().filter(|(_, end)| *end > now - WEEK) {
            let start = start.max(now - WEEK);
            if over < end - start {
                let at = start + over + WEEK;
                return Some((at, self.seconds(at) - self.seconds(at + DAY)));
            }
            over -= end - start;
        }
        None
    }
}

impl FromIterator<(f64, f64)> for Usage {
    fn from_iter<T: IntoIterator<Item = (f64, f64)>>(stretches: T) -> Usage {
        let mut stretches: Vec<(f64, f64)> = stretches.into_iter().collect();
        stretches.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut merged: Vec<(f64, f64)> = Vec::with_capacity(stretches.len());
        for (start, end) in stretches {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Usage(merged)
    }
}

/// Converts nanoseconds to seconds.
pub fn seconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// The weekly limit and the usage at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WeeklyBudget {
    pub used_seconds: f64,
    pub limit_seconds: f64,
}

impl WeeklyBudget {
    pub fn read(cache: &Cache, limit_seconds: f64) -> Result<WeeklyBudget, CacheError> {
        let now = seconds(cache.fs().now());
        Ok(WeeklyBudget { used_seconds: Usage::read(cache)?.seconds(now), limit_seconds })
    }

    pub fn left_seconds(&self) -> f64 {
        (self.limit_seconds - self.used_seconds).max(0.0)
    }
}

impl std::fmt::Display for WeeklyBudget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [used, limit, left] =
            [self.used_seconds, self.limit_seconds, self.left_seconds()].map(units::seconds);
        write!(formatter, "GPUs in the last 7 days: {used} of {limit} used, {left} left")
    }
}

/// The message for a stop at the limit, and the time at which work can continue.
pub fn why_stopped(usage: &Usage, now: f64, limit: f64) -> String {
    let [used, limit_text] = [usage.seconds(now), limit].map(units::seconds);
    let free = match usage.comes_free(now, limit) {
        Some((at, amount)) => {
            let (amount, date) = (units::seconds(amount), units::date(at.ceil() as i64));
            format!("{amount} more available within a day from {date}")
        }
        None => "raise `gpu_hours_per_week` to use GPUs".to_owned(),
    };
    format!("GPUs used {used} of their {limit_text} weekly limit: {free}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: f64 = 3600.0;
    const NOW: f64 = 1_700_000_000.0;

    fn usage(hours: &[(f64, f64)]) -> Usage {
        hours.iter().map(|(ago, long)| (NOW - ago * HOUR, NOW - (ago - long) * HOUR)).collect()
    }

    #[test]
    fn two_gpus_at_once_are_one_hour_in_an_hour() {
        let usage = usage(&[(10.0, 2.0), (9.0, 2.0), (10.0, 1.0), (3.0, 1.0)]);
        assert_eq!(usage.seconds(NOW), 4.0 * HOUR);
    }

    #[test]
    fn what_is_older_than_seven_days_is_free_again() {
        let usage = usage(&[(170.0, 12.0), (24.0, 6.0)]);
        assert_eq!(usage.seconds(NOW), 16.0 * HOUR);
        assert_eq!(usage.seconds(NOW + 4.0 * HOUR), 12.0 * HOUR);
        assert_eq!(usage.seconds(NOW + WEEK), 0.0);
    }

    #[test]
    fn it_is_told_when_how_many_hours_come_free() {
        let usage = usage(&[(100.0, 12.0), (60.0, 12.0), (8.0, 8.0)]);
        // Two hours over the limit: they have to leave the week first.
        let (at, amount) = usage.comes_free(NOW, 30.0 * HOUR).unwrap_or_default();
        assert_eq!((at - NOW) / HOUR, 168.0 - 100.0 + 2.0);
        assert_eq!(amount, 10.0 * HOUR);
        let told = why_stopped(&usage, NOW, 30.0 * HOUR);
        assert_eq!(
            told,
            "GPUs used 32h00m of their 30h00m weekly limit: 10h00m more available within a day \
             from 2023-11-17 20:13 UTC"
        );
    }

    #[test]
    fn a_limit_of_nothing_needs_no_usage() {
        let told = why_stopped(&Usage::default(), NOW, 0.0);
        assert!(told.ends_with("raise `gpu_hours_per_week` to use GPUs"), "{told}");
    }
}
