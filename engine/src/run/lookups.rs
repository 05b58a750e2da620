//! Skips look-ups of outcomes that cannot succeed.

use std::collections::HashSet;

use cache::{Cache, CacheError, Digest};

use crate::record::ITEM;

/// If the cache had no outcome when the run began, it only has those of this run, as long as no
/// other process changes the cache. A first run thus saves one look-up per item.
pub struct Lookups {
    /// The prefixes of the keys of its own outcomes; None if everything has to be looked up.
    own: Option<HashSet<u64>>,
}

impl Lookups {
    pub fn begin(cache: &Cache) -> Result<Lookups, CacheError> {
        // Later changes by others are detected.
        cache.refresh()?;
        let own = match cache.has_records(ITEM)? {
            true => None,
            false => Some(HashSet::new()),
        };
        Ok(Lookups { own })
    }

    /// Tests if the cache may have an outcome for any of these keys, which have been claimed.
    pub fn may_find(&mut self, cache: &Cache, keys: &[Digest]) -> Result<bool, CacheError> {
        if self.own.is_some() && cache.refresh()? {
            self.own = None;
        }
        let Some(own) = &self.own else { return Ok(true) };
        Ok(keys.iter().any(|key| own.contains(&key.start())))
    }

    /// Notes an outcome that this run records.
    pub fn note(&mut self, key: &Digest) {
        if let Some(own) = &mut self.own {
            own.insert(key.start());
        }
    }
}
