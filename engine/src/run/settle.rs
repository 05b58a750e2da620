//! Results: the effect of a finished task on its items and on downstream stages.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cache::{CacheError, Digest};
use stage_core::event::Event;
use stage_core::{Batching, Item, Reject, StageError, Verdicts};

use super::batch::{Batch, KeptLimit};
use super::intake::Passed;
use super::item_results::{batch, keep};
use super::item_stage::{Arrived, Slot};
use super::message::{Failure, ItemOutcome, Outcome};
use super::program_check::{Judged, Unfit};
use super::queue::Queued;
use super::results::{ItemEnd, ItemResult, ItemResults};
use super::schedule::{InFlight, Schedule};
use crate::engine::EngineError;
use crate::measure::MEGABYTE;
use crate::pipeline::StageId;
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
        Outcome::Results(Ok(results)) => results.executed().any(|outcome| !is_done(outcome)),
        Outcome::Results(Err(_)) => true,
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
        let Some(task) = self.in_flight.remove(&ticket) else {
            // A task that was given up on may still return. What it has recorded is not durable yet.
            if let Outcome::Results(Ok(results)) = outcome {
                self.committer.note(results.claims);
            }
            return Ok(());
        };
        self.hands.returned(ticket);
        if !lost.is_empty() {
            self.note_lost(task.stage, &lost);
        }
        if has_failed(&outcome) {
            self.require_in_place()?;
        }
        match outcome {
            Outcome::Gather(result) => self.gather_done(task, result, (written, took)),
            Outcome::Items(outcomes) => {
                let route = self.route(task.stage);
                let each = keep(&self.store, &route, task.items.iter().zip(outcomes))?;
                self.items_done(task, ItemResults { each, claims: Vec::new() }, took)
            }
            Outcome::Results(results) => self.items_done(task, results?, took),
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
        results: ItemResults,
        took: Option<Duration>,
    ) -> Result<(), EngineError> {
        let id = task.stage;
        if let Some(stage) = self.board[id].items_mut() {
            stage.running -= task.items.len();
        }
        self.board[id].counts.seconds +=
            took.unwrap_or_else(|| task.started.elapsed()).as_secs_f64();
        self.allowance.saw_task(task.started);
        let batch = batch(&results, &task.items);
        let handling = took.map_or(0.0, |took| results.handling(took.as_secs_f64()));
        if let Some(ItemOutcome::Failed(Failure::Died { message })) = results.executed().next() {
            self.count_death(id, message)?;
        }
        let items = Arc::unwrap_or_clone(task.items);
        for (queued, ItemResult { end, passed }) in items.into_iter().zip(results.each) {
            match end {
                ItemEnd::Known(record) => self.resolve_known(id, queued, record, passed)?,
                ItemEnd::Elsewhere => {
                    self.free_followers(&queued);
                    if let Some(stage) = self.board[id].items_mut() {
                        stage.elsewhere.push_back(queued);
                    }
                }
                ItemEnd::Executed(ItemOutcome::Failed(failure)) => {
                    self.item_failed(id, queued, failure, (batch.items > 1).then_some(batch))?;
                }
                ItemEnd::Executed(good) => self.item_done(id, queued, good, (passed, handling))?,
            }
        }
        self.committer.note(results.claims);
        self.committer.expect(self.board.bytes_to_come());
        self.committer.start_if_due(&self.store);
        Ok(())
    }

    /// Passes a recorded outcome on, for the item and for those with the same key.
    fn item_done(
        &mut self,
        id: StageId,
        queued: Queued,
        outcome: ItemOutcome,
        (passed, handling): (Option<Passed>, f64),
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
                return self.judge(id, Unfit { queued, reject, is_verdict: true });
            }
            ItemOutcome::Failed(_) => return Ok(()),
        };
        self.apply_to_all(id, queued, record, passed)
    }

    /// Records a verdict and passes it on.
    fn keep_verdict(
        &mut self,
        id: StageId,
        queued: Queued,
        reject: Reject,
    ) -> Result<(), EngineError> {
        let record = ItemRecord::Rejected(reject);
        self.store.cache().record(ITEM, &queued.key, encode(&record))?;
        self.apply_to_all(id, queued, record, None)
    }

    /// An outcome that existed already.
    pub fn resolve_known(
        &mut self,
        id: StageId,
        queued: Queued,
        record: ItemRecord,
        passed: Option<Passed>,
    ) -> Result<(), EngineError> {
        self.board[id].counts.reused += 1;
        self.apply_to_all(id, queued, record, passed)
    }

    /// Applies an outcome to an item and to those that wait for the same key.
    fn apply_to_all(
        &mut self,
        id: StageId,
        queued: Queued,
        record: ItemRecord,
        passed: Option<Passed>,
    ) -> Result<(), EngineError> {
        for (id, follower) in self.followers.remove(&queued.key).unwrap_or_default() {
            self.board[id].counts.reused += 1;
            self.apply(id, follower, record.clone(), None)?;
        }
        self.apply(id, queued, record, passed)
    }

    fn apply(
        &mut self,
        id: StageId,
        queued: Queued,
        record: ItemRecord,
        passed: Option<Passed>,
    ) -> Result<(), EngineError> {
        match record {
            ItemRecord::Done { fields, notes, .. } => {
                for (note, count) in notes {
                    *self.board[id].notes.entry(note).or_default() += count;
                }
                let passed = passed.unwrap_or_else(|| self.route(id).pass(&queued, &fields));
                self.pass_on(id, &queued, passed)
            }
            ItemRecord::Rejected(reject) => {
                let name = queued.item.id;
                self.tell_quarantined(id, &name, &reject);
                self.decide(id, queued.bucket, name, Slot::Rejected(reject))
            }
        }
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

    /// Decides an item that goes no further, and withdraws it from downstream stages.
    pub fn decide(
        &mut self,
        id: StageId,
        bucket: u32,
        item: Arc<str>,
        slot: Slot,
    ) -> Result<(), EngineError> {
        let stage = self.board[id].items_mut();
        if !stage.is_some_and(|stage| stage.decide(bucket, &item, slot)) {
            return Ok(());
        }
        let mut waiting = VecDeque::from(self.item_consumers(id));
        self.close(id, bucket)?;
        while let Some(below) = waiting.pop_front() {
            let Some(stage) = self.board[below].items_mut() else { continue };
            stage.withdraw(bucket, &item);
            waiting.extend(self.item_consumers(below));
            self.close(below, bucket)?;
        }
        Ok(())
    }

    /// Decides an item of a stage and hands its output to downstream stages. Known outcomes of the
    /// arriving items are looked up by their executors.
    fn pass_on(&mut self, id: StageId, queued: &Queued, passed: Passed) -> Result<(), EngineError> {
        let (name, bucket) = (&queued.item.id, queued.bucket);
        let Passed { slot, mut arrivals } = passed;
        for below in self.item_consumers(id) {
            // It may have started since the output was prepared.
            if let Some(stage) = self.board[below].items()
                && !arrivals.iter().any(|(prepared, _)| *prepared == below)
            {
                let intake = &stage.intake;
                let items = slot.items().iter();
                arrivals.extend(items.map(|item| (below, intake.queued(bucket, item.clone()))));
            }
        }
        let children = match &slot {
            Slot::Expanded(items) => Some(items.clone()),
            _ => None,
        };
        let stage = self.board[id].items_mut();
        if !stage.is_some_and(|stage| stage.decide(bucket, name, slot)) {
            return Ok(());
        }
        if let Some(children) = children {
            self.expand_below(id, bucket, name, &children);
        }
        for (below, arriving) in arrivals {
            if let Some(stage) = self.board[below].items_mut()
                && stage.awaits(bucket, &arriving.item.id)
            {
                stage.queue.push(arriving);
            }
        }
        self.close(id, bucket)
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

    /// Writes a bucket once everything in it is decided, and tells downstream stages.
    pub fn close(&mut self, id: StageId, number: u32) -> Result<(), EngineError> {
        if !self.board[id].items().is_some_and(|stage| stage.may_close(number)) {
            return Ok(());
        }
        let mut closing = VecDeque::from([id]);
        while let Some(id) = closing.pop_front() {
            let Some(stage) = self.board[id].items_mut() else { continue };
            let Some(closed) = stage.close(number) else { continue };
            let key = stage.intake.key;
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
            true => self.keep_verdict(id, queued, reject),
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
