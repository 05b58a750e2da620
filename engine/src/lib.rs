//! From a pipeline to a finished run.
//!
//! A [`pipeline::Pipeline`] (the meaning of a manifest) becomes a plan (work and reasons), a schedule,
//! outcomes and artifacts.

mod allowance;
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
mod ledger;
pub mod machine;
pub mod options;
pub mod plan;
pub mod reason;
pub mod retry;
pub mod run;
mod settled;
pub mod store;
mod tables;
#[cfg(test)]
mod testing;
pub mod trials;
mod unchanged;
pub mod units;
mod upkeep;
pub mod work;
mod world;

pub use ::manifest;
pub use ::manifest::{pipeline, sweep};
pub use ledger::{gpu_hours, history, measure, noted, record, runlog, spending, unrecorded};
pub(crate) use upkeep::leftovers;
pub use upkeep::{archive, gc, mirror, misplaced};

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
