//! The money that the runs of a pipeline have cost, by the hourly price of their machines, counted
//! over runs and machines that share a cache or pass it on.

use cache::{Cache, CacheError, Digest};
use serde::{Deserialize, Serialize};
use stage_core::key::{HashSink, Sink};

use crate::record::{SPENT, decode};

/// The cost of a run so far, written repeatedly while it lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    pub pipeline: String,
    pub run: u64,
    /// Nanoseconds since 1970 by the machine's clock.
    pub started: i64,
    pub seconds: f64,
    pub price_per_hour: f64,
}

impl Spent {
    pub fn key(&self) -> Digest {
        let mut sink = HashSink::default();
        sink.text("money for", &self.pipeline);
        sink.integer("run", self.run as i64);
        sink.integer("started", self.started);
        sink.finish()
    }

    pub fn money(&self) -> f64 {
        self.seconds.max(0.0) / 3600.0 * self.price_per_hour
    }
}

/// The cost of all runs of a pipeline.
pub fn spent(cache: &Cache, pipeline: &str) -> Result<f64, CacheError> {
    let records = cache.scan(SPENT)?;
    let records = records.iter().filter_map(|(_, bytes)| decode::<Spent>(bytes));
    let own = records.filter(|spent| spent.pipeline == pipeline);
    // The sum of no values would be -0.0.
    Ok(own.fold(0.0, |sum, spent| sum + spent.money()))
}

/// A budget, and the used part of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MoneyBudget {
    pub spent: f64,
    pub budget: f64,
    pub price_per_hour: f64,
}

impl MoneyBudget {
    /// The budget of a pipeline with a budget and a price.
    pub fn read(
        cache: &Cache,
        pipeline: &crate::pipeline::Pipeline,
    ) -> Result<Option<MoneyBudget>, CacheError> {
        let session = &pipeline.session;
        let (Some(budget), Some(price_per_hour)) = (session.budget, session.price_per_hour) else {
            return Ok(None);
        };
        let spent = spent(cache, &pipeline.name)?;
        Ok(Some(MoneyBudget { spent, budget, price_per_hour }))
    }

    pub fn left(&self) -> f64 {
        (self.budget - self.spent).max(0.0)
    }

    /// The time until the budget is used up; infinite if an hour costs nothing.
    pub fn left_seconds(&self) -> f64 {
        if self.price_per_hour > 0.0 {
            self.left() / self.price_per_hour * 3600.0
        } else {
            f64::INFINITY
        }
    }
}

impl std::fmt::Display for MoneyBudget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MoneyBudget { spent, budget, price_per_hour } = self;
        let left = self.left();
        write!(
            formatter,
            "budget: {spent:.2} of {budget:.2} spent, {left:.2} left at {price_per_hour:.2} an hour"
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::record::encode;
    use cache::Access;
    use cache::fs::MemoryFs;
    use std::sync::Arc;

    #[test]
    fn only_runs_of_the_same_pipeline_count() {
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
        for (pipeline, run, hours) in [("a", 1, 2.0), ("a", 2, 0.5), ("b", 3, 10.0)] {
            let (pipeline, seconds) = (pipeline.to_owned(), hours * 3600.0);
            let spent = Spent { pipeline, run, started: 0, seconds, price_per_hour: 1.2 };
            cache.record(SPENT, &spent.key(), encode(&spent)).unwrap();
        }
        assert_eq!(spent(&cache, "a").unwrap(), 3.0);
    }

    #[test]
    fn what_is_left_lasts_as_long_as_the_price_says() {
        let purse = MoneyBudget { spent: 4.0, budget: 5.0, price_per_hour: 2.0 };
        assert_eq!((purse.left(), purse.left_seconds()), (1.0, 1800.0));
        assert_eq!(MoneyBudget { spent: 6.0, ..purse }.left_seconds(), 0.0);
        assert_eq!(MoneyBudget { price_per_hour: 0.0, ..purse }.left_seconds(), f64::INFINITY);
    }
}
