//! The state of a running item stage: its buckets, and its pending items.

use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

use cache::Digest;
use stage_core::{Bucket, Expands, Item, Reject};

use super::intake::Intake;
use super::program_check::ProgramCheck;
use super::queue::QueuedItem;
use crate::plan::{ExpectedItem, ItemPlan, ItemWork, PartialBucket, PartialDataset, PartialItem};
use crate::run::message::JobHandle;
use crate::tables::ClosedBucket;

pub struct ItemStage {
    pub intake: Arc<Intake>,
    pub job: Arc<JobHandle>,
    pub bits: u8,
    /// The stage makes several items of one.
    pub expands: Option<Expands>,
    pub closed: Vec<Bucket>,
    pub open: HashMap<u32, RunBucket>,
    pub queue: BinaryHeap<QueuedItem>,
    /// Items that another process works on.
    pub elsewhere: VecDeque<QueuedItem>,
    pub running: usize,
    pub rejects: Vec<(Arc<str>, Reject)>,
    /// Items that failed without a recordable verdict, with reasons.
    pub failures: Vec<(Arc<str>, Reject)>,
    /// Present while the first failures may be caused by a broken program.
    pub program_check: Option<ProgramCheck>,
    /// An item of a trial has exceeded its time limit: the other items are left.
    pub is_late: bool,
    /// The batch size that fitted after an out-of-memory error.
    pub batch_limit: Option<u64>,
    /// A running mean of the seconds per item.
    pub pace: f64,
    pub total: u64,
}

/// A bucket with items to execute or pending items.
#[derive(Default)]
pub struct RunBucket {
    /// The input, once the upstream stage has closed its bucket.
    pub arrived: Option<BucketInput>,
    pub slots: BTreeMap<Arc<str>, Slot>,
    /// The number of undecided slots.
    pub undecided: usize,
    /// Contains an outcome that must not be recorded.
    pub tainted: bool,
}

#[derive(Clone, Copy)]
pub struct BucketInput {
    /// `None` if every item of the bucket was quarantined upstream.
    pub chunk: Option<Digest>,
}

pub enum Slot {
    Undecided(ExpectedItem),
    Known(Item),
    /// The item has become these.
    Expanded(Vec<Item>),
    Rejected(Reject),
    Failed(Reject),
    /// It is not executed, since its trial has failed.
    Left,
}

impl Slot {
    /// The items that go on to the stages below.
    pub fn items(&self) -> &[Item] {
        match self {
            Slot::Known(item) => std::slice::from_ref(item),
            Slot::Expanded(items) => items,
            Slot::Undecided(_) | Slot::Rejected(_) | Slot::Failed(_) | Slot::Left => &[],
        }
    }
}

impl ItemStage {
    pub fn new(work: ItemWork, intake: Intake, job: Arc<JobHandle>) -> ItemStage {
        let mut stage = ItemStage {
            intake: Arc::new(intake),
            job,
            bits: work.bits,
            expands: work.expands,
            closed: work.closed,
            open: HashMap::new(),
            queue: BinaryHeap::new(),
            elsewhere: VecDeque::new(),
            running: 0,
            rejects: Vec::new(),
            failures: Vec::new(),
            program_check: None,
            is_late: false,
            batch_limit: None,
            pace: 0.0,
            total: 0,
        };
        for bucket in work.open {
            let arrived = bucket.chunk.map(|chunk| BucketInput { chunk: Some(chunk) });
            let run = RunBucket { arrived, ..RunBucket::default() };
            stage.open.insert(bucket.number, run);
            bucket.items.into_iter().for_each(|item| stage.take(bucket.number, item));
        }
        stage
    }

    fn take(&mut self, number: u32, item: ItemPlan) {
        let Some(bucket) = self.open.get_mut(&number) else { return };
        match item {
            ItemPlan::Known(item) => {
                bucket.slots.insert(item.id.clone(), Slot::Known(item));
            }
            ItemPlan::Expanded(id, items) => {
                bucket.slots.insert(id, Slot::Expanded(items));
            }
            ItemPlan::Rejected(id, reject) => {
                bucket.slots.insert(id, Slot::Rejected(reject));
            }
            ItemPlan::Pending(id, expected) => {
                bucket.undecided += 1;
                bucket.slots.insert(id, Slot::Undecided(expected));
            }
            ItemPlan::Todo { item, key } => {
                bucket.undecided += 1;
                let expected = ExpectedItem::of(&item.fields);
                bucket.slots.insert(item.id.clone(), Slot::Undecided(expected));
                self.queue.push(QueuedItem::new(&self.intake.reads, number, item, key));
            }
        }
    }

