//! The jobs of a pass that run on other machines: the threads that wait for them, and the claims on
//! their work.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use cache::fs::{Fs, RealFs};
use cache::{Cache, CacheError, Claim, Digest};
use stage_core::key::{HashSink, Sink as _};

use super::batch_thread::BatchThread;
use crate::engine::{Engine, EngineError, StopFlag};
use crate::estimate::Estimate;
use crate::executor::batch::{Batch, BatchWork};
use crate::executor::queue::Queue;
use crate::executor::split::SECONDS;
use crate::pipeline::{Pipeline, StageId, StageSpec};
use crate::plan::Plan;

pub struct RemoteJobs {
    /// Stops the threads.
    stop: StopFlag,
    /// The threads that wait for jobs, by their batches.
    threads: HashMap<Digest, JoinHandle<()>>,
    /// The claims on the work, until the last commit of the run: who has one sees all outcomes of the
    /// run before it.
    claims: HashMap<Digest, Claim>,
    /// The expected time of an item of each stage on an executor.
    seconds: HashMap<StageId, f64>,
    /// The queue of Slurm.
    queue: Arc<Queue>,
}

impl RemoteJobs {
    pub fn new(pipeline: &Pipeline, expected: Option<&Estimate>) -> RemoteJobs {
        RemoteJobs {
            stop: StopFlag::default(),
            threads: HashMap::new(),
            claims: HashMap::new(),
            seconds: expected.map_or_else(HashMap::new, |expected| seconds(pipeline, expected)),
            queue: Arc::default(),
        }
    }

    pub fn stop(&self) -> &StopFlag {
        &self.stop
    }

    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// The expected time of an item of a stage.
    pub fn seconds(&self, id: StageId) -> f64 {
        self.seconds.get(&id).copied().unwrap_or(SECONDS)
    }

    /// Claims the jobs of a stage until the last commit of the run; false if another run has them.
    /// Jobs claim the work itself, and may share this cache.
    pub fn claim(&mut self, cache: &Cache, key: &Digest) -> Result<bool, CacheError> {
        let mut sink = HashSink::default();
        sink.digest("jobs for the work", key);
        let bytes = sink.finish();
        let bytes = bytes.as_bytes().first_chunk().copied().unwrap_or_default();
        let number = u64::from_le_bytes(bytes);
        if !self.claims.contains_key(key) {
            // A number, since it is held for long.
            let Some(claim) = cache.claim_number(number)? else { return Ok(false) };
            self.claims.insert(*key, claim);
        }
        Ok(true)
    }

    /// Tests if a thread waits for the jobs of a batch.
    pub fn is_at_work(&self, batch: &Digest) -> bool {
        self.threads.contains_key(batch)
    }

    pub fn start(&mut self, thread: BatchThread) -> io::Result<()> {
        let batch = thread.id;
        let handle = Builder::new().name("jobs".into()).spawn(move || thread.work())?;
        self.threads.insert(batch, handle);
        Ok(())
    }

    /// Waits for the threads: after their last task, they still tell that the batch has ended.
    pub fn join(&mut self) {
        for thread in std::mem::take(&mut self.threads).into_values() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }

    pub fn into_claims(self) -> impl Iterator<Item = Claim> {
        self.claims.into_values()
    }
}

/// The expected time of an item of each stage on an executor.
fn seconds(pipeline: &Pipeline, expected: &Estimate) -> HashMap<StageId, f64> {
    let away = expected.in_order(pipeline).filter(|(spec, _)| spec.policy.executor.is_some());
    let each = away.filter_map(|(spec, stage)| {
        let seconds = stage.seconds?.likely / stage.items.max(1) as f64;
        Some((spec.id, seconds))
    });
    each.collect()
}

/// Fails if stages with work run on an executor and the folder of the remote does not exist: jobs
/// would have no batch. A share that is not mounted must not be created here.
pub fn require_remote(
    engine: &Engine,
    pipeline: &Pipeline,
    plan: &Plan,
) -> Result<(), EngineError> {
    let has_work = |spec: &&StageSpec| {
        let stage = &plan.stages[spec.id.0];
        spec.policy.executor.is_some() && stage.executed + stage.pending > 0
    };
    let Some(spec) = pipeline.stages.iter().find(has_work) else { return Ok(()) };
    let address = engine.remote.as_ref().map(|remote| remote.address());
    let Some(folder) = address.and_then(|address| address.folder()) else { return Ok(()) };
    match RealFs.metadata(&folder) {
        Ok(about) if about.is_dir() => Ok(()),
        // Other errors may pass.
        Err(error) if !error.is_not_found() => Ok(()),
        _ => Err(EngineError::Unready {
            message: format!(
                "stage `{}` runs on an executor, and the folder `{folder}` of the remote does not exist",
                spec.name
            ),
            help: "mount the share, or create the folder".to_owned(),
        }),
    }
}

/// Takes the items of each shard of an earlier batch out of the pending ones.
pub fn shards_of_earlier<T>(batch: &Batch, left: &mut HashMap<Digest, T>) -> Vec<Vec<T>> {
    let BatchWork::Items(shards) = &batch.work else { return Vec::new() };
    let mut take = |keys: &Vec<Digest>| keys.iter().filter_map(|key| left.remove(key)).collect();
    shards.iter().map(&mut take).collect()
}
