//! The pace of a running stage, and the time left at that pace.

use std::time::{Duration, Instant};

use engine::units;

/// A pace from fewer results is chance: threads finish their first items at the same time.
const MIN_RESULTS: u64 = 2;

/// The reports of progress of a stage.
///
/// The time before its first result says nothing about the others: a program starts, or others had the
/// threads. So the pace counts from the first result on, and what was reused counts only in stages that
/// report nothing else, such as trainings.
#[derive(Debug)]
pub struct Pace {
    pub done: u64,
    pub total: u64,
    started: Instant,
    worked: Amount,
    /// The work and the time from which on the pace counts.
    from: Option<(Amount, Instant)>,
}

/// The amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Done(u64),
    Executed(u64),
}

impl Amount {
    /// The work since then; none if that was counted otherwise.
    fn since(self, from: Amount) -> Option<u64> {
        match (self, from) {
            (Amount::Done(now), Amount::Done(then))
            | (Amount::Executed(now), Amount::Executed(then)) => Some(now.saturating_sub(then)),
            _ => None,
        }
    }
}

impl Pace {
    /// The pace of a stage that has started.
    pub fn since(started: Instant) -> Pace {
        Pace { done: 0, total: 0, started, worked: Amount::Done(0), from: None }
    }

    pub fn observe(&mut self, (done, total): (u64, u64), executed: u64, now: Instant) {
        (self.done, self.total) = (done, total);
        self.worked = match executed {
            0 => Amount::Done(done),
            executed => Amount::Executed(executed),
        };
        let is_known = |(from, _): (Amount, Instant)| self.worked.since(from).is_some();
        if !self.from.is_some_and(is_known) {
            self.from = Some((self.worked, now));
        }
    }

    pub fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    pub fn rate(&self, now: Instant) -> Rate {
        let per_second = self.from.and_then(|(from, since)| {
            let worked = self.worked.since(from).filter(|worked| *worked >= MIN_RESULTS)?;
            let seconds = now.saturating_duration_since(since).as_secs_f64();
            (seconds > 0.0).then(|| worked as f64 / seconds)
        });
        Rate { done: self.done, total: self.total, per_second, elapsed: self.elapsed(now) }
    }
}

/// The progress of a stage, its speed, and the time left at that speed.
#[derive(Debug)]
pub struct Rate {
    pub done: u64,
    pub total: u64,
    /// None while it is not known.
    pub per_second: Option<f64>,
    pub elapsed: Duration,
}

impl Rate {
    pub fn left(&self) -> Option<f64> {
        let open = self.total.saturating_sub(self.done) as f64;
        self.per_second.map(|per_second| open / per_second)
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} of {}", units::count(self.done), units::count(self.total))?;
        match (self.per_second, self.left()) {
            (Some(per_second), Some(left)) => {
                write!(formatter, ", {per_second:.1}/s, {} left", units::seconds(left))
            }
            _ => write!(formatter, ", {} so far", units::seconds(self.elapsed.as_secs_f64())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The rates of a stage, from reports of its finished and executed items after so many seconds.
    fn rates(reports: &[(u32, u64, u64)]) -> Vec<String> {
        let begun = Instant::now();
        let mut pace = Pace::since(begun);
        let mut rate = |(seconds, done, executed): &(u32, u64, u64)| {
            let now = begun + *seconds * SECOND;
            pace.observe((*done, 570), *executed, now);
            pace.rate(now).to_string()
        };
        reports.iter().map(&mut rate).collect()
    }

    #[test]
    fn the_time_left_follows_from_the_pace() {
        let rate =
            Rate { done: 100, total: 400, per_second: Some(2.0), elapsed: Duration::from_secs(50) };
        assert_eq!(rate.to_string(), "100 of 400, 2.0/s, 2m30s left");
    }

    #[test]
    fn the_time_before_the_first_result_does_not_count() {
        let told = rates(&[(12, 1, 1), (13, 301, 301)]);
        assert_eq!(told[0], "1 of 570, 12.0 s so far");
        assert_eq!(told[1], "301 of 570, 300.0/s, 0.90 s left");
    }

    #[test]
    fn reused_items_are_no_pace_of_new_ones() {
        let told = rates(&[(1, 400, 0), (2, 500, 0), (20, 501, 1), (30, 511, 11)]);
        assert!(told[2].ends_with("so far"), "{told:?}");
        assert_eq!(told[3], "511 of 570, 1.0/s, 59.0 s left");
    }

    #[test]
    fn the_steps_of_a_training_count_from_its_first_report() {
        let told = rates(&[(5, 100, 0), (15, 120, 0)]);
        assert_eq!(told[1], "120 of 570, 2.0/s, 3m45s left");
    }
}
