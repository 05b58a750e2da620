//! Results: the effect of a finished task on its items and on downstream stages.

use std::sync::Arc;
use std::time::Duration;

use crate::event::Event;
use cache::{CacheError, Digest};
use stage_core::{Batching, Reject, StageError};

use super::Schedule;
use crate::engine::EngineError;
use crate::measure::MEGABYTE;
use crate::pipeline::StageId;
use crate::record::ItemRecord;
use crate::run::items::batch::{BatchSize, KeptLimit};
use crate::run::items::intake::Delivery;
use crate::run::items::item_results::{batch, keep};
use crate::run::items::item_stage::Slot;
use crate::run::items::program_check::QuarantinedItem;
use crate::run::items::queue::QueuedItem;
use crate::run::items::reaction::{FailedItem, Reaction, TIMED_OUT};
use crate::run::items::results::{ItemEnd, ItemResult, ItemResults};
use crate::run::message::{Failure, ItemOutcome, Outcome};
use crate::run::obstacles::Obstacle;
use crate::run::tasks::InFlight;

/// The weight of a new time in the running mean.
const PACE: f64 = 0.1;
/// The number of times that a batch is halved before its worst item is alone.
const DEATHS: u32 = 16;

fn has_failed(outcome: &Outcome) -> bool {
    let is_done = |outcome: &ItemOutcome| matches!(outcome, ItemOutcome::Done { .. });
    match outcome {
        Outcome::Items(outcomes) => !outcomes.iter().all(is_done),
        Outcome::Results(Ok(results)) => results.executed().any(|outcome| !is_done(outcome)),
        Outcome::Results(Err(_)) => true,
        Outcome::Gather(result) => result.is_err(),
    }
}

