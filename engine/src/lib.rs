//! From a pipeline to a finished run.
//!
//! A [`pipeline::Pipeline`] (the meaning of a manifest) becomes a plan (work and reasons), a schedule,
//! outcomes and artifacts.

mod allowance;
pub mod archive;
mod checkpoints;
pub mod engine;
mod entry;
pub mod error;
pub mod estimate;
pub mod event;
pub mod executor;
pub mod export;
pub mod failed_output;
mod figure;
pub mod gauge;
pub mod gc;
pub mod gpu_hours;
pub mod history;
mod leftovers;
pub mod machine;
pub mod measure;
pub mod mirror;
pub mod misplaced;
pub mod noted;
pub mod options;
pub mod plan;
pub mod reason;
pub mod record;
pub mod retry;
pub mod run;
pub mod runlog;
mod settled;
pub mod spending;
pub mod store;
mod tables;
#[cfg(test)]
mod testing;
pub mod trials;
mod unchanged;
pub mod units;
pub mod unrecorded;
pub mod work;
mod world;

pub use ::manifest;
pub use ::manifest::{pipeline, sweep};

/// The protocol between a run and the workers of its jobs, for a test that plays all sides of it
/// (`tests/simulation`).
pub mod protocol {
    pub use crate::run::jobs::batch_thread::{BatchThread, JobError};
    pub use crate::run::jobs::job_inputs::Inputs;
    pub use crate::run::jobs::open_shard::OpenShard;
    pub use crate::run::jobs::remote_jobs::shards_of_earlier;
    pub use crate::run::message::{Failure, ItemOutcome, Message, Outcome};
    pub use crate::work::{AttemptStart, JobRunner, RunNotes};
}
