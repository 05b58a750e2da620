//! The turns of stages: which of them may hand out a task now.

use stage_core::Place;

use super::Schedule;
use crate::pipeline::StageId;
use crate::run::board::StageState;
use crate::run::items::batch::BatchLimit;
use crate::run::precedence::is_short;

/// A task that takes longer, in seconds, holds a thread noticeably.
const LONG_TASK: f64 = 0.05;

impl Schedule<'_> {
    /// Tests if a stage has work that may be handed out now.
    pub(super) fn has_turn(&self, id: StageId) -> bool {
        let spec = self.run.stage(id);
        // Without work, no worker is asked for its devices.
        self.may_start()
            && self.board[id].has_pending_work()
            && self.may_work(id)
            && (self.run.is_on_executor(id)
                || (self.threads.is_free(spec) && self.is_within_limit(id)))
    }

    /// The stage that gets a thread for its first item, whatever has more behind it: a mistake in the
    /// stage, and the first results of each chain, come early. One stage at a time does that.
    pub(super) fn first_turn(&self) -> Option<StageId> {
        let is_first = |id: &StageId| {
            self.is_here(*id)
                && self.board[*id].counts.executed == 0
                && self.board[*id].items().is_some()
        };
        let firsts = || self.precedence.order().iter().copied().filter(is_first);
        let is_at_work = |id| self.board[id].items().is_some_and(|stage| stage.running > 0);
        if firsts().any(is_at_work) {
            None
        } else {
            firsts().find(|id| self.has_work_here(*id) && self.threads.is_free(self.run.stage(*id)))
        }
    }

    fn is_here(&self, id: StageId) -> bool {
        self.run.stage(id).kind.place == Place::Here && !self.run.is_on_executor(id)
    }

    /// Tests if a stage has work for a thread of this process.
    fn has_work_here(&self, id: StageId) -> bool {
        let run = &self.board[id];
        let is_pending = run.has_pending_work() && run.state() != StageState::AwaitsClaim;
        is_pending && self.is_here(id) && self.may_start() && self.may_work(id)
    }

    /// Tests if the stage may hold one more thread of this process: long tasks leave one to stages with as
    /// much behind them.
    fn is_within_limit(&self, id: StageId) -> bool {
        if !self.is_here(id) || !self.is_long(id) {
            return true;
        }
        let others = self.run.pipeline.ids().filter(|other| *other != id);
        let waiting = others.filter(|other| self.has_work_here(*other));
        let at_work = self.threads.on_threads().filter(|other| *other != id);
        let limit = self.precedence.limit(id, waiting.chain(at_work), self.threads.count());
        let is_counted =
            |other: &StageId| *other == id || self.precedence.behind(*other) < limit.below;
        self.threads.on_threads().filter(is_counted).count() < limit.threads
    }

    /// Tests if the next task of a stage may take long.
    fn is_long(&self, id: StageId) -> bool {
        let spec = self.run.stage(id);
        let Some(stage) = self.board[id].items() else { return !is_short(spec) };
        match BatchLimit::of(spec, stage, self.run.engine.threads) {
            BatchLimit::Items(items) if stage.pace > 0.0 => {
                let items = items.min(stage.queue.len() as u64);
                items as f64 * stage.pace > LONG_TASK
            }
            BatchLimit::Items(_) | BatchLimit::Bytes(_) => true,
        }
    }
}
