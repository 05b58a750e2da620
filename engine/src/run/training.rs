//! Training as a task: its checkpoints, and when it has to stop so that it can still save.

use std::time::{Duration, Instant};

use cache::{CacheError, Digest};
use stage_core::Fields;

use crate::record::{CHECKPOINT, CheckpointRecord, PROGRESS, decode, encode};
use crate::store::Store;

/// How many checkpoints are kept: should the newest be damaged, there is the one before it.
const KEPT: usize = 2;
/// What a save is taken to last before one was measured, and which share of the time at most.
const FIRST_SAVE: Duration = Duration::from_secs(30);
const SHARE: u32 = 10;
/// How much longer than those measured a save and a step may take.
const ROOM: u32 = 2;

/// What a training task is known by.
#[derive(Clone, Debug)]
pub struct Training {
    /// The whole-stage key.
    pub key: Digest,
    pub pipeline: String,
    pub run: u64,
    pub parent: Option<(Digest, Fields)>,
    /// A few steps are tried: no state is kept.
    pub is_probe: bool,
    pub pace: Pace,
}

impl Training {
    /// The checkpoints of the key, the newest first, without those of which something is gone.
    pub fn states(&mut self, store: &Store) -> Result<Vec<Fields>, CacheError> {
        let Some(record) = checkpoints(store, &self.key)? else { return Ok(Vec::new()) };
        self.pace
            .save
            .get_or_insert(Duration::try_from_secs_f64(record.seconds).unwrap_or(FIRST_SAVE));
        record.states.into_iter().filter_map(|state| is_there(store, state).transpose()).collect()
    }

    /// Makes a state the newest checkpoint, durably.
    pub fn keep(&mut self, store: &Store, state: Fields) -> Result<Saved, CacheError> {
        let began = *self.pace.saving.get_or_insert_with(Instant::now);
        let bytes: u64 = state.blobs().map(|blob| blob.size).sum();
        if self.is_probe {
            return Ok(Saved { bytes, seconds: 0.0, is_further: false });
        }
        let mut states = self.states(store)?;
        let is_further = states.first() != Some(&state);
        states.retain(|before| *before != state);
        states.insert(0, state);
        states.truncate(KEPT);
        let mut record = CheckpointRecord {
            pipeline: self.pipeline.clone(),
            run: self.run,
            parent: self.parent.as_ref().map(|(key, _)| *key),
            states,
            seconds: began.elapsed().as_secs_f64(),
        };
        // The bytes become durable before the record does.
        store.cache().commit()?;
        record.seconds = began.elapsed().as_secs_f64();
        store.cache().record(CHECKPOINT, &self.key, encode(&record))?;
        store.cache().commit()?;
        self.pace.saved(began.elapsed());
        Ok(Saved { bytes, seconds: began.elapsed().as_secs_f64(), is_further })
    }
}

/// A checkpoint that is durable.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    /// The size of all that it refers to.
    pub bytes: u64,
    pub seconds: f64,
    /// Another state than that of the newest checkpoint before.
    pub is_further: bool,
}

pub fn checkpoints(store: &Store, key: &Digest) -> Result<Option<CheckpointRecord>, CacheError> {
    let record = store.cache().get(CHECKPOINT, key)?;
    Ok(record.and_then(|bytes| decode(&bytes)))
}

/// The step of the newest checkpoint of a key, as far as it was told; 0 without one.
pub fn steps_done(store: &Store, key: &Digest) -> Result<u64, CacheError> {
    if checkpoints(store, key)?.is_none() {
        return Ok(0);
    }
    let progress = store.cache().get(PROGRESS, key)?;
    Ok(progress.and_then(|bytes| decode::<(u64, u64)>(&bytes)).map_or(0, |(done, _)| done))
}

/// The state, if all that it refers to is there.
pub fn is_there(store: &Store, state: Fields) -> Result<Option<Fields>, CacheError> {
    for blob in state.blobs() {
        if !store.has(&blob.digest)? {
            return Ok(None);
        }
    }
    Ok(Some(state))
}

/// How long a step and a save take, measured between the questions of the stage.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    deadline: Option<Instant>,
    /// When the stage first asked.
    began: Option<Instant>,
    save: Option<Duration>,
    step: Duration,
    asked: Option<Instant>,
    /// When the save under way began.
    saving: Option<Instant>,
    /// The last step had a save in it and tells nothing.
    disturbed: bool,
    /// The stage was told to stop because of the deadline.
    pub told: bool,
}

impl Pace {
    pub fn until(deadline: Option<Instant>) -> Pace {
        Pace { deadline, ..Pace::default() }
    }

    /// An object is stored: the first one since the last step begins a save.
    pub fn storing(&mut self) {
        self.saving.get_or_insert_with(Instant::now);
    }

    fn saved(&mut self, took: Duration) {
        self.save = Some(took);
        self.saving = None;
        self.disturbed = true;
    }

    /// A step begins. True when it must not, or the save after it would end too late.
    pub fn is_time_to_save(&mut self, now: Instant) -> bool {
        let began = *self.began.get_or_insert(now);
        if let (Some(asked), false) = (self.asked, self.disturbed) {
            self.step = self.step.max(now.saturating_duration_since(asked));
        }
        (self.asked, self.saving, self.disturbed) = (Some(now), None, false);
        let Some(deadline) = self.deadline else { return false };
        let guess = || FIRST_SAVE.min(deadline.saturating_duration_since(began) / SHARE);
        let needed = (self.save.unwrap_or_else(guess) + self.step) * ROOM;
        self.told |= deadline.saturating_duration_since(now) <= needed;
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn without_a_deadline_it_is_never_time() {
        let mut pace = Pace::default();
        let start = Instant::now();
        assert!(!pace.is_time_to_save(start));
        assert!(!pace.is_time_to_save(after(start, 1_000_000)));
    }

    #[test]
    fn it_is_time_when_a_step_and_a_save_would_just_fit_in_twice() {
        let start = Instant::now();
        let mut pace = Pace { deadline: Some(after(start, 1000)), ..Pace::default() };
        pace.saved(Duration::from_secs(40));
        for second in (0..900).step_by(10) {
            assert!(!pace.is_time_to_save(after(start, second)), "{second}");
        }
        assert!(pace.is_time_to_save(after(start, 900)));
        assert!(pace.told);
    }

    #[test]
    fn a_step_with_a_save_in_it_is_not_taken_for_a_long_step() {
        let start = Instant::now();
        let mut pace = Pace { deadline: Some(after(start, 1000)), ..Pace::default() };
        assert!(!pace.is_time_to_save(start));
        pace.storing();
        pace.saved(Duration::from_secs(100));
        assert!(!pace.is_time_to_save(after(start, 101)));
        assert_eq!(pace.step, Duration::ZERO);
        assert!(!pace.is_time_to_save(after(start, 111)));
        assert_eq!(pace.step, Duration::from_secs(10));
    }

    #[test]
    fn before_the_first_save_a_tenth_of_the_time_is_set_aside_at_most() {
        let start = Instant::now();
        let mut pace = Pace { deadline: Some(after(start, 100)), ..Pace::default() };
        for second in [0, 10, 20, 30, 40, 50] {
            assert!(!pace.is_time_to_save(after(start, second)), "{second}");
        }
        // Twice a tenth of the time, and twice a step of ten seconds.
        assert!(pace.is_time_to_save(after(start, 60)));
    }
}
