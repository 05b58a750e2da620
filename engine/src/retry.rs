//! Forgets quarantine verdicts of a stage, so that the next run tries the items again.

use std::collections::BTreeSet;
use std::sync::Arc;

use cache::{Cache, CacheError, Digest, Table};
use stage_core::key::{ItemReads, chunk_key};
use stage_core::{Item, Reject};

use crate::engine::Engine;
use crate::error::{EngineError, PlanError};
use crate::history;
use crate::options::Sink;
use crate::pipeline::{ITEMS, Pipeline, StageId, StageWork};
use crate::plan::inputs::arriving;
use crate::plan::items::item_reads;
use crate::plan::planner::Planner;
use crate::plan::sweep::failed_here_key;
use crate::plan::{PartialBucket, PartialItem, PlannedValue};
use crate::record::{
    CHUNK, ChunkRecord, FAILED, FAILED_HERE, ITEM, ItemRecord, LastRecord, STAGE, TRIES, decode,
};
use crate::store::Store;

/// Forgets the verdicts of a stage on all items, or on one. Returns the items.
///
/// Searches the present input of the stage and the input of its last run: the next run would reuse
/// a verdict from either.
pub fn forget_verdicts(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    (stage, item): (StageId, Option<&str>),
    sink: Sink,
) -> Result<BTreeSet<Arc<str>>, EngineError> {
    let spec = pipeline.stage(stage);
    let mut planner = Planner::new(engine, pipeline, cache)?;
    let plan = planner.plan(&[stage], sink)?;
    let at = |error: PlanError| error.at(spec.name.clone());
    let last = planner.last(spec).map_err(at)?;
    let mut verdicts = Verdicts { store: &planner.store, item, forgotten: BTreeSet::new() };
    if spec.work == StageWork::Item {
        let arriving = arriving(pipeline, &plan.stages, &planner.assets, spec);
        let job = arriving.job_key(&planner.file_digests(spec)).digest();
        let work = (job, item_reads(spec));
        verdicts.forget_in(&work, arriving.items(), last.as_ref()).map_err(at)?;
    }
    let now = plan.stage(stage).known.keyed.as_ref().map(|keyed| keyed.digest);
    let then = last.map(|last| last.key.digest());
    for key in now.into_iter().chain(then) {
        verdicts.forget_outcome(&key)?;
        let records = [(FAILED, key), (FAILED_HERE, failed_here_key(spec, &key)), (TRIES, key)];
        for (table, key) in records {
            // A full disk has no room for needless records.
            if cache.get(table, &key)?.is_some() {
                verdicts.forget(table, &key)?;
            }
        }
    }
    let forgotten = verdicts.forgotten;
    cache.commit()?;
    Ok(forgotten)
}

/// The part of the keys that all items of a stage share, and the fields that it reads.
type Work = (Digest, ItemReads);

struct Verdicts<'a> {
    store: &'a Store,
    /// The only item to forget, if one is given.
    item: Option<&'a str>,
    forgotten: BTreeSet<Arc<str>>,
}

impl Verdicts<'_> {
    /// Forgets a record, also as far as remotes have it.
    fn forget(&self, table: Table, key: &Digest) -> Result<(), CacheError> {
        remote::ignore(self.store.cache(), table, key)?;
        if let (STAGE, Some(remote)) = (table, self.store.remote()) {
            remote.forget_outcome(key)?;
        }
        self.store.cache().forget(table, key)
    }

    fn is_selected(&self, id: &str) -> bool {
        self.item.is_none_or(|item| item == id)
    }

    fn forget_in(
        &mut self,
        work: &Work,
        arriving: Option<&PlannedValue>,
        last: Option<&LastRecord>,
    ) -> Result<(), PlanError> {
        match arriving {
            Some(PlannedValue::Root { root, .. }) => self.forget_in_dataset(work, root)?,
            Some(PlannedValue::Partial(partial)) => {
                for bucket in &partial.buckets {
                    self.forget_in_bucket(work, bucket)?;
                }
            }
            _ => {}
        }
        let root = last.and_then(|last| last.roots.get(ITEMS)?.first());
        match root {
            Some(root) if self.store.has(root)? => self.forget_in_dataset(work, root),
            _ => Ok(()),
        }
    }

    fn forget_in_dataset(&mut self, work: &Work, root: &Digest) -> Result<(), PlanError> {
        for bucket in self.store.dataset(root)?.buckets {
            self.forget_in_bucket(work, &PartialBucket::Closed(bucket))?;
        }
        Ok(())
    }

    fn forget_in_bucket(&mut self, work: &Work, bucket: &PartialBucket) -> Result<(), PlanError> {
        match bucket {
            PartialBucket::Closed(bucket) => {
                self.forget_items(work, &self.store.chunk(&bucket.chunk)?.items)?;
                self.forget_bucket(&chunk_key(&work.0, &bucket.chunk))
            }
            PartialBucket::Open { items, .. } => {
                let known = items.iter().filter_map(|item| match item {
                    PartialItem::Known(item) => Some(item.clone()),
                    PartialItem::Pending(..) => None,
                });
                self.forget_items(work, &known.collect::<Vec<Item>>())
            }
        }
    }

    fn forget_items(&mut self, (job, reads): &Work, items: &[Item]) -> Result<(), PlanError> {
        let keys: Vec<Digest> = items.iter().map(|item| reads.see(item).key(job)).collect();
        let records = self.store.known_items(&keys)?;
        for ((item, key), record) in items.iter().zip(&keys).zip(records) {
            // Items that a person has dropped are decided, so they are not tried again.
            let is_verdict =
                matches!(record, Some(ItemRecord::Rejected(reject)) if reject.is_fault());
            if is_verdict && self.is_selected(&item.id) {
                self.forget(ITEM, key)?;
                self.forgotten.insert(item.id.clone());
            }
        }
        Ok(())
    }

    /// The outcome of a bucket: its other items are known one by one.
    fn forget_bucket(&mut self, key: &Digest) -> Result<(), PlanError> {
        let record = self.store.cache().get(CHUNK, key)?;
        if let Some(record) = record.and_then(|bytes| decode::<ChunkRecord>(&bytes))
            && self.take(&record.rejects)
        {
            self.forget(CHUNK, key)?;
        }
        Ok(())
    }

    fn forget_outcome(&mut self, key: &Digest) -> Result<(), CacheError> {
        if let Some(record) = history::outcome_of(self.store.cache(), key)?
            && self.take(&record.rejects)
        {
            self.forget(STAGE, key)?;
        }
        Ok(())
    }

    /// True when these contain a matching verdict.
    fn take(&mut self, rejects: &[(Arc<str>, Reject)]) -> bool {
        let faults = rejects.iter().filter(|(_, reject)| reject.is_fault());
        let meant: Vec<Arc<str>> =
            faults.map(|(id, _)| id.clone()).filter(|id| self.is_selected(id)).collect();
        let any = !meant.is_empty();
        self.forgotten.extend(meant);
        any
    }
}
