//! Batch sizes: the memory of a batch is estimated from its shape, a probe on the device corrects
//! the estimate, and a batch that does not fit halves the planned size.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use cache::Digest;
use stage_core::{Context, NewValue, Output, StageError};

use crate::error::{TorchError, caught};

/// The growth of used memory between two batches of a probe from which the difference counts:
/// drivers and allocators hand out memory in blocks.
const CLEAR: u64 = 64 << 20;
/// The share of the planned memory that the largest batch of a probe may use.
const PROBE_SHARE: u64 = 4;
/// The limits of the correction by a probe or an earlier run: beyond them, the cause was something
/// else.
const RANGE: (f64, f64) = (0.25, 16.0);
/// Clips in the batches of a probe.
const PROBES: [usize; 3] = [1, 4, 16];

/// The key of the corrected estimate among the remembered facts.
const SCALE: &str = "scale";

type Cost = Box<dyn Fn(usize) -> u64 + Send + Sync>;

/// The memory for batches of clips.
pub struct MemoryBudget {
    /// Estimates the bytes of a clip with a number of frames.
    cost: Cost,
    plan: Mutex<BatchLimit>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct BatchLimit {
    /// The memory of a batch; None means any size, until one did not fit.
    bytes: Option<u64>,
    /// The ratio of used to estimated bytes.
    scale: f64,
}

impl MemoryBudget {
    pub fn new(
        bytes: Option<u64>,
        cost: impl Fn(usize) -> u64 + Send + Sync + 'static,
    ) -> MemoryBudget {
        MemoryBudget { cost: Box::new(cost), plan: Mutex::new(BatchLimit { bytes, scale: 1.0 }) }
    }

    /// The number of clips, in order of falling length in frames, that fit into one batch. A batch
    /// takes the memory of its longest clip times their number; a single clip is always tried.
    pub fn fitting(&self, frames: &[usize]) -> usize {
        let longest = frames.first().map_or(0, |longest| (self.cost)(*longest)).max(1);
        let fitting = self.planned().map_or(frames.len(), |bytes| (bytes / longest) as usize);
        fitting.min(frames.len()).max(1)
    }

    /// Processes clips in order of falling length in batches that fit, and in smaller ones after
    /// one did not. `work` returns one result for each clip of the range.
    pub fn in_batches<T>(
        &self,
        frames: &[usize],
        mut work: impl FnMut(Range<usize>) -> Result<Vec<T>, TorchError>,
    ) -> Result<Vec<T>, TorchError> {
        let mut made = Vec::with_capacity(frames.len());
        while made.len() < frames.len() {
            let start = made.len();
            let count = self.fitting(&frames[start..]);
            match caught(|| work(start..start + count)) {
                Err(TorchError::OutOfMemory(_)) if count > 1 => {
                    self.narrow(count as u64 * (self.cost)(frames[start]));
                }
                results => made.extend(results?),
            }
        }
        Ok(made)
    }

    /// Corrects the estimate with batches of clips of this number of frames, growing until the
    /// memory `used` on the device grows clearly. A batch that does not fit halves the planned
    /// size.
    pub fn probe(
        &self,
        frames: usize,
        mut work: impl FnMut(usize) -> Result<(), TorchError>,
        mut used: impl FnMut() -> Option<u64>,
    ) {
        let most = self.planned().map_or(u64::MAX, |bytes| bytes / PROBE_SHARE);
        let (mut first, scale) = (None, self.scale());
        for clips in PROBES {
            let estimated = clips as u64 * (self.cost)(frames);
            if clips > 1 && estimated > most {
                return;
            }
            match caught(|| work(clips)) {
                // The worker may have handled the lack of memory already.
                Ok(()) if self.scale() != scale => return,
                Ok(()) => {}
                Err(TorchError::OutOfMemory(_)) => return self.narrow(estimated),
                // The first batch of real clips will report any other problem.
                Err(_) => return,
            }
            let Some(now) = used() else { return };
            let (before, at_first) = *first.get_or_insert((now, estimated));
            let grown = now.saturating_sub(before);
            if grown >= CLEAR {
                let scale = grown as f64 / (estimated - at_first) as f64;
                return self.set_scale(scale.clamp(RANGE.0, RANGE.1));
            }
        }
    }

    /// Uses the result of an earlier run, as far as an estimate can be wrong: a moment of other
    /// memory use must not slow all later runs beyond that. False if there is none.
    pub fn recall(&self, key: &Digest, context: &mut dyn Context) -> Result<bool, StageError> {
        let scale = context.recall(key)?.and_then(|fields| fields.number(SCALE));
        let scale = scale.filter(|scale| scale.is_finite() && *scale > 0.0);
        scale.into_iter().for_each(|scale| self.set_scale(scale.clamp(RANGE.0, RANGE.1)));
        Ok(scale.is_some())
    }

    /// Stores the result for later runs.
    pub fn remember(&self, key: &Digest, context: &mut dyn Context) -> Result<(), StageError> {
        let found = Output::default().with(SCALE, NewValue::Number(self.scale()));
        context.remember(key, found).map(drop)
    }

    /// The ratio of used to estimated bytes.
    pub fn scale(&self) -> f64 {
        self.plan().scale
    }

    fn plan(&self) -> BatchLimit {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The estimated bytes that a batch may take.
    fn planned(&self) -> Option<u64> {
        let BatchLimit { bytes, scale } = self.plan();
        bytes.map(|bytes| (bytes as f64 / scale) as u64)
    }

    /// Plans for half of the size that did not fit.
    fn narrow(&self, estimated: u64) {
        let half = (estimated / 2).max(1);
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        match plan.bytes {
            Some(bytes) => plan.scale = plan.scale.max(bytes as f64 / half as f64),
            None => plan.bytes = Some(half),
        }
    }

    fn set_scale(&self, scale: f64) {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).scale = scale;
    }
}

impl std::fmt::Debug for MemoryBudget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.plan().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::Bench;

