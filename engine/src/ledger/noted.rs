//! The items that a stage has noted something about, such as that a clip is clipped.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::{Cache, Digest};
use stage_core::Item;

use crate::engine::Engine;
use crate::error::{EngineError, PlanError};
use crate::history;
use crate::options::Sink;
use crate::pipeline::{ITEMS, Pipeline, StageId, StageSpec, StageWork};
use crate::plan::inputs::{arriving, job_of};
use crate::plan::items::item_reads;
use crate::plan::planner::Planner;
use crate::plan::{PartialBucket, PartialItem, PlannedValue};
use crate::record::{ITEM, ItemRecord, decode};
use crate::store::{ReadError, Store};

/// An item, and the notes with their counts.
pub type Noted = (Arc<str>, Vec<(String, u64)>);

/// The items that arrive at an item stage and have notes in their outcome, by id.
pub fn noted(
    engine: &Engine,
    pipeline: &Pipeline,
    cache: &Cache,
    stage: StageId,
    sink: Sink,
) -> Result<Vec<Noted>, EngineError> {
    let spec = pipeline.stage(stage);
    let mut planner = Planner::new(engine, pipeline, cache)?;
    let plan = planner.plan(&[stage], sink)?;
    let at = |error: ReadError| PlanError::Read(error).at(spec.name.clone());
    let arriving = arriving(pipeline, &plan.stages, &planner.assets, spec);
    let job = arriving.job_key(&planner.file_digests(spec)).digest();
    let items = match arriving.items() {
        Some(planned) => items(&planner.store, planned).map_err(at)?,
        None => Vec::new(),
    };
    let reads = item_reads(spec);
    let keys: Vec<_> = items.iter().map(|item| reads.see(item).key(&job)).collect();
    let known = planner.store.known_items(&keys)?;
    let notes = |(item, record): (Item, Option<ItemRecord>)| match record {
        Some(ItemRecord::Done { notes, .. }) if !notes.is_empty() => Some((item.id, notes)),
        _ => None,
    };
    Ok(items.into_iter().zip(known).filter_map(notes).collect())
}

/// The notes on all items of an outcome, those that earlier runs have processed included. None if an
/// outcome of an item is no longer known.
pub fn totals(
    store: &Store,
    spec: &StageSpec,
    outcome: &Digest,
) -> Result<Option<BTreeMap<String, u64>>, ReadError> {
    let made_of = history::made_of(store.cache(), outcome).map_err(ReadError::Cache)?;
    let Some((key, roots)) = made_of.filter(|_| spec.work == StageWork::Item) else {
        return Ok(None);
    };
    let Some(root) = roots.get(ITEMS).and_then(|roots| roots.first()) else { return Ok(None) };
    let (job, reads) = (job_of(key).digest(), item_reads(spec));
    let mut totals = BTreeMap::new();
    for bucket in store.dataset(root)?.buckets {
        let items = store.chunk(&bucket.chunk)?.items;
        let keys: Vec<Digest> = items.iter().map(|item| reads.see(item).key(&job)).collect();
        let known = store.cache().get_many(ITEM, &keys).map_err(ReadError::Cache)?;
        for record in known {
            match record.and_then(|bytes| decode(&bytes)) {
                Some(ItemRecord::Done { notes, .. }) => {
                    for (note, count) in notes {
                        *totals.entry(note).or_default() += count;
                    }
                }
                Some(ItemRecord::Rejected(_)) => {}
                None => return Ok(None),
            }
        }
    }
    Ok(Some(totals))
}

/// The items of a data set, as far as they are known.
fn items(store: &Store, planned: &PlannedValue) -> Result<Vec<Item>, ReadError> {
    let partial = match planned {
        PlannedValue::Root { root, .. } => return store.items(root),
        PlannedValue::Partial(partial) => partial,
        PlannedValue::Artifact(_) | PlannedValue::Unknown => return Ok(Vec::new()),
    };
    let mut items = Vec::new();
    for bucket in &partial.buckets {
        match bucket {
            PartialBucket::Closed(bucket) => items.extend(store.chunk(&bucket.chunk)?.items),
            PartialBucket::Open { items: open, .. } => {
                items.extend(open.iter().filter_map(|item| match item {
                    PartialItem::Known(item) => Some(item.clone()),
                    PartialItem::Pending(..) => None,
                }));
            }
        }
    }
    items.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(items)
}
