//! Errors that are put into the protocol, one at a time. Each is made at the edge of one process: in
//! what it asks of the store, or hears from it or from the scheduler.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    None,
    /// A result replaces an earlier one: written without put-if-absent.
    ReplacesResults,
    /// The same for checkpoints.
    ReplacesCheckpoints,
    /// A result is written before the bytes that it names.
    RecordBeforeBytes,
    /// Processes give the same name to different packs.
    ReusesNames,
    /// Two attempts at a shard have the same number.
    ReusesAttemptNumber,
    /// A job that the scheduler does not know any more is taken for done.
    TrustsScheduler,
    /// A scheduler that does not answer is taken for one that knows no jobs.
    SilenceIsUnknown,
    /// The store is asked before the scheduler.
    StoreFirst,
    /// Records are used without a look at their checksums.
    SkipsChecksums,
    /// The number of jobs without progress has no limit.
    UnlimitedAttempts,
    /// Reports of progress are not read.
    SeesNoProgress,
    /// Items of earlier attempts count as progress.
    OldItemsAreProgress,
    /// A training goes on although another attempt has written its next checkpoint.
    IgnoresFence,
    /// A training continues from a checkpoint before the newest.
    ContinuesFromOlder,
    /// The result of a job that the scheduler had lost is not taken.
    LostIsDead,
    /// A run does not look for the jobs of the run before it.
    ForgetsBatches,
    /// A batch is closed although the remote does not have its cancellation.
    ClosesWithoutCancel,
}

impl Mutation {
    /// The search begins here: rare events find some mutations.
    pub fn first_seed(self) -> u64 {
        match self {
            Mutation::RecordBeforeBytes => 28,
            Mutation::ReusesAttemptNumber => 126,
            Mutation::SkipsChecksums => 150,
            Mutation::ClosesWithoutCancel => 50,
            _ => 0,
        }
    }

    pub const ALL: [Mutation; 17] = [
        Mutation::ReplacesResults,
        Mutation::ReplacesCheckpoints,
        Mutation::RecordBeforeBytes,
        Mutation::ReusesNames,
        Mutation::ReusesAttemptNumber,
        Mutation::TrustsScheduler,
        Mutation::SilenceIsUnknown,
        Mutation::StoreFirst,
        Mutation::SkipsChecksums,
        Mutation::UnlimitedAttempts,
        Mutation::SeesNoProgress,
        Mutation::OldItemsAreProgress,
        Mutation::IgnoresFence,
        Mutation::ContinuesFromOlder,
        Mutation::LostIsDead,
        Mutation::ForgetsBatches,
        Mutation::ClosesWithoutCancel,
    ];
}
