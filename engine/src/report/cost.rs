//! What the run cost, and what it would cost to make everything again.

use cache::CacheError;

use super::seen::Seen;
use crate::gpu_hours::UsageRecord;
use crate::history;
use crate::record::{USAGE, decode};

#[derive(Debug, Default)]
pub struct Cost {
    pub stages: Vec<StageCost>,
    /// From the beginning to the end of the run.
    pub run_seconds: f64,
    /// All runs of this pipeline that the cache knows of, this one included, and how long they
    /// took.
    pub runs: usize,
    pub runs_seconds: f64,
    /// In which GPUs were at work, in this run.
    pub gpu_seconds: f64,
    pub price_per_hour: Option<f64>,
}

/// Work in seconds: of one thread, or of the worker that had it. Stages run side by side, so their
/// sum is no length of time.
#[derive(Debug, PartialEq)]
pub struct StageCost {
    pub stage: String,
    /// In this run.
    pub spent: f64,
    /// When what there is was made, in whichever run.
    pub made: f64,
}

impl Cost {
    pub fn of(seen: &Seen) -> Result<Cost, CacheError> {
        let cache = seen.store.cache();
        let runs = history::runs(cache)?;
        let own = || runs.iter().filter(|run| run.pipeline == seen.pipeline.name);
        let stages = seen.stages.iter().map(|stage| StageCost {
            stage: stage.spec.name.clone(),
            spent: stage.counts.seconds,
            made: stage.outcome.as_ref().map_or(0.0, |outcome| outcome.seconds),
        });
        let usage = cache.scan(USAGE)?;
        let usage = usage.iter().filter_map(|(_, bytes)| decode::<UsageRecord>(bytes));
        let in_this = usage.filter(|record| record.run == seen.run.run);
        Ok(Cost {
            stages: stages.collect(),
            run_seconds: seen.run.seconds,
            runs: own().count(),
            runs_seconds: own().map(|run| run.seconds).sum(),
            gpu_seconds: in_this.map(|record| record.seconds).sum(),
            price_per_hour: seen.pipeline.session.price_per_hour,
        })
    }

    /// What so much time costs, where the manifest says what an hour does.
    pub fn money(&self, seconds: f64) -> Option<f64> {
        self.price_per_hour.map(|price| seconds / 3600.0 * price)
    }
}
