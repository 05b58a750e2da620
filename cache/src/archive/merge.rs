//! Records on their way from an archive into the cache, which may have values for them already.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Prefers;
use crate::{Cache, CacheError, Digest, Table};

/// The number of records that are looked up together, unless their size reaches its limit first.
const MOST: usize = 4096;
const MOST_BYTES: usize = 16 << 20;

/// Records that wait for a look-up, by table.
pub struct Merge<'a> {
    cache: &'a Cache,
    prefers: &'a Prefers,
    waiting: BTreeMap<Table, Vec<(Digest, Bytes)>>,
    count: usize,
    /// The total length of all waiting values.
    bytes: usize,
    /// The number of records that were stored.
    pub taken: u64,
}

impl<'a> Merge<'a> {
    pub fn new(cache: &'a Cache, prefers: &'a Prefers) -> Merge<'a> {
        Merge { cache, prefers, waiting: BTreeMap::new(), count: 0, bytes: 0, taken: 0 }
    }

    pub fn add(&mut self, table: Table, key: Digest, value: Bytes) -> Result<(), CacheError> {
        // Copied, so that the much larger buffer of the volume can be freed.
        let value = Bytes::copy_from_slice(&value);
        self.count += 1;
        self.bytes += value.len();
        self.waiting.entry(table).or_default().push((key, value));
        if self.count >= MOST || self.bytes >= MOST_BYTES { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Result<(), CacheError> {
        (self.count, self.bytes) = (0, 0);
        for (table, records) in std::mem::take(&mut self.waiting) {
            let keys: Vec<Digest> = records.iter().map(|(key, _)| *key).collect();
            let there = self.cache.get_many(table, &keys)?;
            for ((key, written), own) in records.into_iter().zip(there) {
                // A record without one of its parts counts as missing.
                let Some(value) = self.cache.whole(written)? else { continue };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;
    use crate::Access;
    use crate::fs::MemoryFs;

    #[test]
    fn what_waits_is_bounded_by_its_size_and_by_its_number() {
        const TABLE: Table = Table(1);
        let fs = Arc::new(MemoryFs::new());
        let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
        let prefers = |_: Table, _: &[u8], _: &[u8]| false;
        for (count, size) in [(20u32, 1 << 20), (5000, 1)] {
            let mut merge = Merge::new(&cache, &prefers);
            let value = Bytes::from(vec![7; size]);
            for number in 0..count {
                let key = Digest::of(&[number, size as u32].map(u32::to_le_bytes).concat());
                merge.add(TABLE, key, value.clone()).unwrap();
                assert!(merge.bytes < MOST_BYTES && merge.count < MOST);
            }
            assert!((1..u64::from(count)).contains(&merge.taken), "{}", merge.taken);
            merge.flush().unwrap();
            assert_eq!(merge.taken, u64::from(count));
        }
    }
}
