//! Training as a task: its checkpoints, and the time at which it has to stop so that it can still
//! save.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::{CacheError, Digest};
use stage_core::Fields;

use crate::checkpoints::{checkpoints, is_there};
use crate::mirror::{Mirror, adopt_any};
use crate::record::{CHECKPOINT, CheckpointRecord, STEP_TIMES, StepTimes, decode, encode};
use crate::store::{ReadError, Store};

/// The number of kept checkpoints: if the newest is damaged, the one before it is used.
const KEPT: usize = 2;
/// The assumed duration of the first save, and its largest share of the time.
const FIRST_SAVE: Duration = Duration::from_secs(30);
const SHARE: u32 = 10;
/// Factor on the measured times of a save and a step, for a stage that does not report its steps.
const ROOM: u32 = 2;
/// The same in tenths, for a stage that does.
const TENTHS: u32 = 11;
/// The number of recent steps that predict the next one.
const STEPS: usize = 8;
/// The time that the run needs after the last save.
const CLOSING: Duration = Duration::from_millis(500);

/// The identity of a training task.
#[derive(Clone, Debug)]
pub struct Training {
    /// The whole-stage key.
    pub key: Digest,
    /// Those of shorter trainings that it goes on from, longest first.
    pub prefixes: Vec<Digest>,
    pub pipeline: String,
    pub run: u64,
    pub parent: Option<(Digest, Fields)>,
    /// Only a few steps are run: no state is kept.
    pub is_probe: bool,
    pub pace: Pace,
    /// For a remote that gets checkpoints as they are written.
    pub mirror: Option<Arc<Mirror>>,
}

impl Training {
    /// Takes over the newest checkpoint in the remote; a message if it did.
    pub fn adopt(&self, store: &Store) -> Result<Option<String>, ReadError> {
        let Some(remote) = store.remote().filter(|_| !self.is_probe) else { return Ok(None) };
        let number = adopt_any(store.cache(), remote, &self.key, &self.prefixes)?;
        Ok(number.map(|number| format!("continues from checkpoint {number} in the remote")))
    }

    /// The reason to stop, if another attempt at the training is ahead.
    pub fn overtaken(&self) -> Option<String> {
        self.mirror.as_ref().filter(|mirror| mirror.is_behind()).map(|_| {
            "another attempt at this training is further ahead in the remote; the next run \
             continues from its checkpoint"
                .to_owned()
        })
    }

    /// The checkpoints of the key, newest first, without those with missing objects. Without any,
    /// those of the longest training that this one goes on from.
    pub fn states(&mut self, store: &Store) -> Result<Vec<Fields>, CacheError> {
        for key in std::iter::once(self.key).chain(self.prefixes.clone()) {
            let states = self.states_of(&key, store)?;
            if !states.is_empty() {
                return Ok(states);
            }
        }
        Ok(Vec::new())
    }

    fn states_of(&mut self, key: &Digest, store: &Store) -> Result<Vec<Fields>, CacheError> {
        let Some(record) = checkpoints(store, key)? else { return Ok(Vec::new()) };
        self.pace
            .save
            .get_or_insert(Duration::try_from_secs_f64(record.seconds).unwrap_or(FIRST_SAVE));
        let steps = store.cache().get(STEP_TIMES, key)?;
        if let Some(times) = steps.and_then(|bytes| decode::<StepTimes>(&bytes)) {
            self.pace.expect(times);
        }
        record.states.into_iter().filter_map(|state| is_there(store, state).transpose()).collect()
    }

    /// Makes a state the newest checkpoint, durably.
    pub fn keep(&mut self, store: &Store, state: Fields) -> Result<SavedCheckpoint, CacheError> {
        let began = *self.pace.saving.get_or_insert_with(Instant::now);
        let bytes: u64 = state.blobs().map(|blob| blob.size).sum();
        if self.is_probe {
            return Ok(SavedCheckpoint { bytes, seconds: 0.0, is_further: false });
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
        store.cache().record(STEP_TIMES, &self.key, encode(&self.pace.times()))?;
        store.cache().commit()?;
        self.pace.saved(began.elapsed());
        if let Some(mirror) = &self.mirror {
            mirror.offer();
        }
        Ok(SavedCheckpoint { bytes, seconds: began.elapsed().as_secs_f64(), is_further })
    }
}

/// A durable checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct SavedCheckpoint {
    /// The size of everything that it refers to.
    pub bytes: u64,
    pub seconds: f64,
    /// It differs from the newest checkpoint before.
    pub is_further: bool,
}

