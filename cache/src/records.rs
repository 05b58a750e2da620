//! Records: small values under a table and a key; the last written value counts.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::cache::{Cache, Shared};
use crate::index::rows::{Known, KnownValue};
use crate::pack::entry::Entry;
use crate::pack::packs::{check_record_size, entry_at};
use crate::{CacheError, Digest, Table};

impl Cache {
    /// Records a value: visible here immediately, durable with the next commit, and never before
    /// objects that were put before it.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and
    /// [`CacheError::RecordTooLarge`] if even the list of the value's parts is too long. The parts
    /// of a long value are objects: see [`Cache::put`].
    pub fn record(&self, table: Table, key: &Digest, value: Vec<u8>) -> Result<(), CacheError> {
        self.0.require_writable()?;
        let written = self.shortened(value)?;
        self.record_as_written(table, key, written)
    }

    /// The same for many values of a table.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::record`]. Then none of them is recorded.
    pub fn record_all(
        &self,
        table: Table,
        records: impl IntoIterator<Item = (Digest, Vec<u8>)>,
    ) -> Result<(), CacheError> {
        self.0.require_writable()?;
        let written = |(key, value)| {
            let written = self.shortened(value)?;
            check_record_size(written.len())?;
            Ok((key, written))
        };
        let written: Vec<(Digest, Bytes)> =
            records.into_iter().map(written).collect::<Result<_, CacheError>>()?;
        let mut pending = self.0.pending_mut();
        written.into_iter().for_each(|(key, value)| pending.active.record(table, key, Some(value)));
        Ok(())
    }

    /// The same for a value as written in the log.
    pub(crate) fn record_as_written(
        &self,
        table: Table,
        key: &Digest,
        written: Bytes,
    ) -> Result<(), CacheError> {
        check_record_size(written.len())?;
        self.0.pending_mut().active.record(table, *key, Some(written));
        Ok(())
    }

    /// The last value of a record, pending ones included; None if there is none or it cannot be
    /// read.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index or a pack cannot be read.
    pub fn get(&self, table: Table, key: &Digest) -> Result<Option<Bytes>, CacheError> {
        let waiting = self.0.pending().record(table, key);
        let written = match waiting {
            Some(written) => written,
            None => {
                let known = self.0.ledger().read(|view| view.record(table, key))?;
                self.0.written(table, key, known)?
            }
        };
        self.whole_if_any(written)
    }

    fn whole_if_any(&self, written: Option<Bytes>) -> Result<Option<Bytes>, CacheError> {
        written.map_or(Ok(None), |written| self.whole(written))
    }

    /// The same for many records of a table, in the order of the keys. The index is looked into
    /// once.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::get`].
    pub fn get_many(
        &self,
        table: Table,
        keys: &[Digest],
    ) -> Result<Vec<Option<Bytes>>, CacheError> {
        // Read first: an entry that a commit moves to the index meanwhile is then seen twice, not
        // missed.
        let newer: Vec<Option<Option<Bytes>>> = {
            let pending = self.0.pending();
            if pending.is_empty() {
                Vec::new()
            } else {
                keys.iter().map(|key| pending.record(table, key)).collect()
            }
        };
        let known = self.0.ledger().read(|view| {
            keys.iter().map(|key| view.record(table, key)).collect::<Result<Vec<_>, _>>()
        })?;
        let mut values = Vec::with_capacity(keys.len());
        for (key, known) in keys.iter().zip(known) {
            values.push(self.0.written(table, key, known)?);
        }
        for (value, newer) in values.iter_mut().zip(newer) {
            if let Some(newer) = newer {
                *value = newer;
            }
        }
        values.into_iter().map(|written| self.whole_if_any(written)).collect()
    }

    /// All records of a table, by key.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::get`].
    pub fn scan(&self, table: Table) -> Result<Vec<(Digest, Bytes)>, CacheError> {
        // Read first: an entry that a commit moves to the index meanwhile is then seen twice, not
        // missed.
        let pending = self.0.pending().records(table);
        let mut found = Vec::new();
        self.0.ledger().read(|view| {
            found.clear();
            view.records(Some(table), &mut |_, key, known| {
                found.push((key, known));
                Ok(())
            })
        })?;
        let mut values = BTreeMap::new();
        for (key, known) in found {
            if let Some(written) = self.0.written(table, &key, Some(known))? {
                values.insert(key, written);
            }
        }
        for (key, value) in pending {
            match value {
                Some(value) => _ = values.insert(key, value),
                None => _ = values.remove(&key),
            }
        }
        let mut found = Vec::with_capacity(values.len());
        for (key, written) in values {
            found.extend(self.whole(written)?.map(|value| (key, value)));
        }
        Ok(found)
    }

    /// Removes a record.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading. A missing record is no error.
    pub fn forget(&self, table: Table, key: &Digest) -> Result<(), CacheError> {
        self.0.require_writable()?;
        self.0.pending_mut().active.record(table, *key, None);
        Ok(())
    }
}

impl Shared {
    /// The value of a record in the log; an unreadable value counts as missing.
    pub fn written(
        &self,
        table: Table,
        key: &Digest,
        known: Option<Known>,
    ) -> Result<Option<Bytes>, CacheError> {
        let Some(known) = known else {
            return Ok(None);
        };
        match known.value {
            KnownValue::Here(value) => Ok(Some(value)),
            KnownValue::Gone => Ok(None),
            KnownValue::InPack { length } => {
                self.written_in_pack(table, key, (known.pack, known.offset, length))
            }
        }
    }

    fn written_in_pack(
        &self,
        table: Table,
        key: &Digest,
        (pack, offset, length): (u32, u32, u32),
    ) -> Result<Option<Bytes>, CacheError> {
        let file = match self.packs.get(&*self.fs, &self.layout, pack) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => other?,
        };
        // The payload begins with a checksum and the sequence number.
        match entry_at(&*file, pack, offset, length.saturating_add(16))? {
            Some(Entry::Record { table: of, key: under, value, .. })
                if of == table && under == *key =>
            {
                Ok(Some(value))
            }
            _ => Ok(None),
        }
    }
}
