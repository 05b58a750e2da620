//! The next step for a shard, decided from facts alone, without input or output.

/// The facts about a shard in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardFacts {
    /// Its result is there.
    pub is_done: bool,
    /// An attempt has reported that no other attempt can succeed.
    pub has_failed: bool,
    /// The number of attempts that reported progress and want another job.
    pub moved: u32,
}

/// The state of a shard according to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    Waiting,
    Running,
    /// It knows no such job: it ended, was lost, or was never taken.
    Unknown,
    /// It could not be asked.
    NoAnswer,
}

/// The attempts of this engine at a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardAttempts {
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

impl ShardAttempts {
    /// The store is asked first. A scheduler that knows nothing says nothing about the result.
    pub fn decide(&mut self, stored: ShardFacts, seen: JobState, limit: u32) -> Decision {
        if stored.moved > self.moved {
            *self = ShardAttempts { jobs: 0, moved: stored.moved };
        }
        match seen {
            _ if stored.is_done => Decision::Take,
            _ if stored.has_failed => Decision::Fail,
            JobState::Waiting | JobState::Running | JobState::NoAnswer => Decision::Wait,
            JobState::Unknown if self.jobs >= limit => Decision::GiveUp,
            JobState::Unknown => {
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
        for seen in [JobState::Waiting, JobState::Running, JobState::Unknown, JobState::NoAnswer] {
            let done = ShardFacts { is_done: true, has_failed: true, moved: 0 };
            assert_eq!(ShardAttempts::default().decide(done, seen, LIMIT), Decision::Take);
            let failed = ShardFacts { has_failed: true, ..ShardFacts::default() };
            assert_eq!(ShardAttempts::default().decide(failed, seen, LIMIT), Decision::Fail);
        }
    }

    #[test]
    fn a_job_that_the_scheduler_has_forgotten_is_submitted_again_but_not_for_ever() {
        let mut tried = ShardAttempts::default();
        for _ in 0..LIMIT {
            assert_eq!(
                tried.decide(ShardFacts::default(), JobState::Unknown, LIMIT),
                Decision::Submit
            );
            assert_eq!(
                tried.decide(ShardFacts::default(), JobState::Waiting, LIMIT),
                Decision::Wait
            );
            assert_eq!(
                tried.decide(ShardFacts::default(), JobState::NoAnswer, LIMIT),
                Decision::Wait
            );
        }
        assert_eq!(tried.decide(ShardFacts::default(), JobState::Unknown, LIMIT), Decision::GiveUp);
    }

    #[test]
    fn a_training_gets_as_many_jobs_as_it_makes_progress_in() {
        let mut tried = ShardAttempts::default();
        for moved in 0..100 {
            let stored = ShardFacts { moved, ..ShardFacts::default() };
            assert_eq!(tried.decide(stored, JobState::Unknown, LIMIT), Decision::Submit);
            assert_eq!(tried.decide(stored, JobState::Unknown, LIMIT), Decision::Submit);
        }
    }
}
