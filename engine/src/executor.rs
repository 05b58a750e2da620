//! Executors: other places where the work of a stage runs, as jobs of `throstle work`.
//!
//! The truth is in the remote store, never in a scheduler: a job is done when its result is there.
//! A scheduler only starts processes, and may start one twice, forget it, or report it wrongly.
//! `batch` has the records that engine and workers exchange, `own` the batches of this machine, `split`
//! and `decide` the decisions without input and output, `state` what is known about jobs, and the other
//! modules the programs that start jobs.

pub mod batch;
mod command;
pub mod decide;
pub mod jobs;
pub mod own;
mod process;
pub mod queue;
mod slurm;
pub mod split;
pub mod state;
pub mod submit;
