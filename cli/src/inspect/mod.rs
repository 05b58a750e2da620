//! Commands that show a pipeline, its plan and its results, and run nothing.

pub mod catalogue;
pub mod diff;
pub mod graph;
pub mod items;
pub mod job_logs;
pub mod jobs;
pub mod log;
pub mod plan;
pub mod report;
pub mod why;
