//! The way of items into a stage and out of it, as far as the threads with tasks prepare it: the thread of the
//! schedule only moves prepared items from queue to queue.

use std::sync::Arc;

use cache::Digest;
use stage_core::key::ItemReads;
use stage_core::{Fields, Item, children};

use super::item_stage::Slot;
use super::queue::QueuedItem;
use crate::pipeline::{ITEMS, Pipeline, Reference, StageId};
use crate::plan::items::merged;

/// The part of a stage that decides on the key and the place in the queue of an item.
pub struct Intake {
    /// The part of the keys that all items share.
    pub key: Digest,
    pub reads: ItemReads,
}

impl Intake {
    pub fn queued(&self, bucket: u32, item: Item) -> QueuedItem {
        let key = self.reads.see(&item).key(&self.key);
        QueuedItem::new(&self.reads, bucket, item, key)
    }
}

/// The way of the outputs of a stage: the stages that took its items when a task was handed out.
pub struct Route {
    pub is_expanding: bool,
    pub below: Vec<(StageId, Arc<Intake>)>,
}

/// An output that is ready for its slot, and for the queues of the stages below.
pub struct Delivery {
    pub slot: Slot,
    pub arrivals: Vec<(StageId, QueuedItem)>,
}

impl Route {
    /// Prepares the output of an item from the fields that the stage wrote.
    pub fn pass(&self, queued: &QueuedItem, written: &Fields) -> Delivery {
        let slot = if self.is_expanding {
            Slot::Expanded(children(&queued.item, written))
        } else {
            Slot::Known(merged(queued.item.clone(), written))
        };
        let items = slot.items();
        let mut arrivals = Vec::with_capacity(self.below.len() * items.len());
        for (below, intake) in &self.below {
            let arriving = items.iter().map(|item| intake.queued(queued.bucket, item.clone()));
            arrivals.extend(arriving.map(|arriving| (*below, arriving)));
        }
        Delivery { slot, arrivals }
    }
}

/// By the position of a stage: the stages that take their items from it.
pub fn takers(pipeline: &Pipeline) -> Vec<Vec<StageId>> {
    let mut takers = vec![Vec::new(); pipeline.stages.len()];
    for spec in &pipeline.stages {
        let references = spec.inputs.get(ITEMS).into_iter().flat_map(|input| &input.references);
        for reference in references {
            if let Reference::Stage { stage, .. } = reference
                && takers[stage.0].last() != Some(&spec.id)
            {
                takers[stage.0].push(spec.id);
            }
        }
    }
    takers
}
