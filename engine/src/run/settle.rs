//! Results: the effect of a finished task on its items and on downstream stages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cache::{CacheError, Digest};
use stage_core::event::Event;
use stage_core::{Batching, Item, Reject, StageError, Verdicts, children};

use super::batch::{Batch, KeptLimit};
use super::item_stage::{Arrived, Slot};
use super::message::{Failure, ItemOutcome, Outcome};
use super::program_check::{Judged, Unfit};
use super::queue::Queued;
use super::schedule::{InFlight, Schedule};
use crate::engine::EngineError;
use crate::measure::MEGABYTE;
use crate::pipeline::StageId;
use crate::plan::items::merged;
use crate::record::{ITEM, ItemRecord, encode};
use crate::tables::close_bucket;

/// The code of items that exceed the time limit of their stage.
pub const TIMED_OUT: &str = "timed-out";
/// The weight of a new time in the running mean.
const PACE: f64 = 0.1;
/// The number of times that a batch is halved before its worst item is alone.
const DEATHS: u32 = 16;

fn has_failed(outcome: &Outcome) -> bool {
    let is_done = |outcome: &ItemOutcome| matches!(outcome, ItemOutcome::Done { .. });
    match outcome {
        Outcome::Items(outcomes) => !outcomes.iter().all(is_done),
        Outcome::Gather(result) => result.is_err(),
    }
}