/// The times of steps and saves, measured between the stage's questions.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    deadline: Option<Instant>,
    /// The time of the first question.
    began: Option<Instant>,
    save: Option<Duration>,
    step: Duration,
    asked: Option<Instant>,
    /// The start of the current save.
    saving: Option<Instant>,
    /// The last step included a save and is not representative.
    disturbed: bool,
    /// Steps without and with a validation after them, if the stage reports each.
    told_steps: [RecentTimes; 2],
    /// The start of the current step, and its type.
    begun: Option<(Instant, usize)>,
    /// The time of saves since then.
    saved_in: Duration,
    /// The stage was told to stop because of the deadline.
    pub told: bool,
    owed: Debt,
}

/// A step that is made even after the deadline: otherwise runs that are shorter than the loading of
/// a model would make no progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Debt {
    #[default]
    Nothing,
    /// The next step of a stage that reports each step. The stage may look for a stop before it.
    Step,
    /// The time up to the second look for a stop, for a stage that does not report steps.
    Look,
    /// The step has begun.
    Begun,
}

impl Pace {
    pub fn until(deadline: Option<Instant>, owed: Debt) -> Pace {
        Pace { deadline, owed, ..Pace::default() }
    }

    pub fn owes_step(&self) -> bool {
        self.owed != Debt::Nothing
    }

    /// Notes a stored object: the first one since the last step begins a save.
    pub fn storing(&mut self) {
        self.saving.get_or_insert_with(Instant::now);
    }

    fn saved(&mut self, took: Duration) {
        self.save = Some(took);
        self.saved_in += took;
        self.saving = None;
        self.disturbed = true;
    }

    /// A step begins, with or without a validation after it. False if there is not enough time for
    /// it and for the save after it.
    pub fn may_begin(&mut self, now: Instant, validates: bool) -> bool {
        let began = *self.began.get_or_insert(now);
        if let Some((begun, kind)) = self.begun {
            let took = now.saturating_duration_since(begun).saturating_sub(self.saved_in);
            self.told_steps[kind].push(took);
        }
        self.begun = Some((now, usize::from(validates)));
        (self.saving, self.saved_in) = (None, Duration::ZERO);
        if self.owed == Debt::Step {
            self.owed = Debt::Begun;
            return true;
        }
        self.owed = Debt::Nothing;
        let Some(deadline) = self.deadline else { return true };
        let [plain, validating] = [0, 1].map(|kind: usize| self.told_steps[kind].longest());
        // Before the first one, a validation counts as long as a step.
        let step = if validates { validating.or(plain.map(|step| step * 2)) } else { plain };
        let work = step.or(validating).unwrap_or_default() + self.save_time(began, deadline);
        let whole = deadline.saturating_duration_since(began);
        let needed = work * TENTHS / 10 + CLOSING.min(whole / SHARE);
        self.told |= deadline.saturating_duration_since(now) <= needed;
        !self.told
    }

    /// The expected time of a save, from the last one.
    fn save_time(&self, began: Instant, deadline: Instant) -> Duration {
        let guess = || FIRST_SAVE.min(deadline.saturating_duration_since(began) / SHARE);
        self.save.unwrap_or_else(guess)
    }

    fn expect(&mut self, times: StepTimes) {
        for (recent, seconds) in self.told_steps.iter_mut().zip([times.plain, times.validating]) {
            if let (None, Some(time)) =
                (recent.longest(), seconds.and_then(|time| Duration::try_from_secs_f64(time).ok()))
            {
                recent.push(time);
            }
        }
    }

    fn times(&self) -> StepTimes {
        let [plain, validating] = [0, 1]
            .map(|kind: usize| self.told_steps[kind].longest().map(|time| time.as_secs_f64()));
        StepTimes { plain, validating }
    }