    const TEXT: &str = "CUDA out of memory. Tried to allocate 2.00 GiB";

    /// An estimate of ten bytes per frame.
    fn budget(bytes: Option<u64>) -> MemoryBudget {
        MemoryBudget::new(bytes, |frames| frames as u64 * 10)
    }

    /// The sizes of the batches on a device that uses `real` bytes per frame and has `memory`.
    fn batches(budget: &MemoryBudget, frames: &[usize], real: usize, memory: usize) -> Vec<usize> {
        let mut sizes = Vec::new();
        let work = |range: Range<usize>| {
            if frames[range.start] * range.len() * real > memory {
                return Err(TorchError::from_library(TEXT));
            }
            sizes.push(range.len());
            Ok(range.collect())
        };
        let made: Vec<usize> = budget.in_batches(frames, work).unwrap();
        assert_eq!(made, (0..frames.len()).collect::<Vec<_>>(), "each clip once and in order");
        sizes
    }

    #[test]
    fn batches_fit_into_memory_and_a_clip_that_does_not_goes_alone() {
        let frames = [50, 20, 20, 10, 10, 10, 10, 10, 1];
        assert_eq!(batches(&budget(Some(400)), &frames, 0, 0), [1, 2, 4, 2]);
        assert_eq!(batches(&budget(None), &frames, 0, 0), [9]);
        assert_eq!(batches(&budget(Some(400)), &[], 0, 0), [0; 0]);
    }

    #[test]
    fn a_batch_that_does_not_fit_halves_what_is_planned_from_then_on() {
        // Actually twenty bytes per frame: a planned batch of eight clips takes twice its memory.
        for bytes in [Some(800), None] {
            let budget = budget(bytes);
            let frames = [10; 16];
            let sizes = batches(&budget, &frames, 20, 900);
            assert!(sizes.iter().all(|size| *size <= 4), "{sizes:?}");
            assert_eq!(batches(&budget, &frames, 20, 900), [4; 4], "nothing is tried again");
        }
    }

    #[test]
    fn a_panic_with_the_text_of_libtorch_is_a_lack_of_memory_too() {
        let budget = budget(None);
        let work = |range: Range<usize>| match range.len() {
            1 => Ok(vec![range.start]),
            _ => panic!("{TEXT}"),
        };
        assert_eq!(budget.in_batches(&[5, 4, 3], work).unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_clip_that_does_not_fit_alone_is_an_error() {
        let none = |_: Range<usize>| Err::<Vec<()>, _>(TorchError::from_library(TEXT));
        let result = budget(Some(1_000)).in_batches(&[7, 7], none);
        assert!(matches!(result, Err(TorchError::OutOfMemory(_))), "{result:?}");
    }

    /// Probes a device on which each frame uses this number of MiB, beside some constant use.
    fn probed(budget: &MemoryBudget, mebibytes: u64, memory: u64) -> Vec<usize> {
        let peak = std::cell::Cell::new(0);
        let mut tried = Vec::new();
        let work = |clips: usize| {
            tried.push(clips);
            let taken = 500 + clips as u64 * 10 * mebibytes;
            peak.set(peak.get().max(taken));
            if taken > memory { Err(TorchError::from_library(TEXT)) } else { Ok(()) }
        };
        budget.probe(10, work, || Some(peak.get() << 20));
        tried
    }

    fn mebibytes(bytes: u64) -> MemoryBudget {
        MemoryBudget::new(Some(bytes << 20), |frames| (frames as u64) << 20)
    }

    #[test]
    fn a_probe_measures_what_a_clip_more_takes_and_not_what_is_always_taken() {
        let budget = mebibytes(10_000);
        assert_eq!(probed(&budget, 3, 10_000), [1, 4]);
        assert_eq!(budget.scale(), 3.0);
        assert_eq!(budget.fitting(&[100; 50]), 33);
    }

    #[test]
    fn a_probe_grows_until_it_sees_something_and_stays_small() {
        let budget = mebibytes(10_000);
        assert_eq!(probed(&budget, 1, 10_000), [1, 4, 16]);
        assert_eq!(budget.scale(), 1.0);
        let narrow = mebibytes(100);
        assert_eq!(probed(&narrow, 3, 10_000), [1], "four clips are more than a quarter");
        assert_eq!(narrow.scale(), 1.0);
    }

    #[test]
    fn a_probe_that_does_not_fit_plans_for_half_of_it() {
        let budget = mebibytes(10_000);
        assert_eq!(probed(&budget, 20, 1_000), [1, 4]);
        assert_eq!(budget.fitting(&[10; 50]), 2);
    }

    #[test]
    fn what_was_found_out_is_there_in_the_next_run() {
        let (key, mut bench) = (Digest::of(b"codec"), Bench::default());
        let (first, next) = (mebibytes(10_000), mebibytes(10_000));
        assert!(!first.recall(&key, &mut bench).unwrap());
        probed(&first, 3, 10_000);
        first.remember(&key, &mut bench).unwrap();
        assert!(next.recall(&key, &mut bench).unwrap());
        assert_eq!(next.scale(), first.scale());
    }

    #[test]
    fn a_moment_without_memory_slows_later_runs_only_so_far() {
        let (key, mut bench) = (Digest::of(b"codec"), Bench::default());
        let (first, next) = (mebibytes(10_000), mebibytes(10_000));
        first.narrow(2 << 20);
        assert_eq!(first.scale(), 10_000.0);
        first.remember(&key, &mut bench).unwrap();
        assert!(next.recall(&key, &mut bench).unwrap());
        assert_eq!(next.scale(), RANGE.1);
    }
}
