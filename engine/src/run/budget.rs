//! The allowance of a run while a pass works: it is watched, and work stops when it is used up.

use std::time::{Duration, Instant};

use crate::event::Event;
use cache::{Cache, CacheError};

use super::threads::Threads;
use crate::allowance::{Allowance, LimitedResource};
use crate::engine::StopFlag;

/// The time after its limit that a run waits for a worker to name the GPUs: a broken driver may
/// never answer.
const LATE_ANSWER: Duration = Duration::from_secs(10);

/// What the schedule does after a look at the budget.
#[derive(Default)]
pub struct Effects {
    /// Something was recorded, and has to become durable.
    pub has_recorded: bool,
    pub events: Vec<Event>,
}

pub struct Budget<'a> {
    allowance: &'a mut Allowance,
    cache: &'a Cache,
    stop: &'a StopFlag,
}

impl<'a> Budget<'a> {
    pub fn new(allowance: &'a mut Allowance, cache: &'a Cache, stop: &'a StopFlag) -> Budget<'a> {
        Budget { allowance, cache, stop }
    }

    /// The first limit that work reaches, and the time at which it does.
    pub fn first(&self, on_gpu: bool) -> Option<(LimitedResource, Instant)> {
        self.allowance.first(self.cache, on_gpu)
    }

    /// Tests if GPUs may get no more work.
    pub fn bars_gpus(&self) -> bool {
        self.allowance.bars_gpus()
    }

    /// Tests if the time of the run has ended so recently that its worker may still start.
    pub fn has_just_ended(&self) -> bool {
        let is_recent = |(limit, at): (LimitedResource, Instant)| {
            limit == LimitedResource::Time && at.elapsed() < LATE_ANSWER
        };
        self.first(false).is_some_and(is_recent) && !self.stop.is_pressing()
    }

    pub fn saw_task(&mut self, started: Instant) {
        self.allowance.saw_task(started);
    }

    /// Records the GPU time of a finished task, which becomes durable with its outcome.
    pub fn count_task(&mut self, started: Instant, threads: &Threads) -> Result<(), CacheError> {
        self.allowance.count_task(self.cache, started, threads.gpus_are_busy())
    }

    /// Records the used money and GPU time, and stops work that has used up either.
    pub fn watch(&mut self, threads: &Threads) -> Result<Effects, CacheError> {
        let busy = threads.gpus_are_busy().then(Instant::now);
        let has_recorded = self.allowance.watch(self.cache, busy)?;
        let mut events = Vec::new();
        for limit in self.allowance.reached(self.cache) {
            if limit == LimitedResource::GpuHours {
                threads.stop_gpus();
            }
            events.extend(self.stop_at(limit));
        }
        Ok(Effects { has_recorded, events })
    }

    /// A training has saved and stopped by itself, since the allowance would not have lasted for a
    /// later save.
    pub fn has_saved(&mut self, on_gpu: bool) -> Option<Event> {
        let (limit, _) = self.first(on_gpu)?;
        self.stop_at(limit)
    }

    /// Records the last usage of the pass. `waits`: work had to wait for GPU time.
    pub fn end_pass(&mut self, waits: bool) -> Result<Effects, CacheError> {
        let has_recorded = self.allowance.end_pass(self.cache)?;
        let event = if waits { self.stop_at(LimitedResource::GpuHours) } else { None };
        Ok(Effects { has_recorded, events: event.into_iter().collect() })
    }

    fn stop_at(&mut self, limit: LimitedResource) -> Option<Event> {
        let why = self.allowance.why_stopped(self.cache, limit);
        match limit {
            LimitedResource::Money => self.stop.request_after_batch(),
            LimitedResource::GpuHours => self.allowance.bar_gpus(),
            // The clock of the session requests the stop.
            LimitedResource::Time => {}
        }
        why.map(|why| Event::Stopping { why })
    }
}
