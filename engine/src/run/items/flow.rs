//! The way of items through the stages of a pass: decided items go on to the queues of the stages
//! below, and buckets close.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::StageCounts;
use cache::CacheError;
use stage_core::Item;

use super::intake::{Delivery, Route};
use super::item_stage::{BucketInput, Slot};
use super::queue::QueuedItem;
use crate::pipeline::{StageId, StageSpec};
use crate::run::board::Board;
use crate::store::Store;
use crate::tables::close_bucket;

impl Board {
    /// The way of the outputs of a stage to those that take its items now.
    pub fn route(&self, spec: &StageSpec) -> Route {
        let intake = |below: &StageId| Some((*below, self[*below].items()?.intake.clone()));
        Route {
            is_expanding: spec.kind.expands.is_some(),
            below: self.item_consumers(spec.id).iter().filter_map(intake).collect(),
        }
    }

    pub fn requeue(&mut self, id: StageId, queued: QueuedItem) {
        if let Some(stage) = self[id].items_mut() {
            stage.queue.push(queued);
        }
    }

    /// Decides an item that goes no further, and withdraws it from downstream stages.
    pub fn decide(
        &mut self,
        store: &Store,
        id: StageId,
        queued: &QueuedItem,
        slot: Slot,
    ) -> Result<(), CacheError> {
        let (item, bucket) = (&queued.item.id, queued.bucket);
        if !self[id].items_mut().is_some_and(|stage| stage.decide(bucket, item, slot)) {
            return Ok(());
        }
        let mut waiting = VecDeque::from(self.item_consumers(id));
        self.close(store, id, bucket)?;
        while let Some(below) = waiting.pop_front() {
            let Some(stage) = self[below].items_mut() else { continue };
            stage.withdraw(bucket, item);
            waiting.extend(self.item_consumers(below));
            self.close(store, below, bucket)?;
        }
        Ok(())
    }

    /// Decides an item of a stage and hands its output to downstream stages. Known outcomes of the
    /// arriving items are looked up by the threads that get them.
    pub fn pass_on(
        &mut self,
        store: &Store,
        id: StageId,
        queued: &QueuedItem,
        delivery: Delivery,
    ) -> Result<(), CacheError> {
        let (name, bucket) = (&queued.item.id, queued.bucket);
        let Delivery { slot, mut arrivals } = delivery;
        for below in self.item_consumers(id) {
            // It may have started since the output was prepared.
            if let Some(stage) = self[below].items()
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
        if !self[id].items_mut().is_some_and(|stage| stage.decide(bucket, name, slot)) {
            return Ok(());
        }
        if let Some(children) = children {
            self.expand_below(id, bucket, name, &children);
        }
        for (below, arriving) in arrivals {
            if let Some(stage) = self[below].items_mut()
                && stage.awaits(bucket, &arriving.item.id)
            {
                stage.queue.push(arriving);
            }
        }
        self.close(store, id, bucket)
    }

    /// The stages behind expect the children of an item from now on, and no longer the item.
    fn expand_below(&mut self, id: StageId, bucket: u32, parent: &Arc<str>, children: &[Item]) {
        let mut waiting = VecDeque::from(self.item_consumers(id));
        while let Some(below) = waiting.pop_front() {
            let Some(stage) = self[below].items_mut() else { continue };
            if stage.expand(bucket, parent, children) {
                waiting.extend(self.item_consumers(below));
            }
        }
    }

    /// Writes a bucket once everything in it is decided, and tells downstream stages.
    fn close(&mut self, store: &Store, id: StageId, number: u32) -> Result<(), CacheError> {
        if !self[id].items().is_some_and(|stage| stage.may_close(number)) {
            return Ok(());
        }
        let mut closing = VecDeque::from([id]);
        while let Some(id) = closing.pop_front() {
            let Some(stage) = self[id].items_mut() else { continue };
            let Some(closed) = stage.close(number) else { continue };
            let bucket = close_bucket(store, &stage.intake.key, closed)?;
            stage.closed.extend(bucket);
            if stage.is_complete() {
                self.candidates.add(id);
            }
            let arrived = Some(BucketInput { chunk: bucket.map(|bucket| bucket.chunk) });
            for below in self.item_consumers(id) {
                if let Some(stage) = self[below].items_mut()
                    && let Some(bucket) = stage.open.get_mut(&number)
                {
                    bucket.arrived = arrived;
                    closing.push_back(below);
                }
            }
        }
        Ok(())
    }

    /// Closes the buckets without work.
    pub fn close_known(&mut self, store: &Store, id: StageId) -> Result<(), CacheError> {
        let Some(stage) = self[id].items() else { return Ok(()) };
        let numbers: Vec<u32> = stage.open.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.close(store, id, number))
    }

    /// The expected output of the remaining items, from those before them. Very large if nothing is
    /// known yet.
    pub fn bytes_to_come(&self) -> u64 {
        let mut bytes = 0;
        for run in self.runs() {
            let Some(stage) = run.items() else { continue };
            let StageCounts { executed, reused, .. } = run.counts;
            let left = stage.total.saturating_sub(executed + reused);
            if executed == 0 && left > 0 {
                return u64::MAX;
            }
            let each = run.cost.taken.bytes / executed.max(1) as f64;
            bytes += (left as f64 * each) as u64;
        }
        bytes
    }
}
