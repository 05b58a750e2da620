//! The board: one [`StageRun`] for each stage, with its state and all that it has while it runs.
//!
//! Every change of a state goes through one private function, which refuses what
//! [`StageState::next`] does not allow. `docs/scheduler.md` has the diagram and the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use crate::event::StageCounts;
use stage_core::Reject;

use super::candidates::Candidates;
use super::cost::Cost;
pub use super::stage_state::StageState;
use crate::engine::EngineError;
use crate::pipeline::{Pipeline, StageId};
use crate::plan::{Plan, PlannedValue, StageKnowledge, StagePlan, Work};
use crate::reason::Reason;
use crate::run::items::intake::takers;
use crate::run::items::item_stage::ItemStage;
use crate::sweep::halving::Part;

use StageState::{
    AwaitsClaim, AwaitsInputs, AwaitsThread, Closes, Done, Failed, Left, Planned as IsPlanned,
    RunsItems, Unwanted,
};

/// A stage in a pass of a run.
#[derive(Default)]
pub struct StageRun {
    name: String,
    state: StageState,
    /// Present exactly while it runs items.
    items: Option<Box<ItemStage>>,
    /// The number of failed attempts at its only task.
    pub attempt: u32,
    /// It is fresh, and unchanged since the last run.
    pub is_unchanged: bool,
    pub reasons: Vec<Reason>,
    /// The differences from the state after this run, if they are known.
    pub differences: Option<(u64, Vec<Reason>)>,
    /// The number of items that the plan expects to be executed.
    pub todo: u64,
    /// The seconds that the plan expects.
    pub expected_seconds: f64,
    pub known: StageKnowledge,
    pub counts: StageCounts,
    pub notes: BTreeMap<String, u64>,
    pub cost: Cost,
    /// The number of finished items in its last report of progress.
    pub reported: Option<u64>,
    /// Deaths of its worker without a result between them.
    pub deaths: u32,
    /// Items that its only task has quarantined, as reported: another attempt reports the same
    /// items again.
    pub aside: BTreeMap<Arc<str>, Reject>,
    /// Items of a stage that is done, without a verdict: the next run tries them again.
    pub failed_items: Vec<(Arc<str>, Reject)>,
    /// The error of a stage of a trial that failed for a reason that may pass.
    pub failed_for_now: Option<String>,
    /// The output with which it failed. Stages downstream do not see it.
    pub judged: BTreeMap<&'static str, PlannedValue>,
}

impl StageRun {
    fn new(name: &str, is_wanted: bool, plan: StagePlan) -> (StageRun, Work) {
        let state = match (is_wanted, &plan.work) {
            (false, _) => Unwanted,
            (true, Work::AwaitsInputs | Work::AwaitsFile | Work::Unwanted) => AwaitsInputs,
            (true, _) => IsPlanned,
        };
        let mut run = StageRun { name: name.to_owned(), state, ..StageRun::default() };
        let work = run.learn(plan);
        (run, work)
    }

    /// Takes over what a plan knows, and returns the work.
    fn learn(&mut self, plan: StagePlan) -> Work {
        self.is_unchanged = plan.unchanged;
        self.reasons = plan.reasons;
        self.differences = plan.differences;
        self.todo = plan.executed + plan.pending;
        self.expected_seconds = plan.seconds;
        self.known = plan.known;
        (self.counts.reused, self.counts.quarantined) = (plan.reused, plan.quarantined);
        plan.work
    }

    pub fn state(&self) -> StageState {
        self.state
    }

    /// The items of a stage that runs items.
    pub fn items(&self) -> Option<&ItemStage> {
        self.items.as_deref()
    }

    pub fn items_mut(&mut self) -> Option<&mut ItemStage> {
        self.items.as_deref_mut()
    }

    /// Tests if it has work that could be handed out.
    pub fn has_pending_work(&self) -> bool {
        match self.state {
            AwaitsThread | AwaitsClaim => true,
            _ => self.items().is_some_and(|stage| !stage.queue.is_empty()),
        }
    }
}

impl AsRef<StageKnowledge> for StageRun {
    fn as_ref(&self) -> &StageKnowledge {
        &self.known
    }
}

pub struct Board {
    runs: Vec<StageRun>,
    /// By the position of a stage: the stages that take their items from it.
    takers: Vec<Vec<StageId>>,
    pub candidates: Candidates,
}

impl Index<StageId> for Board {
    type Output = StageRun;

    fn index(&self, id: StageId) -> &StageRun {
        &self.runs[id.0]
    }
}

impl IndexMut<StageId> for Board {
    fn index_mut(&mut self, id: StageId) -> &mut StageRun {
        &mut self.runs[id.0]
    }
}

