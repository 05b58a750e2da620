//! The plan of an item stage: whole buckets first, then single items where they differ.

use std::sync::Arc;

use cache::{CacheError, Digest};
use stage_core::key::{ItemReads, chunk_key};
use stage_core::{Bucket, Expands, Item, Reject, children};

use super::earlier::{Earlier, Outcomes};
use super::value::{ExpectedItem, PartialBucket, PartialDataset, PartialItem, PlannedValue};
use super::work::{ItemPlan, ItemWork, OpenBucket};
use crate::error::PlanError;
use crate::pipeline::{ITEMS, Reads, StageSpec};
use crate::record::{CHUNK, ChunkRecord, ItemRecord, StageRecord, decode};
use crate::store::{ItemState, Store};
use crate::tables::{ClosedBucket, close_bucket, close_dataset};

/// The fields that an item stage reads of each item.
pub fn item_reads(spec: &StageSpec) -> ItemReads {
    match spec.inputs.get(ITEMS).map(|input| &input.reads) {
        Some(Reads::Fields { names, id }) => ItemReads::new(names, *id),
        _ => ItemReads::new([""; 0], true),
    }
}

/// The counts of an item plan.
#[derive(Default)]
pub struct ItemCounts {
    pub todo: u64,
    pub pending: u64,
    pub reused: u64,
    pub rejects: Vec<(Arc<str>, Reject)>,
    pub lost: Vec<Digest>,
}

pub struct ItemPlanner<'a> {
    pub store: &'a Store,
    pub job: Digest,
    pub reads: ItemReads,
    pub expands: Option<Expands>,
    /// The outcomes of the last run; None if every blob of a known outcome is checked.
    pub earlier: Option<Earlier<'a>>,
    /// Check every blob of a known outcome: some object is known to be lost.
    pub deep: bool,
}

