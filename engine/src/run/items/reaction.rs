//! The reaction to an item without an outcome: whether it is tried again, and who is to blame.

use stage_core::StageError;

use super::batch::BatchSize;
use crate::run::message::Failure;
use crate::units;

/// The code of items that exceed the time limit of their stage.
pub const TIMED_OUT: &str = "timed-out";

/// An item whose work has failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedItem {
    /// It may be tried again.
    pub has_retries: bool,
    /// The batch with several items that it was in.
    pub batch: Option<BatchSize>,
    /// The stage works on the items of a batch one by one.
    pub is_single: bool,
    /// Its trial has exceeded the time limit, and is known to fail.
    pub is_late: bool,
    pub weight: u64,
    /// The length of its text; 0 without one.
    pub characters: usize,
}

impl FailedItem {
    /// Its size in words, and what makes it smaller.
    fn size(self) -> (String, &'static str) {
        match (self.weight, self.characters) {
            (0, 0) => (String::new(), "make it shorter"),
            (0, characters) => {
                let size = units::counted(characters as u64, "character");
                (format!(", with {size}"), "split the text, with `text.sentences` for example")
            }
            (weight, _) => (format!(", with {}", units::bytes(weight)), "make it shorter"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    /// The next run does it.
    Leave,
    /// A machine fault pauses the run.
    Pause { error: StageError, is_of_item: bool },
    /// It is tried again, as another attempt.
    Retry,
    /// It goes back to the queue as it was.
    Requeue,
    /// No item can be processed.
    FailStage(StageError),
    /// It is tried again in smaller batches. The size is remembered for the next run if it is
    /// certain that it was the cause.
    Halve { message: String, is_certain: bool },
    /// It is quarantined for this run.
    GiveUp { code: &'static str, reason: String },
}

impl Reaction {
    pub fn to(failure: Failure, item: FailedItem) -> Reaction {
        let give_up = |code, reason| Reaction::GiveUp { code, reason };
        let error = match failure.of_the_item() {
            Failure::Open(error) => return Reaction::FailStage(error),
            // The death of a worker may have other causes than the size of the batch.
            Failure::Died { message } if item.batch.is_some() => {
                return Reaction::Halve { message, is_certain: false };
            }
            Failure::Died { .. } if item.has_retries => return Reaction::Retry,
            Failure::Died { message } => return give_up("worker-died", message),
            Failure::Stage(error) => error,
        };
        match error {
            StageError::Stopped => Reaction::Leave,
            StageError::NoSpace { .. } => Reaction::Pause { error, is_of_item: false },
            StageError::Machine { .. } | StageError::Transient { .. } if item.has_retries => {
                Reaction::Retry
            }
            StageError::Machine { .. } => {
                // In a batch, it may be another item that met the fault.
                Reaction::Pause { error, is_of_item: item.batch.is_none() || item.is_single }
            }
            StageError::Unable { .. } if item.is_late => Reaction::Requeue,
            StageError::Unable { .. } => Reaction::FailStage(error),
            StageError::OutOfMemory { message } if item.batch.is_some() => {
                Reaction::Halve { message, is_certain: true }
            }
            StageError::OutOfMemory { .. } => {
                let (size, advice) = item.size();
                let reason = format!(
                    "{error}, even with this item alone{size}: {advice}, or use a device with more \
                     memory"
                );
                give_up("out-of-memory", reason)
            }
            StageError::TimedOut { .. } => give_up(TIMED_OUT, error.with_advice()),
            StageError::Failed { .. } | StageError::Transient { .. } | StageError::Died { .. } => {
                give_up("failed", error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: FailedItem = FailedItem {
        has_retries: true,
        batch: None,
        is_single: false,
        is_late: false,
        weight: 7,
        characters: 0,
    };
    const LAST: FailedItem = FailedItem { has_retries: false, ..ITEM };
    const BATCH: Option<BatchSize> = Some(BatchSize { items: 2, bytes: 14 });

    fn message() -> String {
        "no luck".to_owned()
    }

    fn give_up(code: &'static str) -> Reaction {
        Reaction::GiveUp { code, reason: message() }
    }

    #[test]
    fn faults_that_may_pass_are_retried_before_they_count() {
        let machine = || StageError::Machine { message: message() };
        let transient = || StageError::Transient { message: message() };
        let died = || Failure::Died { message: message() };
        for failure in [Failure::Stage(machine()), Failure::Stage(transient()), died()] {
            assert_eq!(Reaction::to(failure, ITEM), Reaction::Retry);
        }
        assert_eq!(Reaction::to(Failure::Stage(transient()), LAST), give_up("failed"));
        assert_eq!(Reaction::to(died(), LAST), give_up("worker-died"));
        let paused = |is_of_item| Reaction::Pause { error: machine(), is_of_item };
        assert_eq!(Reaction::to(Failure::Stage(machine()), LAST), paused(true));
        let in_batch = FailedItem { batch: BATCH, ..LAST };
        assert_eq!(Reaction::to(Failure::Stage(machine()), in_batch), paused(false));
        let single = FailedItem { is_single: true, ..in_batch };
        assert_eq!(Reaction::to(Failure::Stage(machine()), single), paused(true));
    }

    #[test]
    fn a_batch_is_halved_until_its_worst_item_is_alone() {
        let in_batch = FailedItem { batch: BATCH, ..ITEM };
        let memory = || Failure::Stage(StageError::OutOfMemory { message: message() });
        let halved = |is_certain| Reaction::Halve { message: message(), is_certain };
        assert_eq!(Reaction::to(memory(), in_batch), halved(true));
        assert_eq!(Reaction::to(Failure::Died { message: message() }, in_batch), halved(false));
        let Reaction::GiveUp { code: "out-of-memory", reason } = Reaction::to(memory(), ITEM)
        else {
            panic!("an item that does not fit alone is given up");
        };
        assert!(reason.contains("with this item alone, with 7 B: make it shorter"), "{reason}");
        let text = FailedItem { weight: 0, characters: 12_000, ..ITEM };
        let Reaction::GiveUp { reason, .. } = Reaction::to(memory(), text) else {
            panic!("a text that does not fit alone is given up");
        };
        assert!(reason.contains("alone, with 12,000 characters: split the text"), "{reason}");
    }

    #[test]
    fn a_fault_of_no_item_is_held_against_none() {
        let unable = || StageError::Unable { message: message(), help: None };
        let fails = Reaction::FailStage(unable());
        assert_eq!(Reaction::to(Failure::Stage(unable()), ITEM), fails);
        assert_eq!(Reaction::to(Failure::Open(unable()), ITEM), fails);
        let late = FailedItem { is_late: true, ..ITEM };
        assert_eq!(Reaction::to(Failure::Stage(unable()), late), Reaction::Requeue);
        let stopped = || StageError::Stopped;
        assert_eq!(Reaction::to(Failure::Stage(stopped()), ITEM), Reaction::Leave);
        assert_eq!(Reaction::to(Failure::Open(stopped()), ITEM), Reaction::Leave);
        let full = || StageError::NoSpace { message: message() };
        let paused = Reaction::Pause { error: full(), is_of_item: false };
        assert_eq!(Reaction::to(Failure::Open(full()), ITEM), paused);
    }
}