impl Board {
    /// Also returns the work of each stage, for its start.
    pub fn new(
        pipeline: &Pipeline,
        wanted: &BTreeSet<StageId>,
        plan: Plan,
    ) -> (Board, Vec<(StageId, Work)>) {
        let (mut runs, mut works) = (Vec::new(), Vec::new());
        for (spec, plan) in pipeline.stages.iter().zip(plan.stages) {
            let (run, work) = StageRun::new(&spec.name, wanted.contains(&spec.id), plan);
            runs.push(run);
            works.push((spec.id, work));
        }
        let (takers, candidates) = (takers(pipeline), Candidates::of(pipeline));
        (Board { runs, takers, candidates }, works)
    }

    pub fn runs(&self) -> &[StageRun] {
        &self.runs
    }

    pub fn is(&self, id: StageId, state: StageState) -> bool {
        self[id].state == state
    }

    pub fn any(&self, state: StageState) -> bool {
        self.runs.iter().any(|run| run.state == state)
    }

    pub fn counts(&self) -> Vec<StageCounts> {
        self.runs.iter().map(|run| run.counts).collect()
    }

    /// The stages that are done, without those that do not take part in their sweep.
    pub fn done(&self) -> Vec<StageId> {
        let mut done = self.in_state(Done);
        done.retain(|id| self[*id].known.part == Part::In);
        done
    }

    pub fn failed(&self) -> Vec<StageId> {
        self.in_state(Failed)
    }

    /// The stages that failed with an output, which is known from now on. Nothing may be planned after
    /// this.
    pub fn judged(&mut self) -> Vec<StageId> {
        let mut judged = self.failed();
        judged.retain(|id| !self[*id].judged.is_empty());
        for id in &judged {
            let run = &mut self[*id];
            run.known.outputs = std::mem::take(&mut run.judged);
        }
        judged
    }

    /// The running item stages that take their items from this one.
    pub fn item_consumers(&self, id: StageId) -> Vec<StageId> {
        let takers = self.takers[id.0].iter();
        takers.filter(|below| self.is(**below, RunsItems)).copied().collect()
    }

    fn in_state(&self, state: StageState) -> Vec<StageId> {
        let found = self.runs.iter().enumerate().filter(|(_, run)| run.state == state);
        found.map(|(at, _)| StageId(at)).collect()
    }

    /// The only place that changes a state; returns the items that the stage had.
    fn set(
        &mut self,
        id: StageId,
        to: StageState,
        items: Option<Box<ItemStage>>,
    ) -> Result<Option<Box<ItemStage>>, EngineError> {
        let run = &mut self[id];
        if !run.state.next().contains(&to) || items.is_some() != (to == RunsItems) {
            let message = format!(
                "internal error: stage `{}` cannot change from `{:?}` to `{to:?}`",
                run.name, run.state
            );
            return Err(EngineError::Internal { message });
        }
        run.state = to;
        let before = std::mem::replace(&mut run.items, items);
        match to {
            RunsItems => self.candidates.add(id),
            Done => self.candidates.add_below(id),
            _ => {}
        }
        Ok(before)
    }

    pub fn advance(&mut self, id: StageId, to: StageState) -> Result<(), EngineError> {
        self.set(id, to, None).map(drop)
    }

    pub fn begin_items(&mut self, id: StageId, items: ItemStage) -> Result<(), EngineError> {
        self.set(id, RunsItems, Some(Box::new(items))).map(drop)
    }

    /// Ends the work on items; its outcome is recorded next.
    pub fn close_items(&mut self, id: StageId) -> Result<Option<Box<ItemStage>>, EngineError> {
        self.set(id, Closes, None)
    }

    /// Takes over a plan that was made during the run, and returns its work.
    pub fn replan(&mut self, id: StageId, plan: StagePlan) -> Result<Work, EngineError> {
        self.advance(id, IsPlanned)?;
        Ok(self[id].learn(plan))
    }

    /// Leaves all unfinished stages to the next pass or run.
    pub fn leave_unfinished(&mut self) -> Result<(), EngineError> {
        let unfinished = self.runs.iter().enumerate().filter(|(_, run)| !run.state.is_final());
        let unfinished: Vec<StageId> = unfinished.map(|(at, _)| StageId(at)).collect();
        unfinished.into_iter().try_for_each(|id| self.advance(id, Left))
    }

