//! Which look-ups of outcomes are for nothing.

use std::collections::HashSet;

use cache::{Cache, CacheError, Digest};

use crate::record::ITEM;

/// In a cache without any outcome when the run begins, only what the run itself has found since is
/// known, as long as nobody else changes the cache. A first run so is spared a look-up an item.
pub struct Lookups {
    /// The starts of the keys of its own outcomes; none where all has to be looked up.
    own: Option<HashSet<u64>>,
}

impl Lookups {
    pub fn begin(cache: &Cache) -> Result<Lookups, CacheError> {
        // What others change from here on is seen later.
        cache.refresh()?;
        let own = match cache.has_records(ITEM)? {
            true => None,
            false => Some(HashSet::new()),
        };
        Ok(Lookups { own })
    }

    /// Whether the cache may know an outcome of any of these keys, which have been claimed.
    pub fn may_find(&mut self, cache: &Cache, keys: &[Digest]) -> Result<bool, CacheError> {
        if self.own.is_some() && cache.refresh()? {
            self.own = None;
        }
        let Some(own) = &self.own else { return Ok(true) };
        Ok(keys.iter().any(|key| own.contains(&key.start())))
    }

    /// An outcome is kept by this run.
    pub fn note(&mut self, key: &Digest) {
        if let Some(own) = &mut self.own {
            own.insert(key.start());
        }
    }
}