impl ItemPlanner<'_> {
    pub fn plan(&self, input: &PlannedValue) -> Result<(ItemWork, ItemCounts), PlanError> {
        let buckets = self.buckets(input)?;
        let mut counts = ItemCounts::default();
        let mut work = ItemWork {
            job: Some(self.job),
            bits: buckets.bits,
            expands: self.expands,
            ..ItemWork::default()
        };
        let known = self.known_chunks(&buckets)?;
        for (bucket, known) in buckets.buckets.into_iter().zip(known) {
            match (bucket, known) {
                (PartialBucket::Closed(bucket), Some(record)) => {
                    take_known(bucket, record, &mut work, &mut counts);
                }
                (PartialBucket::Closed(bucket), None) => {
                    let items = self.store.chunk(&bucket.chunk)?.items;
                    let items = items.into_iter().map(PartialItem::Known).collect();
                    let outcomes = self.outcomes(work.bits, bucket.number)?;
                    let items = self.items(items, outcomes, &mut counts)?;
                    let chunk = Some(bucket.chunk);
                    work.open.push(OpenBucket { number: bucket.number, chunk, items });
                }
                (PartialBucket::Open { number, items }, _) => {
                    let outcomes = self.outcomes(work.bits, number)?;
                    let items = self.items(items, outcomes, &mut counts)?;
                    work.open.push(OpenBucket { number, chunk: None, items });
                }
            }
        }
        Ok((work, counts))
    }

    fn buckets(&self, input: &PlannedValue) -> Result<PartialDataset, PlanError> {
        match input {
            PlannedValue::Root { root, .. } => {
                let dataset = self.store.dataset(root)?;
                let buckets = dataset.buckets.into_iter().map(PartialBucket::Closed).collect();
                Ok(PartialDataset { bits: dataset.bits, buckets })
            }
            PlannedValue::Partial(partial) => Ok((**partial).clone()),
            PlannedValue::Artifact(_) | PlannedValue::Unknown => Ok(PartialDataset::default()),
        }
    }

    /// The recorded outcomes of whole buckets.
    fn known_chunks(&self, data: &PartialDataset) -> Result<Vec<Option<ChunkRecord>>, PlanError> {
        let key = |bucket: &PartialBucket| match bucket {
            PartialBucket::Closed(bucket) => chunk_key(&self.job, &bucket.chunk),
            PartialBucket::Open { .. } => Digest::from_bytes([0; 32]),
        };
        let keys: Vec<Digest> = data.buckets.iter().map(key).collect();
        let records = self.store.cache().get_many(CHUNK, &keys)?;
        let records: Vec<Option<ChunkRecord>> =
            records.into_iter().map(|bytes| decode(&bytes?)).collect();
        let chunks: Vec<Digest> =
            records.iter().flatten().filter_map(|record| record.chunk).collect();
        let mut there = self.store.have(&chunks)?.into_iter();
        let mut known = Vec::with_capacity(records.len());
        for record in records {
            known.push(match record {
                Some(record) => self.holds(&record, &mut there)?.then_some(record),
                None => None,
            });
        }
        Ok(known)
    }

    /// Tests if all objects of a bucket's outcome exist. The next value of `there` is for its chunk.
    fn holds(
        &self,
        record: &ChunkRecord,
        there: &mut impl Iterator<Item = bool>,
    ) -> Result<bool, PlanError> {
        let Some(chunk) = &record.chunk else { return Ok(true) };
        if there.next() != Some(true) {
            return Ok(false);
        }
        if !self.deep {
            return Ok(true);
        }
        for item in self.store.chunk(chunk)?.items {
            let blobs: Vec<Digest> = item.fields.blobs().map(|blob| blob.digest).collect();
            if self.store.have(&blobs)?.contains(&false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn outcomes(&self, bits: u8, number: u32) -> Result<Option<Outcomes>, PlanError> {
        let earlier = self.earlier.as_ref().map(|earlier| earlier.outcomes(bits, number));
        earlier.transpose().map(Option::flatten)
    }

    fn items(
        &self,
        items: Vec<PartialItem>,
        outcomes: Option<Outcomes>,
        counts: &mut ItemCounts,
    ) -> Result<Vec<ItemPlan>, PlanError> {
        let mut plans: Vec<Option<ItemPlan>> = items
            .iter()
            .map(|item| match item {
                PartialItem::Pending(id, expected) => {
                    Some(ItemPlan::Pending(id.clone(), *expected))
                }
                PartialItem::Known(item) => outcomes.as_ref()?.of(item),
            })
            .collect();
        let left = items.into_iter().zip(&plans).enumerate();
        let left: Vec<(usize, Item)> = left
            .filter_map(|(at, item)| match item {
                (PartialItem::Known(item), None) => Some((at, item)),
                _ => None,
            })
            .collect();
        let keys: Vec<Digest> =
            left.iter().map(|(_, item)| self.reads.see(item).key(&self.job)).collect();
        let records = self.store.item_records(&keys)?;
        for (((at, item), key), record) in left.into_iter().zip(keys).zip(records) {
            plans[at] = Some(self.plan_item(item, key, record, &mut counts.lost));
        }
        let plans: Vec<ItemPlan> = plans.into_iter().flatten().collect();
        plans.iter().for_each(|plan| counts.add(plan));
        Ok(plans)
    }

    fn plan_item(
        &self,
        item: Item,
        key: Digest,
        known: ItemState,
        lost: &mut Vec<Digest>,
    ) -> ItemPlan {
        match known {
            (Some(ItemRecord::Done { .. }), Some(gone)) => {
                lost.push(gone);
                ItemPlan::Todo { item, key }
            }
            (Some(ItemRecord::Done { fields, .. }), None) if self.expands.is_some() => {
                ItemPlan::Expanded(item.id.clone(), children(&item, &fields))
            }
            (Some(ItemRecord::Done { fields, .. }), None) => ItemPlan::Known(merged(item, &fields)),
            (Some(ItemRecord::Rejected(reject)), _) => ItemPlan::Rejected(item.id, reject),
            (None, _) => ItemPlan::Todo { item, key },
        }
    }
}

impl ItemCounts {
    fn add(&mut self, plan: &ItemPlan) {
        match plan {
            ItemPlan::Known(_) | ItemPlan::Expanded(..) => self.reused += 1,
            ItemPlan::Rejected(id, reject) => {
                self.reused += 1;
                self.rejects.push((id.clone(), reject.clone()));
            }
            ItemPlan::Todo { .. } => self.todo += 1,
            ItemPlan::Pending(_, expected) => self.pending += u64::from(expected.items),
        }
    }
}

/// The output item of a stage: the input with the fields that the stage wrote.
pub fn merged(mut item: Item, written: &stage_core::Fields) -> Item {
    for (name, value) in written.iter() {
        item.fields.set(name.clone(), value.clone());
    }
    item
}

fn take_known(bucket: Bucket, record: ChunkRecord, work: &mut ItemWork, counts: &mut ItemCounts) {
    counts.reused += u64::from(bucket.items);
    if let Some(chunk) = record.chunk {
        work.closed.push(Bucket { number: bucket.number, chunk, items: record.items });
    }
    counts.rejects.extend(record.rejects);
}

impl ItemWork {
    /// The input of downstream stages, as far as it is known.
    pub fn output(&self) -> PartialDataset {
        let mut buckets: Vec<PartialBucket> =
            self.closed.iter().copied().map(PartialBucket::Closed).collect();
        for bucket in &self.open {
            let mut items = Vec::with_capacity(bucket.items.len());
            bucket.items.iter().for_each(|item| self.pass_on(item, &mut items));
            buckets.push(PartialBucket::Open { number: bucket.number, items });
        }
        PartialDataset { bits: self.bits, buckets }
    }

    fn pass_on(&self, item: &ItemPlan, items: &mut Vec<PartialItem>) {
        let pending = |id: &Arc<str>, expected: ExpectedItem| {
            PartialItem::Pending(id.clone(), expected.expanded(self.expands))
        };
        match item {
            ItemPlan::Known(item) => items.push(PartialItem::Known(item.clone())),
            ItemPlan::Expanded(_, children) => {
                items.extend(children.iter().cloned().map(PartialItem::Known));
            }
            ItemPlan::Rejected(..) => {}
            ItemPlan::Todo { item, .. } => {
                items.push(pending(&item.id, ExpectedItem::of(&item.fields)));
            }
            ItemPlan::Pending(id, expected) => items.push(pending(id, *expected)),
        }
    }

    /// Nothing to execute and nothing pending: only the tables have to be written.
    pub fn is_settled(&self) -> bool {
        let is_open =
            |item: &ItemPlan| matches!(item, ItemPlan::Todo { .. } | ItemPlan::Pending(..));
        !self.open.iter().any(|bucket| bucket.items.iter().any(is_open))
    }
}

impl ItemWork {
    /// The outcome of an item stage without work: only tables are written.
    pub fn settle(
        &self,
        store: &Store,
        spec: &StageSpec,
        counts: &ItemCounts,
        seconds: f64,
    ) -> Result<StageRecord, CacheError> {
        let mut buckets = self.closed.clone();
        let job = self.job.unwrap_or(Digest::from_bytes([0; 32]));
        for bucket in &self.open {
            let mut closed = ClosedBucket {
                number: bucket.number,
                chunk: bucket.chunk,
                items: Vec::new(),
                rejects: Vec::new(),
            };
            for item in &bucket.items {
                match item {
                    ItemPlan::Known(item) => closed.items.push(item.clone()),
                    ItemPlan::Expanded(_, items) => closed.items.extend(items.iter().cloned()),
                    ItemPlan::Rejected(id, reject) => {
                        closed.rejects.push((id.clone(), reject.clone()));
                    }
                    ItemPlan::Todo { .. } | ItemPlan::Pending(..) => {}
                }
            }
            buckets.extend(close_bucket(store, &job, closed)?);
        }
        let value = close_dataset(store, self.bits, buckets)?;
        let port = spec.kind.outputs.first().map_or("output", |port| port.name);
        Ok(StageRecord {
            outputs: [(port.to_owned(), value)].into(),
            rejects: counts.rejects.clone(),
            items: counts.reused,
            seconds,
            ..StageRecord::default()
        })
    }
}
