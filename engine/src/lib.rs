//! From a manifest to a finished run.
//!
//! Text becomes a `Manifest` (as written), a [`pipeline::Pipeline`] (resolved and typed), a plan
//! (work and reasons), a schedule, outcomes and artifacts.

mod allowance;
pub mod archive;
mod checkpoints;
pub mod engine;
mod entry;
pub mod error;
pub mod estimate;
pub mod excess;
pub mod executor;
pub mod export;
pub mod gauge;
pub mod gc;
pub mod gpu_hours;
pub mod history;
mod leftovers;
pub mod machine;
pub mod manifest;
pub mod measure;
pub mod mirror;
pub mod misplaced;
pub mod options;
pub mod pipeline;
pub mod plan;
pub mod reason;
pub mod record;
pub mod retry;
pub mod run;
pub mod runlog;
mod settled;
#[cfg(test)]
mod simulation;
pub mod spending;
pub mod store;
pub mod sweep;
mod tables;
pub mod trials;
mod unchanged;
pub mod units;
pub mod work;
mod world;
