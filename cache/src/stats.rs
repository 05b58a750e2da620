//! Statistics of a cache.

use std::collections::BTreeMap;

use crate::cache::Cache;
use crate::fs::{bytes_under, size_of};
use crate::index::rows::{KnownValue, Location};
use crate::pack::entry::{HEADER, PACK_MARK};
use crate::{CacheError, Table};

/// The sizes of the parts of a cache. Uncommitted objects and records are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects in the index.
    pub objects: u64,
    /// Bytes of all objects.
    pub object_bytes: u64,
    /// Objects in separate files.
    pub loose: u64,
    /// Bytes of the objects in separate files.
    pub loose_bytes: u64,
    /// Pack files.
    pub packs: u64,
    /// Bytes of the pack files.
    pub pack_bytes: u64,
    /// Bytes of packs without references.
    pub dead_bytes: u64,
    /// Records in the index, by table.
    pub records: BTreeMap<Table, u64>,
    /// Bytes of the file of the index.
    pub index_bytes: u64,
    /// Bytes of swept objects and records that can be restored.
    pub trash_bytes: u64,
    /// Bytes of unfinished files, those of running processes included.
    pub staging_bytes: u64,
    /// Inputs of programs that stay between runs.
    pub input_bytes: u64,
}

impl Cache {
    /// Reads the whole index, and lists the folders of the cache.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index or a folder cannot be read.
    pub fn stats(&self) -> Result<Stats, CacheError> {
        let (fs, layout) = (&*self.0.fs, &self.0.layout);
        let mut stats = Stats::default();
        let mut live = 0;
        self.0.ledger().read(|view| {
            stats = Stats::default();
            live = 0;
            view.objects(&mut |_, location| {
                live += stats.add_object(location);
                Ok(())
            })?;
            view.records(None, &mut |table, _, known| {
                live += known.entry_size();
                if known.value != KnownValue::Gone {
                    *stats.records.entry(table).or_default() += 1;
                }
                Ok(())
            })
        })?;
        for number in layout.pack_numbers(fs)? {
            let size = size_of(fs, &layout.pack(number))?;
            stats.packs += 1;
            stats.pack_bytes += size;
            live += (PACK_MARK.len() as u64).min(size);
        }
        stats.dead_bytes = stats.pack_bytes.saturating_sub(live);
        stats.index_bytes = size_of(fs, &layout.ledger)?;
        stats.trash_bytes = bytes_under(fs, &layout.trash)?;
        stats.staging_bytes = bytes_under(fs, &layout.staging)?;
        stats.input_bytes = bytes_under(fs, &layout.inputs)?;
        Ok(stats)
    }
}

impl Stats {
    /// Returns the size of the object in its pack.
    fn add_object(&mut self, location: Location) -> u64 {
        self.objects += 1;
        self.object_bytes += location.size();
        match location {
            Location::Packed { length, .. } => HEADER as u64 + u64::from(length),
            Location::Loose { size } => {
                self.loose += 1;
                self.loose_bytes += size;
                HEADER as u64 + 16
            }
        }
    }
}
