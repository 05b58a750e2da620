//! The next step for a shard, decided from facts alone, without input or output.

/// The facts about a shard in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Its result is there.
    pub is_done: bool,
    /// An attempt has reported that no other attempt can succeed.
    pub has_failed: bool,
    /// The number of attempts that reported progress and want another job.
    pub moved: u32,
}

/// The state of a shard according to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Waiting,
    Running,
    /// It knows no such job: it ended, was lost, or was never taken.
    Unknown,
    /// It could not be asked.
    NoAnswer,
}

/// The actions of this engine for a shard so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// The number of jobs since the last progress.
    pub jobs: u32,
    /// The number of attempts with progress that are accounted for.
    pub moved: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Read the result.
    Take,
    /// Read the report of the failure.
    Fail,
    /// Start a job.
    Submit,
    /// Too many jobs came to nothing.
    GiveUp,
    Wait,
}

impl Tried {
    /// The store is asked first. A scheduler that knows nothing says nothing about the result.
    pub fn decide(&mut self, stored: Stored, seen: Seen, limit: u32) -> Decision {
        if stored.moved > self.moved {
            *self = Tried { jobs: 0, moved: stored.moved };
        }
        match seen {
            _ if stored.is_done => Decision::Take,
            _ if stored.has_failed => Decision::Fail,
            Seen::Waiting | Seen::Running | Seen::NoAnswer => Decision::Wait,
            Seen::Unknown if self.jobs >= limit => Decision::GiveUp,
            Seen::Unknown => {
                self.jobs += 1;
                Decision::Submit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = 3;

    #[test]
    fn the_store_is_right_whatever_the_scheduler_says() {
        for seen in [Seen::Waiting, Seen::Running, Seen::Unknown, Seen::NoAnswer] {
            let done = Stored { is_done: true, has_failed: true, moved: 0 };
            assert_eq!(Tried::default().decide(done, seen, LIMIT), Decision::Take);
            let failed = Stored { has_failed: true, ..Stored::default() };
            assert_eq!(Tried::default().decide(failed, seen, LIMIT), Decision::Fail);
        }
    }

    #[test]
    fn a_job_that_the_scheduler_has_forgotten_is_submitted_again_but_not_for_ever() {
        let mut tried = Tried::default();
        for _ in 0..LIMIT {
            assert_eq!(tried.decide(Stored::default(), Seen::Unknown, LIMIT), Decision::Submit);
            assert_eq!(tried.decide(Stored::default(), Seen::Waiting, LIMIT), Decision::Wait);
            assert_eq!(tried.decide(Stored::default(), Seen::NoAnswer, LIMIT), Decision::Wait);
        }
        assert_eq!(tried.decide(Stored::default(), Seen::Unknown, LIMIT), Decision::GiveUp);
    }

    #[test]
    fn a_training_gets_as_many_jobs_as_it_makes_progress_in() {
        let mut tried = Tried::default();
        for moved in 0..100 {
            let stored = Stored { moved, ..Stored::default() };
            assert_eq!(tried.decide(stored, Seen::Unknown, LIMIT), Decision::Submit);
            assert_eq!(tried.decide(stored, Seen::Unknown, LIMIT), Decision::Submit);
        }
    }
}
