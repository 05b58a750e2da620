//! The partial sums of the buckets of a data set, for gathers that add up. Each value is kept as
//! long as its bucket, so that a change of one item reads the items of one bucket.

use bytes::Bytes;
use cache::{CacheError, Digest};
use stage_core::Item;
use stage_core::key::{HashSink, Sink};

use crate::error::PlanError;
use crate::record::{PART, PartRecord, decode, encode};
use crate::store::Store;

/// The values of all parts. `question` stands for all that a value depends on besides the items;
/// without one nothing is kept.
pub fn values(
    store: &Store,
    root: &Digest,
    question: Option<&Digest>,
    value: impl Fn(Vec<Item>) -> Bytes,
) -> Result<Vec<Bytes>, PlanError> {
    let chunks = store.dataset(root)?.buckets.into_iter().map(|bucket| bucket.chunk);
    let Some(question) = question else {
        return chunks.map(|chunk| Ok(value(store.chunk(&chunk)?.items))).collect();
    };
    let chunks: Vec<Digest> = chunks.collect();
    let keys: Vec<Digest> = chunks.iter().map(|chunk| key(question, chunk)).collect();
    let known = store.cache().get_many(PART, &keys)?;
    let mut values = Vec::with_capacity(chunks.len());
    for ((chunk, key), known) in chunks.into_iter().zip(&keys).zip(known) {
        let known = known.and_then(|bytes| decode::<PartRecord>(&bytes));
        let value = match known {
            Some(record) => record.value,
            None => keep(store, key, chunk, value(store.chunk(&chunk)?.items))?,
        };
        values.push(value);
    }
    Ok(values)
}

fn key(question: &Digest, chunk: &Digest) -> Digest {
    let mut sink = HashSink::default();
    sink.digest("question", question);
    sink.digest("chunk", chunk);
    sink.finish()
}

fn keep(store: &Store, key: &Digest, chunk: Digest, value: Bytes) -> Result<Bytes, CacheError> {
    let record = encode(&PartRecord { chunk, value: value.clone() });
    match store.cache().record(PART, key, record) {
        Ok(()) | Err(CacheError::ReadOnly { .. }) => Ok(value),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::sync::Arc;

    use cache::fs::MemoryFs;
    use cache::stat::StatIndex;
    use cache::{Access, Cache};
    use stage_core::Fields;

    use super::*;
    use crate::record::PortValue;
    use crate::tables::write_dataset;

    fn store() -> Store {
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
        let index = StatIndex::load(&cache).unwrap();
        Store::new(cache, "/".into(), Arc::new(index))
    }

    fn root(store: &Store, last: usize) -> Digest {
        let ids = (0..1_999).chain([last]).map(|number| format!("item {number}"));
        let items = ids.map(|id| Item::new(id, Fields::new())).collect();
        match write_dataset(store, items).unwrap() {
            PortValue::Dataset { root, .. } => root,
            PortValue::Artifact(_) => unreachable!(),
        }
    }

    #[test]
    fn a_change_of_one_item_reads_its_part_alone() {
        let store = store();
        let read = Cell::new(0);
        let count = |items: Vec<Item>| {
            read.set(read.get() + items.len());
            Bytes::from(encode(&items.len()))
        };
        let all = |root: &Digest, question: Option<&Digest>| -> usize {
            let values = values(&store, root, question, count).unwrap();
            values.iter().map(|value| decode::<usize>(value).unwrap()).sum()
        };
        let (first, other) = (root(&store, 5_000), root(&store, 5_001));
        let question = Digest::of(b"how many");
        assert_eq!((all(&first, Some(&question)), read.take()), (2_000, 2_000));
        assert_eq!((all(&first, Some(&question)), read.take()), (2_000, 0));
        assert_eq!(all(&other, Some(&question)), 2_000);
        // One item left its bucket, and another one came into one, of four.
        assert!((1..1_200).contains(&read.take()));
        assert_eq!((all(&other, Some(&Digest::of(b"how long"))), read.take()), (2_000, 2_000));
        assert_eq!((all(&other, None), read.take()), (2_000, 2_000));
    }
}
