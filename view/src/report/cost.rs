//! The cost of the run, and of making everything again.

use cache::CacheError;
use engine::gpu_hours::UsageRecord;
use engine::history;
use engine::record::{USAGE, decode};

use super::run_data::RunData;

#[derive(Debug, Default)]
pub struct Cost {
    pub stages: Vec<StageCost>,
    /// From the start to the end of the run.
    pub run_seconds: f64,
    /// All known runs of this pipeline, this one included, and their duration.
    pub runs: usize,
    pub runs_seconds: f64,
    /// The time in which GPUs were at work in this run.
    pub gpu_seconds: f64,
    pub price_per_hour: Option<f64>,
}

/// Work in seconds of one thread or worker. Stages run side by side, so the sum is not a duration.
#[derive(Debug, PartialEq)]
pub struct StageCost {
    pub stage: String,
    /// In this run.
    pub spent: f64,
    /// The time of making the present outputs, in any run.
    pub made: f64,
}

impl Cost {
    pub fn of(seen: &RunData) -> Result<Cost, CacheError> {
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

    /// The price of this time, if the manifest gives a price per hour.
    pub fn money(&self, seconds: f64) -> Option<f64> {
        self.price_per_hour.map(|price| seconds / 3600.0 * price)
    }
}