    /// A step begins. True if it must not, because the save after it would end too late.
    pub fn is_time_to_save(&mut self, now: Instant) -> bool {
        let began = *self.began.get_or_insert(now);
        if let (Some(asked), false) = (self.asked, self.disturbed) {
            self.step = self.step.max(now.saturating_duration_since(asked));
        }
        (self.asked, self.saving, self.disturbed) = (Some(now), None, false);
        if self.owes_step() {
            if self.owed == Debt::Look {
                self.owed = Debt::Nothing;
            }
            return false;
        }
        let Some(deadline) = self.deadline else { return false };
        let save = self.save_time(began, deadline);
        // In the middle of a step only the save counts.
        let needed = if self.begun.is_some() { save } else { (save + self.step) * ROOM };
        self.told |= deadline.saturating_duration_since(now) <= needed;
        self.told
    }
}

/// Recent durations.
#[derive(Clone, Debug, Default)]
struct RecentTimes(VecDeque<Duration>);

impl RecentTimes {
    fn push(&mut self, time: Duration) {
        if self.0.len() == STEPS {
            self.0.pop_front();
        }
        self.0.push_back(time);
    }

    fn longest(&self) -> Option<Duration> {
        self.0.iter().max().copied()
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
    fn a_step_that_fits_with_its_save_is_begun_and_one_that_does_not_is_not() {
        let start = Instant::now();
        let mut pace = Pace { deadline: Some(after(start, 100)), ..Pace::default() };
        pace.saved(Duration::from_secs(2));
        for second in (0..=80).step_by(8) {
            assert!(pace.may_begin(after(start, second), false), "{second}");
        }
        // Ten seconds of work and a tenth more, and half a second for the end.
        assert!(pace.may_begin(after(start, 88), false));
        assert!(!pace.may_begin(after(start, 96), false));
    }

    #[test]
    fn an_owed_step_is_made_after_the_deadline_and_no_second_one() {
        let start = Instant::now();
        let late = after(start, 60);
        let mut pace = Pace::until(Some(start), Debt::Step);
        assert!(!pace.is_time_to_save(late), "it validates before its first step");
        assert!(pace.may_begin(late, false) && !pace.is_time_to_save(late) && pace.owes_step());
        assert!(!pace.may_begin(after(start, 61), false) && !pace.owes_step());
        let mut looks = Pace::until(Some(start), Debt::Look);
        assert!(!looks.is_time_to_save(late) && looks.is_time_to_save(after(start, 61)));
        assert!(!Pace::until(Some(start), Debt::Nothing).may_begin(late, false));
    }

    #[test]
    fn a_long_validation_keeps_no_step_without_one_from_beginning() {
        let start = Instant::now();
        let mut pace = Pace { deadline: Some(after(start, 90)), ..Pace::default() };
        pace.saved(Duration::from_secs(1));
        assert!(pace.may_begin(start, true));
        assert!(pace.may_begin(after(start, 40), false));
        assert!(pace.may_begin(after(start, 41), false));
        let mut other = pace.clone();
        assert!(other.may_begin(after(start, 50), false));
        assert!(!pace.may_begin(after(start, 50), true), "a validation takes forty seconds");
    }

    #[test]
    fn the_time_of_a_save_is_not_that_of_a_step_and_times_are_known_to_the_next_run() {
        let start = Instant::now();
        let mut pace = Pace { deadline: Some(after(start, 1000)), ..Pace::default() };
        assert!(pace.may_begin(start, false));
        pace.storing();
        pace.saved(Duration::from_secs(100));
        assert!(pace.may_begin(after(start, 107), false));
        let times = pace.times();
        assert_eq!((times.plain, times.validating), (Some(7.0), None));
        let mut next = Pace { deadline: Some(after(start, 20)), ..Pace::default() };
        next.expect(times);
        next.saved(Duration::from_secs(1));
        assert!(next.may_begin(after(start, 10), false));
        let mut late = Pace { deadline: Some(after(start, 17)), ..Pace::default() };
        late.expect(pace.times());
        late.saved(Duration::from_secs(1));
        assert!(!late.may_begin(after(start, 10), false), "it could not be finished");
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
