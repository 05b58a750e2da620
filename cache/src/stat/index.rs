//! The index in memory: sections of entries.

use std::collections::BTreeMap;

use super::entry::StatEntry;
use super::section::Section;
use crate::cache::Cache;
use crate::{CacheError, Digest};

/// The memo of a cache: sections of entries, each under a digest that the engine chooses.
#[derive(Debug, Default)]
pub struct StatIndex {
    sections: BTreeMap<Digest, Section>,
    /// Put or removed since loading; None for a removal.
    changed: BTreeMap<Digest, bool>,
}

impl StatIndex {
    /// Reads the memo; an empty one if it is missing or broken. A process reads an unchanged file
    /// only once.
    ///
    /// # Errors
    ///
    /// [`CacheError::Fs`] if the file exists and cannot be read.
    pub fn load(cache: &Cache) -> Result<StatIndex, CacheError> {
        Ok(StatIndex { sections: cache.0.stat.load()?, changed: BTreeMap::new() })
    }

    /// The reason why this process could not read the memo, once: all of it is found out again.
    pub fn take_trouble(cache: &Cache) -> Option<String> {
        cache.0.stat.take_trouble()
    }

    /// Writes the memo if it changed. Sections that others saved meanwhile stay.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and [`CacheError::NoSpace`] or
    /// [`CacheError::Fs`] if the memo cannot be written. It saves work and decides nothing, so
    /// callers go on.
    pub fn save(&mut self, cache: &Cache) -> Result<(), CacheError> {
        if self.changed.is_empty() {
            return Ok(());
        }
        cache.0.require_writable()?;
        // No other process may save between reading and writing.
        let (merged, written) = cache.0.ledger().alone(|| {
            let mut merged = cache.0.stat.load()?;
            for (key, kept) in &self.changed {
                match self.sections.get(key).filter(|_| *kept) {
                    Some(section) => _ = merged.insert(*key, section.clone()),
                    None => _ = merged.remove(key),
                }
            }
            let written = cache.0.stat.save(&merged);
            Ok((merged, written))
        })?;
        // Failing to store it loses only time.
        self.sections = merged;
        written?;
        self.changed.clear();
        Ok(())
    }

    /// The section under this digest.
    pub fn section(&self, key: &Digest) -> Option<&Section> {
        self.sections.get(key)
    }

    /// All sections, in the order of their digests.
    pub fn sections(&self) -> impl Iterator<Item = (&Digest, &Section)> {
        self.sections.iter()
    }

    /// Replaces a section.
    pub fn put_section(&mut self, key: Digest, section: impl Into<Section>) {
        self.sections.insert(key, section.into());
        self.changed.insert(key, true);
    }

    /// Removes a section; it may be missing.
    pub fn remove_section(&mut self, key: &Digest) {
        self.sections.remove(key);
        self.changed.insert(*key, false);
    }

    /// The entry for a path in any section.
    pub fn lookup(&self, path: &str) -> Option<StatEntry> {
        self.sections.values().find_map(|section| section.find(path))
    }
}
