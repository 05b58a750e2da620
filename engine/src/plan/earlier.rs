//! The outcomes of a bucket in the last run. An unchanged item has the same outcome as then, so
//! only the others are looked up one by one.

use std::collections::HashMap;
use std::sync::Arc;

use cache::Digest;
use stage_core::key::chunk_key;
use stage_core::{Dataset, Item, Reject};

use super::work::ItemPlan;
use crate::error::PlanError;
use crate::pipeline::ITEMS;
use crate::record::{CHUNK, ChunkRecord, LastRecord, decode};
use crate::store::Store;

/// The inputs of a stage in its last run.
pub struct Earlier<'a> {
    store: &'a Store,
    job: Digest,
    arrived: Dataset,
}

/// The items of a bucket then, and their outcomes.
pub struct Outcomes {
    arrived: HashMap<Arc<str>, Item>,
    left: HashMap<Arc<str>, Item>,
    rejects: HashMap<Arc<str>, Reject>,
}

impl<'a> Earlier<'a> {
    /// None if nothing useful is stored.
    pub fn new(
        store: &'a Store,
        job: Digest,
        last: Option<&LastRecord>,
    ) -> Result<Option<Earlier<'a>>, PlanError> {
        let root = last.and_then(|last| last.roots.get(ITEMS)?.first());
        let Some(root) = root else { return Ok(None) };
        if store.has(root)? {
            Ok(Some(Earlier { store, job, arrived: store.dataset(root)? }))
        } else {
            Ok(None)
        }
    }

    /// The outcomes of a bucket in a data set with this number of bits.
    pub fn outcomes(&self, bits: u8, number: u32) -> Result<Option<Outcomes>, PlanError> {
        let at = self.arrived.buckets.binary_search_by_key(&number, |bucket| bucket.number);
        let (true, Ok(at)) = (bits == self.arrived.bits, at) else { return Ok(None) };
        let chunk = self.arrived.buckets[at].chunk;
        let record = self.store.cache().get(CHUNK, &chunk_key(&self.job, &chunk))?;
        let Some(record) = record.and_then(|bytes| decode::<ChunkRecord>(&bytes)) else {
            return Ok(None);
        };
        let chunks: Vec<Digest> = [chunk].into_iter().chain(record.chunk).collect();
        if self.store.have(&chunks)?.contains(&false) {
            return Ok(None);
        }
        let items = |chunk: &Digest| -> Result<HashMap<Arc<str>, Item>, PlanError> {
            let items = self.store.chunk(chunk)?.items;
            Ok(items.into_iter().map(|item| (item.id.clone(), item)).collect())
        };
        Ok(Some(Outcomes {
            arrived: items(&chunk)?,
            left: record.chunk.as_ref().map(items).transpose()?.unwrap_or_default(),
            rejects: record.rejects.into_iter().collect(),
        }))
    }
}

impl Outcomes {
    /// The outcome of an item with the same fields as then.
    pub fn of(&self, item: &Item) -> Option<ItemPlan> {
        self.arrived.get(&item.id).filter(|before| *before == item)?;
        if let Some(left) = self.left.get(&item.id) {
            return Some(ItemPlan::Known(left.clone()));
        }
        let reject = self.rejects.get(&item.id)?;
        Some(ItemPlan::Rejected(item.id.clone(), reject.clone()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use stage_core::Value;

    fn item(id: &str, texts: &[(&str, &str)]) -> Item {
        let fields = texts.iter().map(|(name, text)| (*name, Value::text(*text)));
        Item::new(id, fields.collect())
    }

    fn outcomes() -> Outcomes {
        let by_id = |items: Vec<Item>| {
            items.into_iter().map(|item| (item.id.clone(), item)).collect::<HashMap<_, _>>()
        };
        Outcomes {
            arrived: by_id(vec![
                item("kept", &[("in", "a")]),
                item("bad", &[("in", "b")]),
                item("failed", &[("in", "c")]),
            ]),
            left: by_id(vec![item("kept", &[("in", "a"), ("out", "A")])]),
            rejects: [("bad".into(), Reject::new("bad", "for a reason"))].into(),
        }
    }

    #[test]
    fn an_item_that_is_as_it_was_has_the_outcome_that_it_had() {
        let kept = outcomes().of(&item("kept", &[("in", "a")])).unwrap();
        let expected = item("kept", &[("in", "a"), ("out", "A")]);
        assert!(matches!(kept, ItemPlan::Known(found) if found == expected));
        let bad = outcomes().of(&item("bad", &[("in", "b")])).unwrap();
        assert!(
            matches!(bad, ItemPlan::Rejected(id, reject) if &*id == "bad" && reject.code == "bad")
        );
    }

    #[test]
    fn an_item_that_is_new_or_other_or_had_no_outcome_is_looked_up() {
        for (why, item) in [
            ("new", item("new", &[("in", "a")])),
            ("another value", item("kept", &[("in", "b")])),
            ("another field", item("kept", &[("in", "a"), ("more", "a")])),
            ("no outcome", item("failed", &[("in", "c")])),
        ] {
            assert!(outcomes().of(&item).is_none(), "{why}");
        }
    }
}