impl Schedule<'_> {
    pub(super) fn done(
        &mut self,
        ticket: u64,
        outcome: Outcome,
        lost: Vec<Digest>,
        (written, took): (u64, Option<Duration>),
    ) -> Result<(), EngineError> {
        let Some(task) = self.tasks.end(ticket) else {
            // A task that was given up on may still return. What it has recorded is not durable yet.
            if let Outcome::Results(Ok(results)) = outcome {
                self.committer.note(results.claims);
            }
            return Ok(());
        };
        self.threads.returned(ticket);
        if !lost.is_empty() {
            self.note_lost(task.stage, &lost);
        }
        if has_failed(&outcome) {
            self.require_in_place()?;
        }
        match outcome {
            Outcome::Gather(result) => self.gather_done(task, result, (written, took)),
            Outcome::Items(outcomes) => {
                let route = self.board.route(self.run.stage(task.stage));
                let each = keep(self.store(), &route, task.items.iter().zip(outcomes))?;
                self.items_done(task, ItemResults { each, claims: Vec::new() }, took)
            }
            Outcome::Results(results) => self.items_done(task, results?, took),
        }
    }

    /// A failure is nobody's fault if the project or the cache no longer exists.
    fn require_in_place(&self) -> Result<(), EngineError> {
        let cache = self.run.cache;
        self.home.require(cache.fs().as_ref())?;
        cache.require_in_place()?;
        if self.threads.is_scratch_gone(cache.fs().as_ref()) {
            return Err(CacheError::Gone { dir: cache.dir().to_owned() }.into());
        }
        Ok(())
    }

    fn items_done(
        &mut self,
        task: InFlight,
        results: ItemResults,
        took: Option<Duration>,
    ) -> Result<(), EngineError> {
        let id = task.stage;
        if let Some(stage) = self.board[id].items_mut() {
            stage.running -= task.items.len();
        }
        self.board[id].counts.seconds +=
            took.unwrap_or_else(|| task.started.elapsed()).as_secs_f64();
        self.budget.saw_task(task.started);
        let batch = batch(&results, &task.items);
        let handling = took.map_or(0.0, |took| results.handling(took.as_secs_f64()));
        if let Some(ItemOutcome::Failed(Failure::Died { message })) = results.executed().next() {
            self.count_death(id, message)?;
        }
        let items = Arc::unwrap_or_clone(task.items);
        for (queued, ItemResult { end, delivery }) in items.into_iter().zip(results.each) {
            match end {
                ItemEnd::Known(record) => self.resolve_known(id, queued, record, delivery)?,
                ItemEnd::Elsewhere => {
                    self.free_duplicates(&queued);
                    if let Some(stage) = self.board[id].items_mut() {
                        stage.elsewhere.push_back(queued);
                    }
                }
                ItemEnd::Executed(ItemOutcome::Failed(failure)) => {
                    self.item_failed(id, queued, failure, (batch.items > 1).then_some(batch))?;
                }
                ItemEnd::Executed(good) => {
                    self.item_done(id, queued, good, (delivery, handling))?
                }
            }
        }
        self.committer.note(results.claims);
        self.committer.expect(self.board.bytes_to_come());
        self.committer.start_if_due();
        Ok(())
    }

    /// Passes a recorded outcome on, for the item and for those with the same key.
    fn item_done(
        &mut self,
        id: StageId,
        queued: QueuedItem,
        outcome: ItemOutcome,
        (delivery, handling): (Option<Delivery>, f64),
    ) -> Result<(), EngineError> {
        self.board[id].deaths = 0;
        let record = match outcome {
            ItemOutcome::Done { fields, notes, seconds, bytes } => {
                self.board[id].counts.executed += 1;
                self.trust(id)?;
                let size = queued.weight as f64 / MEGABYTE;
                let whole = f64::from(seconds) + handling;
                self.board[id].cost.add(size, whole, bytes);
                if let Some(stage) = self.board[id].items_mut() {
                    let share = if stage.pace == 0.0 { 1.0 } else { PACE };
                    stage.pace += share * (whole - stage.pace);
                }
                ItemRecord::Done { fields, notes, seconds }
            }
            ItemOutcome::Rejected(reject) => {
                return self.judge(id, QuarantinedItem { queued, reject, is_verdict: true });
            }
            ItemOutcome::Failed(_) => return Ok(()),
        };
        self.apply_to_all(id, queued, record, delivery)
    }

    /// An outcome that existed already.
    pub(super) fn resolve_known(
        &mut self,
        id: StageId,
        queued: QueuedItem,
        record: ItemRecord,
        delivery: Option<Delivery>,
    ) -> Result<(), EngineError> {
        self.board[id].counts.reused += 1;
        self.apply_to_all(id, queued, record, delivery)
    }

    /// Applies an outcome to an item and to those that wait for the same key.
    pub(super) fn apply_to_all(
        &mut self,
        id: StageId,
        queued: QueuedItem,
        record: ItemRecord,
        delivery: Option<Delivery>,
    ) -> Result<(), EngineError> {
        for (id, duplicate) in self.duplicates.end(&queued.key) {
            self.board[id].counts.reused += 1;
            self.settle(id, duplicate, record.clone(), None)?;
        }
        self.settle(id, queued, record, delivery)
    }

    fn settle(
        &mut self,
        id: StageId,
        queued: QueuedItem,
        record: ItemRecord,
        delivery: Option<Delivery>,
    ) -> Result<(), EngineError> {
        match record {
            ItemRecord::Done { fields, notes, .. } => {
                for (note, count) in notes {
                    *self.board[id].notes.entry(note).or_default() += count;
                }
                let delivery = delivery
                    .unwrap_or_else(|| self.board.route(self.run.stage(id)).pass(&queued, &fields));
                self.board.pass_on(&self.planner.store, id, &queued, delivery)?;
            }
            ItemRecord::Rejected(reject) => {
                self.tell_quarantined(id, &queued.item.id, &reject);
                self.decide(id, &queued, Slot::Rejected(reject))?;
            }
        }
        Ok(())
    }

    /// Decides an item that goes no further.
    pub(super) fn decide(
        &mut self,
        id: StageId,
        queued: &QueuedItem,
        slot: Slot,
    ) -> Result<(), EngineError> {
        Ok(self.board.decide(&self.planner.store, id, queued, slot)?)
    }

    fn item_failed(
        &mut self,
        id: StageId,
        queued: QueuedItem,
        failure: Failure,
        batch: Option<BatchSize>,
    ) -> Result<(), EngineError> {
        self.free_duplicates(&queued);
        if self.obstacles.has(Obstacle::Loss) {
            // The pass ends and the item is planned again.
            return Ok(());
        }
        let spec = self.run.stage(id);
        let item = FailedItem {
            has_retries: queued.attempt < spec.policy.retries,
            batch,
            is_single: spec.kind.batching == Batching::Single,
            is_late: self.is_late(id),
            weight: queued.weight,
            characters: queued.item.fields.text("text").map_or(0, |text| text.chars().count()),
        };
        match Reaction::to(failure, item) {
            Reaction::Leave => {}
            Reaction::Pause { error, is_of_item: true } => {
                self.pause_at_item(id, &queued.item.id, &error);
            }
            Reaction::Pause { error, is_of_item: false } => self.pause_at(id, &error),
            Reaction::Retry => self.retry(id, queued),
            Reaction::Requeue => self.board.requeue(id, queued),
            Reaction::FailStage(error) => self.fail_for_now(id, &error)?,
            Reaction::Halve { message, is_certain } => {
                self.halve(id, batch, message);
                if is_certain {
                    self.remember_limit(id)?;
                }
                self.board.requeue(id, queued);
            }
            Reaction::GiveUp { code, reason } => {
                if code == TIMED_OUT && self.is_ranked(id) {
                    self.trial_is_late(id);
                }
                let reject = Reject::new(code, reason);
                self.judge(id, QuarantinedItem { queued, reject, is_verdict: false })?;
            }
        }
        Ok(())
    }

    fn retry(&mut self, id: StageId, mut queued: QueuedItem) {
        queued.attempt += 1;
        let (what, attempt) = (queued.item.id.to_string(), queued.attempt);
        self.tell(Event::Retried { stage: self.name(id), what, attempt });
        self.board.requeue(id, queued);
    }

    /// A worker that dies repeatedly without any result fails the stage.
    fn count_death(&mut self, id: StageId, message: &str) -> Result<(), EngineError> {
        self.board[id].deaths += 1;
        let limit = DEATHS + self.run.stage(id).policy.retries;
        if self.board[id].deaths > limit {
            self.fail_for_now(id, &StageError::failed(message))?;
        }
        Ok(())
    }

    /// A batch did not fit: smaller ones are used from now on.
    fn halve(&mut self, id: StageId, batch: Option<BatchSize>, message: String) {
        let spec = self.run.stage(id);
        let stage = self.board[id].items_mut().zip(batch);
        let half = stage.and_then(|(stage, batch)| stage.halve(spec.kind.batching, batch));
        let Some(half) = half else { return };
        let is_counted = matches!(spec.kind.batching, Batching::ByCount { .. });
        let (bytes, items) = ((!is_counted).then_some(half), is_counted.then_some(half));
        self.tell(Event::BatchHalved { stage: spec.name.clone(), bytes, items, message });
    }

    /// Recorded for the next run.
    fn remember_limit(&mut self, id: StageId) -> Result<(), EngineError> {
        let limit = self.board[id].items().and_then(|stage| stage.batch_limit);
        let Some(limit) = limit else { return Ok(()) };
        let place = KeptLimit::of(self.run.stage(id), &self.artifacts(id));
        place.keep(self.run.cache, limit)?;
        self.committer.mark();
        Ok(())
    }

    /// Items with the key of a failed one are decided by their own stages.
    pub(super) fn free_duplicates(&mut self, queued: &QueuedItem) {
        for (id, duplicate) in self.duplicates.end(&queued.key) {
            self.board.requeue(id, duplicate);
        }
    }
}