    /// The present knowledge as a plan without work, for an estimate.
    pub fn known(&self) -> Plan {
        let stage =
            |run: &StageRun| StagePlan { known: run.known.clone(), ..StagePlan::unwanted() };
        Plan { stages: self.runs.iter().map(stage).collect(), seconds: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::StageState::RunsTask;
    use super::*;
    use crate::plan::ItemWork;
    use crate::run::items::intake::Intake;
    use crate::run::message::JobHandle;
    use cache::Digest;
    use stage_core::key::ItemReads;
    use stage_core::{Kind, Setup};

    static KIND: Kind = Kind::BASE;
    const PAGE: &str = include_str!("../../../docs/scheduler.md");
    const ALL: [StageState; 11] = [
        Unwanted,
        IsPlanned,
        AwaitsInputs,
        AwaitsThread,
        AwaitsClaim,
        RunsTask,
        RunsItems,
        Closes,
        Left,
        Done,
        Failed,
    ];

    fn items() -> ItemStage {
        let job = Arc::new(JobHandle::new(1, &KIND, Setup::default()));
        let reads = ItemReads { names: Vec::new(), id: false };
        ItemStage::new(ItemWork::default(), Intake { key: Digest::of(b"key"), reads }, job)
    }

    fn board(states: &[StageState]) -> Board {
        let run = |state: &StageState| StageRun {
            name: "x".to_owned(),
            state: *state,
            items: (*state == RunsItems).then(|| Box::new(items())),
            ..StageRun::default()
        };
        let runs = states.iter().map(run).collect();
        Board { runs, takers: Vec::new(), candidates: Candidates::default() }
    }

    fn go(board: &mut Board, id: StageId, to: StageState) -> Result<(), EngineError> {
        match to {
            RunsItems => board.begin_items(id, items()),
            IsPlanned => board.replan(id, StagePlan::unwanted()).map(drop),
            _ => board.advance(id, to),
        }
    }

    /// The names in backticks.
    fn names(text: &str) -> Vec<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }

    /// The transitions of the page: those of its table, and those of its diagram.
    fn transitions() -> [BTreeSet<(&'static str, &'static str)>; 2] {
        let (mut table, mut diagram) = (BTreeSet::new(), BTreeSet::new());
        for line in PAGE.lines() {
            if let [_, state, _, _, next, _] = line.split('|').collect::<Vec<_>>()[..] {
                let from = names(state);
                table.extend(from.iter().flat_map(|from| {
                    names(next).into_iter().map(|to| (*from, to)).collect::<Vec<_>>()
                }));
            }
            diagram.extend(line.trim().split_once(" --> ").filter(|(from, _)| *from != "[*]"));
        }
        [table, diagram]
    }

    #[test]
    fn only_the_transitions_of_the_page_are_allowed() {
        let [table, diagram] = transitions();
        assert_eq!(table, diagram);
        assert_eq!(table.len(), ALL.iter().map(|state| state.next().len()).sum::<usize>());
        for from in ALL {
            for to in ALL {
                let (before, after) = (format!("{from:?}"), format!("{to:?}"));
                let mut board = board(&[from]);
                let result = go(&mut board, StageId(0), to);
                let is_allowed = table.contains(&(before.as_str(), after.as_str()));
                assert_eq!(result.is_ok(), is_allowed, "{from:?} to {to:?}");
                assert!(board.is(StageId(0), if is_allowed { to } else { from }));
                if let Err(error) = result {
                    let message = error.to_string();
                    assert!(message.contains(&before) && message.contains(&after), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_stage_has_items_only_while_it_runs_items() {
        let id = StageId(0);
        let mut board = board(&[IsPlanned]);
        assert!(board.advance(id, RunsItems).is_err(), "without items");
        board.begin_items(id, items()).unwrap();
        assert!(board[id].items().is_some());
        assert!(board.close_items(id).unwrap().is_some());
        assert!(board[id].items().is_none());
    }

    #[test]
    fn every_sequence_of_events_ends_in_final_states() {
        for seed in 0..2000u64 {
            let mut number = seed;
            let mut random = |below: usize| {
                number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (number >> 33) as usize % below
            };
            let first = [Unwanted, IsPlanned, AwaitsInputs];
            let stages = 1 + random(4);
            let mut board = board(&[0; 4].map(|_| first[random(3)])[..stages]);
            let mut events = Vec::new();
            for _ in 0..random(40) {
                let id = StageId(random(stages));
                // Starting and closing happen within one event.
                while let next @ [_, ..] = board[id].state().next() {
                    let to = next[random(next.len())];
                    events.push((id, to));
                    go(&mut board, id, to).unwrap();
                    if ![IsPlanned, Closes].contains(&to) {
                        break;
                    }
                }
            }
            for id in
                (0..stages).map(StageId).filter(|id| board.is(*id, IsPlanned)).collect::<Vec<_>>()
            {
                board.advance(id, AwaitsThread).unwrap();
            }
            let left = board.leave_unfinished();
            assert!(left.is_ok(), "seed {seed}: {events:?}");
            let are_final = board.runs().iter().all(|run| run.state().is_final());
            assert!(are_final, "seed {seed}: {events:?}");
        }
    }
}