impl Schedule<'_> {
    pub fn done(
        &mut self,
        ticket: u64,
        outcome: Outcome,
        lost: Vec<Digest>,
        (written, took): (u64, Option<Duration>),
    ) -> Result<(), EngineError> {
        // A task that was given up on may still return.
        let Some(task) = self.in_flight.remove(&ticket) else { return Ok(()) };
        self.hands.returned(ticket);
        if !lost.is_empty() {
            self.note_lost(task.stage, &lost);
        }
        if has_failed(&outcome) {
            self.require_in_place()?;
        }
        match outcome {
            Outcome::Gather(result) => self.gather_done(task, result, (written, took)),
            Outcome::Items(outcomes) => self.items_done(task, outcomes, took),
        }
    }

    /// A failure is nobody's fault if the project or the cache no longer exists.
    fn require_in_place(&self) -> Result<(), EngineError> {
        let cache = self.store.cache();
        self.home.require(cache.fs().as_ref())?;
        cache.require_in_place()?;
        match self.hands.is_scratch_gone(cache.fs().as_ref()) {
            true => Err(CacheError::Gone { dir: cache.dir().to_owned() }.into()),
            false => Ok(()),
        }
    }

    fn items_done(
        &mut self,
        task: InFlight,
        outcomes: Vec<ItemOutcome>,
        took: Option<Duration>,
    ) -> Result<(), EngineError> {
        let id = task.stage;
        if let Some(stage) = self.board[id].items_mut() {
            stage.running -= task.items.len();
        }
        self.board[id].counts.seconds +=
            took.unwrap_or_else(|| task.started.elapsed()).as_secs_f64();
        self.allowance.saw_task(task.started);
        let batch = Batch {
            items: task.items.len() as u64,
            bytes: task.items.iter().map(|queued| queued.weight).sum(),
        };
        if let Some(ItemOutcome::Failed(Failure::Died { message })) = outcomes.first() {
            self.count_death(id, message)?;
        }
        for (queued, outcome) in task.items.into_iter().zip(outcomes) {
            match outcome {
                ItemOutcome::Failed(failure) => {
                    self.item_failed(id, queued, failure, (batch.items > 1).then_some(batch))?;
                }
                good => self.item_done(id, queued, good)?,
            }
        }
        self.committer.note(task.claims);
        self.committer.expect(self.board.bytes_to_come());
        self.committer.start_if_due(&self.store);
        Ok(())
    }

    /// Records an outcome and passes it on, for the item and for those with the same key.
    fn item_done(
        &mut self,
        id: StageId,
        queued: Queued,
        outcome: ItemOutcome,
    ) -> Result<(), EngineError> {
        self.board[id].deaths = 0;
        let record = match outcome {
            ItemOutcome::Done { fields, notes, seconds, bytes } => {
                self.board[id].counts.executed += 1;
                self.trust(id)?;
                let size = queued.weight as f64 / MEGABYTE;
                self.board[id].cost.add(size, f64::from(seconds), bytes);
                if let Some(stage) = self.board[id].items_mut() {
                    let seconds = f64::from(seconds);
                    let first = stage.pace == 0.0;
                    let share = if first { 1.0 } else { PACE };
                    stage.pace += share * (seconds - stage.pace);
                }
                ItemRecord::Done { fields, notes, seconds }
            }
            ItemOutcome::Rejected(reject) => {
                return self.judge(id, Unfit { queued, reject, is_verdict: true });
            }
            ItemOutcome::Failed(_) => return Ok(()),
        };
        self.keep(id, queued, record)
    }

    fn keep(&mut self, id: StageId, queued: Queued, record: ItemRecord) -> Result<(), EngineError> {
        self.store.cache().record(ITEM, &queued.key, encode(&record))?;
        self.apply_to_all(id, queued, record)
    }

    /// An outcome that existed already.
    pub fn resolve_known(
        &mut self,
        id: StageId,
        queued: Queued,
        record: ItemRecord,
    ) -> Result<(), EngineError> {
        self.board[id].counts.reused += 1;
        self.apply_to_all(id, queued, record)
    }

    /// Applies an outcome to an item and to those that wait for the same key.
    fn apply_to_all(
        &mut self,
        id: StageId,
        queued: Queued,
        record: ItemRecord,
    ) -> Result<(), EngineError> {
        for (id, follower) in self.followers.remove(&queued.key).unwrap_or_default() {
            self.board[id].counts.reused += 1;
            self.apply(id, follower, record.clone())?;
        }
        self.apply(id, queued, record)
    }

    fn apply(
        &mut self,
        id: StageId,
        queued: Queued,
        record: ItemRecord,
    ) -> Result<(), EngineError> {
        let name = queued.item.id.clone();
        let slot = match record {
            ItemRecord::Done { fields, notes, .. } => {
                for (note, count) in notes {
                    *self.board[id].notes.entry(note).or_default() += count;
                }
                match self.pipeline.stage(id).kind.expands {
                    Some(_) => Slot::Expanded(children(&queued.item, &fields)),
                    None => Slot::Known(merged(queued.item, fields)),
                }
            }
            ItemRecord::Rejected(reject) => {
                self.tell_quarantined(id, &name, &reject);
                Slot::Rejected(reject)
            }
        };
        self.decide(id, queued.bucket, name, slot)
    }

    pub fn tell_quarantined(&mut self, id: StageId, item: &str, reject: &Reject) {
        self.board[id].counts.quarantined += 1;
        self.tell(Event::ItemQuarantined {
            stage: self.name(id),
            item: item.to_owned(),
            code: reject.code.clone(),
            reason: reject.reason.clone(),
        });
    }

    /// Decides an item of a stage and passes it to downstream stages.
    pub fn decide(
        &mut self,
        id: StageId,
        bucket: u32,
        item: Arc<str>,
        slot: Slot,
    ) -> Result<(), EngineError> {
        let mut flow = VecDeque::from([(id, item, Some(slot))]);
        while let Some((id, name, slot)) = flow.pop_front() {
            let Some(stage) = self.board[id].items_mut() else { continue };
            let leaving = match &slot {
                Some(Slot::Known(item)) => Some(vec![item.clone()]),
                Some(Slot::Expanded(items)) => Some(items.clone()),
                _ => None,
            };
            let is_expanded = matches!(slot, Some(Slot::Expanded(_)));
            match slot {
                Some(slot) => {
                    if !stage.decide(bucket, &name, slot) {
                        continue;
                    }
                }
                None => stage.withdraw(bucket, &name),
            }
            if let (Some(items), true) = (&leaving, is_expanded) {
                self.expand_below(id, bucket, &name, items);
            }
            for below in self.item_consumers(id) {
                match &leaving {
                    None => flow.push_back((below, name.clone(), None)),
                    Some(items) => items.iter().for_each(|item| self.arrive(below, bucket, item)),
                }
            }
            self.close(id, bucket)?;
        }
        Ok(())
    }

    /// The stages behind expect the children of an item from now on, and no longer the item.
    fn expand_below(&mut self, id: StageId, bucket: u32, parent: &Arc<str>, children: &[Item]) {
        let mut waiting = VecDeque::from(self.item_consumers(id));
        while let Some(below) = waiting.pop_front() {
            let Some(stage) = self.board[below].items_mut() else { continue };
            if stage.expand(bucket, parent, children) {
                waiting.extend(self.item_consumers(below));
            }
        }
    }

    /// An item reaches a stage and is queued; known outcomes are looked up for many items at once,
    /// when they are taken off the queue.
    fn arrive(&mut self, id: StageId, bucket: u32, item: &Item) {
        let Some(stage) = self.board[id].items_mut() else { return };
        if !stage.awaits(bucket, &item.id) {
            return;
        }
        let key = stage.reads.see(item).key(&stage.key);
        stage.queue.push(Queued::new(&stage.reads, bucket, item.clone(), key));
    }

    /// Writes a bucket once everything in it is decided, and tells downstream stages.
    pub fn close(&mut self, id: StageId, number: u32) -> Result<(), EngineError> {
        let mut closing = VecDeque::from([id]);
        while let Some(id) = closing.pop_front() {
            let Some(stage) = self.board[id].items_mut() else { continue };
            let Some(closed) = stage.close(number) else { continue };
            let key = stage.key;
            let bucket = close_bucket(&self.store, &key, closed)?;
            if let Some(stage) = self.board[id].items_mut() {
                stage.closed.extend(bucket);
            }
            let arrived = Some(Arrived { chunk: bucket.map(|bucket| bucket.chunk) });
            for below in self.item_consumers(id) {
                if let Some(stage) = self.board[below].items_mut()
                    && let Some(bucket) = stage.open.get_mut(&number)
                {
                    bucket.arrived = arrived;
                    closing.push_back(below);
                }
            }
        }
        Ok(())
    }

    fn item_failed(
        &mut self,
        id: StageId,
        mut queued: Queued,
        failure: Failure,
        batch: Option<Batch>,
    ) -> Result<(), EngineError> {
        self.free_followers(&queued);
        if self.lost {
            // The pass ends and the item is planned again.
            return Ok(());
        }
        let retries = self.pipeline.stage(id).policy.retries;
        match (failure.of_the_item(), batch) {
            (Failure::Stage(StageError::Stopped), _) => {}
            (Failure::Stage(error @ StageError::NoSpace { .. }), _) => self.pause_at(id, &error),
            (Failure::Stage(StageError::Machine { .. }), _) if queued.attempt < retries => {
                queued.attempt += 1;
                self.retry(id, queued);
            }
            (Failure::Stage(error @ StageError::Machine { .. }), batch) => {
                let kind = self.pipeline.stage(id).kind;
                // In a batch, it may be another item that met the fault.
                match batch.is_none() || kind.batching == Batching::Single {
                    true => self.pause_at_item(id, &queued.item.id, &error),
                    false => self.pause_at(id, &error),
                }
            }
            // The trial is known to fail.
            (Failure::Stage(StageError::Unable { .. }), _) if self.is_late(id) => {
                self.requeue(id, queued);
            }
            (Failure::Open(error) | Failure::Stage(error @ StageError::Unable { .. }), _) => {
                self.fail_for_now(id, &error)?;
            }
            (Failure::Stage(StageError::OutOfMemory { message }), Some(batch)) => {
                self.halve(id, batch, message);
                self.remember_limit(id)?;
                self.requeue(id, queued);
            }
            (Failure::Died { message }, batch) => {
                if let Some(batch) = batch {
                    self.halve(id, batch, message);
                    self.requeue(id, queued);
                } else if queued.attempt < retries {
                    queued.attempt += 1;
                    self.retry(id, queued);
                } else {
                    self.give_up(id, queued, "worker-died", message)?;
                }
            }
            (Failure::Stage(StageError::Transient { .. }), _) if queued.attempt < retries => {
                queued.attempt += 1;
                self.retry(id, queued);
            }
            (Failure::Stage(error @ StageError::OutOfMemory { .. }), None) => {
                let weight = queued.weight;
                let message =
                    format!("{error}, even with this item of {weight} B alone in its batch");
                self.give_up(id, queued, "out-of-memory", message)?;
            }
            (Failure::Stage(error @ StageError::TimedOut { .. }), _) => {
                if self.is_ranked(id) {
                    self.trial_is_late(id);
                }
                self.give_up(id, queued, TIMED_OUT, error.with_advice())?;
            }
            (Failure::Stage(error), _) => {
                self.give_up(id, queued, "failed", error.to_string())?;
            }
        }
        Ok(())
    }

    /// An item that failed without a verdict and is not retried by this run.
    fn give_up(
        &mut self,
        id: StageId,
        queued: Queued,
        code: &str,
        reason: String,
    ) -> Result<(), EngineError> {
        let reject = Reject::new(code, reason);
        self.judge(id, Unfit { queued, reject, is_verdict: false })
    }

    pub fn requeue(&mut self, id: StageId, queued: Queued) {
        if let Some(stage) = self.board[id].items_mut() {
            stage.queue.push(queued);
        }
    }

    fn retry(&mut self, id: StageId, queued: Queued) {
        let (what, attempt) = (queued.item.id.to_string(), queued.attempt);
        self.tell(Event::Retried { stage: self.name(id), what, attempt });
        self.requeue(id, queued);
    }

    /// A worker that dies repeatedly without any result fails the stage.
    fn count_death(&mut self, id: StageId, message: &str) -> Result<(), EngineError> {
        self.board[id].deaths += 1;
        let limit = DEATHS + self.pipeline.stage(id).policy.retries;
        match self.board[id].deaths > limit {
            true => self.fail_for_now(id, &StageError::failed(message)),
            false => Ok(()),
        }
    }

    /// A batch did not fit: smaller ones are used from now on.
    fn halve(&mut self, id: StageId, batch: Batch, message: String) {
        let spec = self.pipeline.stage(id);
        let Some(stage) = self.board[id].items_mut() else { return };
        let Some(half) = stage.halve(spec.kind.batching, batch) else { return };
        let is_counted = matches!(spec.kind.batching, Batching::ByCount { .. });
        let (bytes, items) = ((!is_counted).then_some(half), is_counted.then_some(half));
        self.tell(Event::BatchHalved { stage: spec.name.clone(), bytes, items, message });
    }

    /// Recorded for the next run. Not after the death of a worker, which may have had other causes.
    fn remember_limit(&mut self, id: StageId) -> Result<(), EngineError> {
        let limit = self.board[id].items().and_then(|stage| stage.batch_limit);
        let Some(limit) = limit else { return Ok(()) };
        let place = KeptLimit::of(self.pipeline.stage(id), &self.artifacts(id));
        place.keep(self.store.cache(), limit)?;
        self.committer.note(Vec::new());
        Ok(())
    }

    /// Quarantines an item, unless the program is to blame.
    fn judge(&mut self, id: StageId, unfit: Unfit) -> Result<(), EngineError> {
        self.board[id].counts.executed += 1;
        let judged = match self.board[id].items_mut() {
            Some(stage) => match &mut stage.program_check {
                Some(check) => check.judge(unfit),
                None => Judged::Trusted(vec![unfit]),
            },
            // The program may be to blame for results after its failure as for those before it.
            None if self.pipeline.stage(id).kind.verdicts != Verdicts::Own => {
                self.free_followers(&unfit.queued);
                return Ok(());
            }
            None => Judged::Trusted(vec![unfit]),
        };
        match judged {
            Judged::Held => Ok(()),
            Judged::Broken => self.fail_broken(id),
            Judged::Trusted(held) => self.settle_held(id, held),
        }
    }

    /// An item succeeded: the program works, and earlier failures are those of the items.
    fn trust(&mut self, id: StageId) -> Result<(), EngineError> {
        let stage = self.board[id].items_mut();
        match stage.and_then(|stage| stage.program_check.take()) {
            Some(check) => self.settle_held(id, check.held),
            None => Ok(()),
        }
    }

    /// No more items come: too few failed to blame the program. True if there were any.
    pub fn trust_all(&mut self) -> Result<bool, EngineError> {
        let mut any = false;
        for id in self.pipeline.ids() {
            let check = self.board[id].items().and_then(|stage| stage.program_check.as_ref());
            any |= check.is_some_and(|check| !check.held.is_empty());
            self.trust(id)?;
        }
        Ok(any)
    }

    fn settle_held(&mut self, id: StageId, held: Vec<Unfit>) -> Result<(), EngineError> {
        if let Some(stage) = self.board[id].items_mut() {
            stage.program_check = None;
        }
        held.into_iter().try_for_each(|Unfit { queued, reject, is_verdict }| match is_verdict {
            true => self.keep(id, queued, ItemRecord::Rejected(reject)),
            false => self.item_fails(id, queued, reject),
        })
    }

    fn fail_broken(&mut self, id: StageId) -> Result<(), EngineError> {
        let stage = self.board[id].items_mut();
        let Some(check) = stage.and_then(|stage| stage.program_check.take()) else { return Ok(()) };
        self.fail_for_now(id, &check.error())?;
        check.held.iter().for_each(|unfit| self.free_followers(&unfit.queued));
        Ok(())
    }

    /// Items with the key of a failed one are decided by their own stages.
    pub fn free_followers(&mut self, queued: &Queued) {
        for (id, follower) in self.followers.remove(&queued.key).unwrap_or_default() {
            self.requeue(id, follower);
        }
    }

    /// The item is quarantined for this run only; too many of them fail the stage.
    fn item_fails(
        &mut self,
        id: StageId,
        queued: Queued,
        reject: Reject,
    ) -> Result<(), EngineError> {
        self.tell_quarantined(id, &queued.item.id, &reject);
        let slot = Slot::Failed(reject.clone());
        self.decide(id, queued.bucket, queued.item.id.clone(), slot)?;
        let Some(stage) = self.board[id].items() else { return Ok(()) };
        let aside = stage.failures.len() + stage.rejects.len();
        let limit = self.pipeline.stage(id).policy.quarantine;
        if limit.is_exceeded(aside as u64, stage.total) && !stage.is_late {
            let aside = [&stage.rejects[..], &stage.failures[..]].concat();
            self.keep_excess(id, aside)?;
            let error = StageError::with_help(
                format!("item `{}`: {}", queued.item.id, reject.reason),
                "the next run tries these items again",
            );
            self.fail_for_now(id, &error)?;
        }
        Ok(())
    }
}
