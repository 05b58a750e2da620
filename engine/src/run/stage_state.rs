//! The states of a stage in a pass, and the transitions between them.

/// The state of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageState {
    /// It is not among the targets.
    #[default]
    Unwanted,
    /// Its work is known and has not begun.
    Planned,
    /// An upstream stage has to finish before its work is known.
    AwaitsInputs,
    /// Its only task waits for a thread.
    AwaitsThread,
    /// Another process works on the same task.
    AwaitsClaim,
    /// Its only task is handed out.
    RunsTask,
    /// Its items arrive, are handed out and are decided.
    RunsItems,
    /// All its items are decided, and its outcome is recorded.
    Closes,
    /// It is unfinished, and the next pass or run continues it.
    Left,
    Done,
    Failed,
}

impl StageState {
    /// The states that may follow.
    pub fn next(self) -> &'static [StageState] {
        use StageState::*;
        match self {
            Planned => &[AwaitsThread, RunsItems, Done, Failed],
            AwaitsInputs => &[Planned, Failed, Left],
            AwaitsThread => &[AwaitsClaim, RunsTask, Planned, Left],
            AwaitsClaim => &[RunsTask, Planned, Left],
            RunsTask => &[AwaitsThread, Done, Failed, Left],
            RunsItems => &[Closes, Failed, Left],
            Closes => &[Done, Failed],
            Unwanted | Left | Done | Failed => &[],
        }
    }

    /// Tests if nothing more happens to the stage in this pass.
    pub fn is_final(self) -> bool {
        self.next().is_empty()
    }
}
