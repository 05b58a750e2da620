//! The jobs of executors: batches in the remote, and the shards that are waited for.

pub mod batch_thread;
pub mod job_inputs;
pub mod open_shard;
pub mod remote_jobs;
pub mod share;