    /// Decides an item. True if it was undecided before.
    pub fn decide(&mut self, number: u32, id: &Arc<str>, slot: Slot) -> bool {
        let Some(bucket) = self.open.get_mut(&number) else { return false };
        let Some(open @ Slot::Undecided(_)) = bucket.slots.get_mut(id) else { return false };
        bucket.undecided -= 1;
        match &slot {
            Slot::Rejected(reject) => self.rejects.push((id.clone(), reject.clone())),
            Slot::Failed(reject) => {
                bucket.tainted = true;
                self.failures.push((id.clone(), reject.clone()));
            }
            Slot::Left => bucket.tainted = true,
            Slot::Known(_) | Slot::Expanded(_) | Slot::Undecided(_) => {}
        }
        *open = slot;
        true
    }

    /// Removes an item that the upstream stage has quarantined from its bucket.
    pub fn withdraw(&mut self, number: u32, id: &Arc<str>) {
        let Some(bucket) = self.open.get_mut(&number) else { return };
        if let Some(Slot::Undecided(_)) = bucket.slots.get(id) {
            bucket.slots.remove(id);
            bucket.undecided -= 1;
        }
    }

    /// An upstream stage has made these items of one that was expected. False if it was not.
    pub fn expand(&mut self, number: u32, parent: &Arc<str>, children: &[Item]) -> bool {
        let Some(bucket) = self.open.get_mut(&number) else { return false };
        let Some(Slot::Undecided(expected)) = bucket.slots.get(parent) else { return false };
        let expected = u64::from(expected.items);
        bucket.slots.remove(parent);
        bucket.undecided += children.len();
        bucket.undecided -= 1;
        for child in children {
            let one = ExpectedItem::of(&child.fields);
            bucket.slots.insert(child.id.clone(), Slot::Undecided(one));
        }
        self.total = (self.total + children.len() as u64).saturating_sub(expected);
        true
    }

    /// Tests if the item is expected and undecided.
    pub fn awaits(&self, number: u32, id: &Arc<str>) -> bool {
        let slot = self.open.get(&number).and_then(|bucket| bucket.slots.get(id));
        matches!(slot, Some(Slot::Undecided(_)))
    }

    /// Tests if all items of a bucket have arrived and none is undecided.
    pub fn may_close(&self, number: u32) -> bool {
        let bucket = self.open.get(&number);
        bucket.is_some_and(|bucket| bucket.undecided == 0 && bucket.arrived.is_some())
    }

    /// Removes the bucket when all items have arrived and none is undecided. A bucket with a
    /// failure has no input chunk, so that it is not recorded.
    pub fn close(&mut self, number: u32) -> Option<ClosedBucket> {
        let bucket = self.open.get(&number)?;
        let arrived = bucket.arrived.filter(|_| bucket.undecided == 0)?;
        let bucket = self.open.remove(&number)?;
        let mut closed = ClosedBucket {
            number,
            chunk: arrived.chunk.filter(|_| !bucket.tainted),
            items: Vec::new(),
            rejects: Vec::new(),
        };
        for (id, slot) in bucket.slots {
            match slot {
                Slot::Known(item) => closed.items.push(item),
                Slot::Expanded(items) => closed.items.extend(items),
                Slot::Rejected(reject) => closed.rejects.push((id, reject)),
                Slot::Failed(_) | Slot::Left | Slot::Undecided(_) => {}
            }
        }
        Some(closed)
    }

    /// The input for planning downstream stages at this moment.
    pub fn snapshot(&self) -> PartialDataset {
        let mut buckets: Vec<PartialBucket> =
            self.closed.iter().copied().map(PartialBucket::Closed).collect();
        for (number, bucket) in &self.open {
            let mut items = Vec::with_capacity(bucket.slots.len());
            for (id, slot) in &bucket.slots {
                match slot {
                    Slot::Known(item) => items.push(PartialItem::Known(item.clone())),
                    Slot::Expanded(children) => {
                        items.extend(children.iter().cloned().map(PartialItem::Known));
                    }
                    Slot::Undecided(expected) => {
                        let expected = expected.expanded(self.expands);
                        items.push(PartialItem::Pending(id.clone(), expected));
                    }
                    Slot::Rejected(_) | Slot::Failed(_) | Slot::Left => {}
                }
            }
            buckets.push(PartialBucket::Open { number: *number, items });
        }
        PartialDataset { bits: self.bits, buckets }
    }

    pub fn is_complete(&self) -> bool {
        self.open.is_empty()
    }
}
