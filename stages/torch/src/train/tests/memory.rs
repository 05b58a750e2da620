//! A host that keeps everything in memory and can end a training at any moment.

use std::collections::HashMap;

use cache::Digest;
use stage_core::{Blob, StageError};
use tch::Tensor;

use crate::train::{Checkpoint, Host};

/// The data that survives the end of a run.
#[derive(Default)]
pub struct MemoryHost {
    tensors: HashMap<Digest, Tensor>,
    pub checkpoint: Option<Checkpoint>,
    pub commits: usize,
    pub kept: usize,
    pub reports: Vec<(u64, String, f64)>,
    /// The number of stop questions in this run.
    pub asked: usize,
    /// Requests a stop from this question on.
    pub stop_at: Option<usize>,
    /// Dies, without a chance to save, at this call.
    pub die_at: Option<usize>,
    calls: usize,
    tick: f64,
    now: f64,
}

impl MemoryHost {
    /// With a clock that advances by some seconds at each look.
    pub fn with_clock(tick: f64) -> MemoryHost {
        MemoryHost { tick, ..MemoryHost::default() }
    }

    /// The data for the next run.
    pub fn survive(&mut self) {
        (self.asked, self.calls, self.stop_at, self.die_at) = (0, 0, None, None);
    }

    pub fn values(&self, name: &str) -> Vec<f64> {
        let own = self.reports.iter().filter(|(_, own, _)| own == name);
        own.map(|(_, _, value)| *value).collect()
    }

    fn live(&mut self) -> Result<(), StageError> {
        self.calls += 1;
        match self.die_at {
            Some(at) if self.calls > at => Err(StageError::failed("killed")),
            _ => Ok(()),
        }
    }
}

impl Host for MemoryHost {
    fn keep(&mut self, tensor: &Tensor) -> Result<Blob, StageError> {
        self.live()?;
        self.kept += 1;
        let digest = Digest::of(&self.tensors.len().to_le_bytes());
        self.tensors.insert(digest, tensor.detach().copy());
        Ok(Blob { digest, size: 0, kind: "tensor".into() })
    }

    fn recall(&mut self, kept: &Blob) -> Result<Tensor, StageError> {
        Ok(self.tensors[&kept.digest].copy())
    }

    fn commit(&mut self, _: u64, checkpoint: &Checkpoint) -> Result<(), StageError> {
        self.live()?;
        self.commits += 1;
        self.checkpoint = Some(checkpoint.clone());
        Ok(())
    }

    fn last(&mut self) -> Result<Option<Checkpoint>, StageError> {
        self.live()?;
        Ok(self.checkpoint.clone())
    }

    fn stopping(&mut self) -> bool {
        self.asked += 1;
        self.stop_at.is_some_and(|at| self.asked > at)
    }

    fn report(&mut self, step: u64, values: &[(&str, f64)]) {
        self.reports.extend(values.iter().map(|(name, value)| (step, (*name).to_owned(), *value)));
    }

    fn seconds(&mut self) -> f64 {
        self.now += self.tick;
        self.now
    }
}
