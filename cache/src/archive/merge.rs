//! Records on their way from an archive into the cache, where there may be values already.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Prefers;
use crate::{Cache, CacheError, Digest, Table};

/// So many are looked up at once.
const MOST: usize = 4096;

/// Records that wait for being looked up, by table.
pub struct Merge<'a> {
    cache: &'a Cache,
    prefers: &'a Prefers,
    waiting: BTreeMap<Table, Vec<(Digest, Bytes)>>,
    count: usize,
    /// How many took their places.
    pub taken: u64,
}

impl<'a> Merge<'a> {
    pub fn new(cache: &'a Cache, prefers: &'a Prefers) -> Merge<'a> {
        Merge { cache, prefers, waiting: BTreeMap::new(), count: 0, taken: 0 }
    }

    pub fn add(&mut self, table: Table, key: Digest, value: Bytes) -> Result<(), CacheError> {
        // Kept apart from the buffer of the volume it was read from, which is much larger.
        let value = Bytes::copy_from_slice(&value);
        self.waiting.entry(table).or_default().push((key, value));
        self.count += 1;
        if self.count >= MOST { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Result<(), CacheError> {
        self.count = 0;
        for (table, records) in std::mem::take(&mut self.waiting) {
            let keys: Vec<Digest> = records.iter().map(|(key, _)| *key).collect();
            let there = self.cache.get_many(table, &keys)?;
            for ((key, value), own) in records.into_iter().zip(there) {
                let wins = |own: Bytes| own != value && (self.prefers)(table, &own, &value);
                if own.is_none_or(wins) {
                    self.cache.record(table, &key, value.into())?;
                    self.taken += 1;
                }
            }
        }
        Ok(())
    }
}
