//! The tables of the index: the location of each object, the records, and the indexed length of
//! each pack. All of it can be rebuilt from the packs.

use std::ops::Bound::Unbounded;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{
    CursorError, Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition, TableError, WriteTransaction,
};

use crate::fs::FsError;
use crate::index::backend::DoneFlag;
use crate::index::rows::{Known, KnownValue, Location};
use crate::pack::entry::Entry;
use crate::pack::packs::Placed;
use crate::{Digest, Table};

const OBJECTS: TableDefinition<&[u8; 32], &[u8; 12]> = TableDefinition::new("objects");
const RECORDS: TableDefinition<&[u8; 33], &[u8]> = TableDefinition::new("records 2");
const PACKS: TableDefinition<u32, u64> = TableDefinition::new("packs");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const SEQUENCE: &str = "sequence";
const LAST_PACK: &str = "last pack";

/// Longer values are in the pack only.
const INLINE: usize = 1024;

/// The reason why the index did not answer.
#[derive(Debug)]
pub(crate) enum IndexFailure {
    Fs(FsError),
    /// Its contents are invalid: it has to be rebuilt.
    Broken(String),
}

impl From<FsError> for IndexFailure {
    fn from(error: FsError) -> IndexFailure {
        IndexFailure::Fs(error)
    }
}

/// Every error of the database itself; file errors behind it are found by the ledger.
pub(crate) fn broken(error: impl std::fmt::Display) -> IndexFailure {
    IndexFailure::Broken(error.to_string())
}

pub(crate) type IndexResult<T> = Result<T, IndexFailure>;

fn record_key(table: Table, key: &Digest) -> [u8; 33] {
    let mut bytes = [0u8; 33];
    bytes[0] = table.0;
    bytes[1..].copy_from_slice(key.as_bytes());
    bytes
}

fn split_key(bytes: &[u8; 33]) -> (Table, Digest) {
    let mut key = [0u8; 32];
    key.copy_from_slice(&bytes[1..]);
    (Table(bytes[0]), Digest::from_bytes(key))
}

fn known(row: &[u8]) -> IndexResult<Known> {
    Known::decode(row).ok_or_else(|| broken("a record has no valid row"))
}

/// The index as of one moment, for reading.
pub(crate) struct View {
    objects: ReadOnlyTable<&'static [u8; 32], &'static [u8; 12]>,
    records: ReadOnlyTable<&'static [u8; 33], &'static [u8]>,
    packs: ReadOnlyTable<u32, u64>,
    meta: ReadOnlyTable<&'static str, u64>,
    _transaction: ReadTransaction,
    _database: Closing,
}

/// Damaged pages can make the database panic even on close.
struct Closing(Option<Database>, DoneFlag);

impl Drop for Closing {
    fn drop(&mut self) {
        self.1.set();
        let database = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

impl View {
    pub fn open(database: Database, done: DoneFlag) -> IndexResult<View> {
        let transaction = database.begin_read().map_err(broken)?;
        let table = |error: TableError| broken(error);
        Ok(View {
            objects: transaction.open_table(OBJECTS).map_err(table)?,
            records: transaction.open_table(RECORDS).map_err(table)?,
            packs: transaction.open_table(PACKS).map_err(table)?,
            meta: transaction.open_table(META).map_err(table)?,
            _transaction: transaction,
            _database: Closing(Some(database), done),
        })
    }

    pub fn object(&self, digest: &Digest) -> IndexResult<Option<Location>> {
        let found = self.objects.get(digest.as_bytes()).map_err(broken)?;
        Ok(found.map(|location| Location::decode(location.value())))
    }

    pub fn record(&self, table: Table, key: &Digest) -> IndexResult<Option<Known>> {
        let key = record_key(table, key);
        match self.records.get(&key).map_err(broken)? {
            Some(value) => known(value.value()).map(Some),
            None => Ok(None),
        }
    }

    pub fn has_no_objects(&self) -> IndexResult<bool> {
        self.objects.is_empty().map_err(broken)
    }

    /// All objects, by digest.
    pub fn objects(
        &self,
        each: &mut dyn FnMut(Digest, Location) -> IndexResult<()>,
    ) -> IndexResult<()> {
        for row in self.objects.iter().map_err(broken)? {
            let (digest, location) = row.map_err(broken)?;
            each(Digest::from_bytes(*digest.value()), Location::decode(location.value()))?;
        }
        Ok(())
    }

    /// All records of one table or of all, by key; removed ones too.
    pub fn records(
        &self,
        table: Option<Table>,
        each: &mut dyn FnMut(Table, Digest, Known) -> IndexResult<()>,
    ) -> IndexResult<()> {
        let first = record_key(table.unwrap_or(Table(0)), &Digest::from_bytes([0; 32]));
        let last = record_key(table.unwrap_or(Table(255)), &Digest::from_bytes([255; 32]));
        for row in self.records.range::<&[u8; 33]>(&first..=&last).map_err(broken)? {
            let (key, value) = row.map_err(broken)?;
            let (table, digest) = split_key(key.value());
            each(table, digest, known(value.value())?)?;
        }
        Ok(())
    }

    /// The indexed packs, with their indexed lengths.
    pub fn packs(&self) -> IndexResult<Vec<(u32, u64)>> {
        let mut packs = Vec::new();
        for row in self.packs.iter().map_err(broken)? {
            let (number, length) = row.map_err(broken)?;
            packs.push((number.value(), length.value()));
        }
        Ok(packs)
    }

    pub fn pack(&self, number: u32) -> IndexResult<u64> {
        Ok(self.packs.get(number).map_err(broken)?.map_or(0, |length| length.value()))
    }

    pub fn sequence(&self) -> IndexResult<u64> {
        Ok(self.meta.get(SEQUENCE).map_err(broken)?.map_or(0, |value| value.value()))
    }

    /// The highest pack number ever used.
    pub fn last_pack(&self) -> IndexResult<u32> {
        let last = self.meta.get(LAST_PACK).map_err(broken)?.map_or(0, |value| value.value());
        Ok(u32::try_from(last).unwrap_or(u32::MAX))
    }
}

/// A change of the index, all or nothing.
pub(crate) struct Tables<'t> {
    objects: redb::Table<'t, &'static [u8; 32], &'static [u8; 12]>,
    records: redb::Table<'t, &'static [u8; 33], &'static [u8]>,
    packs: redb::Table<'t, u32, u64>,
    meta: redb::Table<'t, &'static str, u64>,
    sequence: u64,
}

impl<'t> Tables<'t> {
    pub fn open(transaction: &'t WriteTransaction) -> IndexResult<Tables<'t>> {
        let meta = transaction.open_table(META).map_err(broken)?;
        let sequence = meta.get(SEQUENCE).map_err(broken)?.map_or(0, |value| value.value());
        Ok(Tables {
            objects: transaction.open_table(OBJECTS).map_err(broken)?,
            records: transaction.open_table(RECORDS).map_err(broken)?,
            packs: transaction.open_table(PACKS).map_err(broken)?,
            meta,
            sequence,
        })
    }

    /// Writes collected rows; the last step before the commit.
    pub fn finish(mut self) -> IndexResult<()> {
        self.meta.insert(SEQUENCE, self.sequence).map_err(broken)?;
        Ok(())
    }

    pub fn put_object(&mut self, digest: &Digest, location: Location) -> IndexResult<()> {
        self.objects.insert(digest.as_bytes(), &location.encode()).map_err(broken)?;
        Ok(())
    }

    pub fn object(&self, digest: &Digest) -> IndexResult<Option<Location>> {
        let found = self.objects.get(digest.as_bytes()).map_err(broken)?;
        Ok(found.map(|location| Location::decode(location.value())))
    }

    /// Removes an object if its location has not changed.
    pub fn remove_object(&mut self, digest: &Digest, location: Location) -> IndexResult<bool> {
        if self.object(digest)? != Some(location) {
            return Ok(false);
        }
        self.objects.remove(digest.as_bytes()).map_err(broken)?;
        Ok(true)
    }

    pub fn record(&self, table: Table, key: &Digest) -> IndexResult<Option<Known>> {
        let key = record_key(table, key);
        match self.records.get(&key).map_err(broken)? {
            Some(value) => known(value.value()).map(Some),
            None => Ok(None),
        }
    }

    /// Keeps the newer of the known and the new value.
    pub fn put_record(&mut self, table: Table, key: &Digest, known: &Known) -> IndexResult<()> {
        self.sequence = self.sequence.max(known.sequence);
        if self.record(table, key)?.is_some_and(|old| old.order() > known.order()) {
            return Ok(());
        }
        let key = record_key(table, key);
        self.records.insert(&key, known.encode().as_slice()).map_err(broken)?;
        Ok(())
    }

    /// Removes a record if it is still the known one.
    pub fn remove_record(&mut self, table: Table, key: &Digest, known: &Known) -> IndexResult<()> {
        if self.record(table, key)?.as_ref() == Some(known) {
            self.records.remove(&record_key(table, key)).map_err(broken)?;
        }
        Ok(())
    }

    pub fn set_pack(&mut self, number: u32, length: u64) -> IndexResult<()> {
        self.packs.insert(number, length).map_err(broken)?;
        self.saw_pack(number)
    }

    pub fn remove_pack(&mut self, number: u32) -> IndexResult<()> {
        self.packs.remove(number).map_err(broken)?;
        self.saw_pack(number)
    }

    /// Records that this number was used, so that it is not reused.
    pub fn saw_pack(&mut self, number: u32) -> IndexResult<()> {
        let last = self.meta.get(LAST_PACK).map_err(broken)?.map_or(0, |value| value.value());
        if u64::from(number) > last {
            self.meta.insert(LAST_PACK, u64::from(number)).map_err(broken)?;
        }
        Ok(())
    }

    /// Adds entries at their positions. They are sorted by key, so that neighbours in the index are
    /// written one after the other.
    pub fn take_in_sorted(&mut self, placed: &[&Placed]) -> IndexResult<()> {
        if !self.objects.is_empty().map_err(broken)? {
            return placed.iter().try_for_each(|(pack, at, entry)| self.take_in(*pack, *at, entry));
        }
        // An empty table is filled from its end, in a quarter of the time.
        let mut others = Vec::new();
        let mut end = self.objects.upper_bound_mut(Unbounded::<&[u8; 32]>).map_err(broken)?;
        for (pack, offset, entry) in placed {
            let added = match object(*pack, *offset, entry)? {
                Some((digest, at)) => end.insert_before(digest.as_bytes(), &at.encode()),
                None => Err(CursorError::UnorderedKey),
            };
            match added {
                Err(CursorError::UnorderedKey) => others.push((*pack, *offset, entry)),
                added => added.map_err(broken)?,
            }
        }
        end.close().map_err(broken)?;
        others.into_iter().try_for_each(|(pack, offset, entry)| self.take_in(pack, offset, entry))
    }

    /// Adds an entry at its position of a pack.
    pub fn take_in(&mut self, pack: u32, offset: u64, entry: &Entry) -> IndexResult<()> {
        if let Some((digest, location)) = object(pack, offset, entry)? {
            return self.put_object(&digest, location);
        }
        let offset = u32::try_from(offset).map_err(broken)?;
        match entry {
            Entry::Record { table, key, sequence, value } => {
                let length = u32::try_from(value.len()).map_err(broken)?;
                let value = if value.len() <= INLINE {
                    KnownValue::Here(value.clone())
                } else {
                    KnownValue::InPack { length }
                };
                let known = Known { sequence: *sequence, pack, offset, value };
                self.put_record(*table, key, &known)
            }
            Entry::Gone { table, key, sequence } => {
                let known = Known { sequence: *sequence, pack, offset, value: KnownValue::Gone };
                self.put_record(*table, key, &known)
            }
            // Pieces belong to archives; they have no meaning in a pack of the cache.
            Entry::Object { .. } | Entry::Loose { .. } | Entry::Piece { .. } => Ok(()),
        }
    }
}

/// The row of an object, if the entry has one.
fn object(pack: u32, offset: u64, entry: &Entry) -> IndexResult<Option<(Digest, Location)>> {
    Ok(match entry {
        Entry::Object { digest, bytes } => {
            let offset = u32::try_from(offset).map_err(broken)?;
            let length = u32::try_from(bytes.len()).map_err(broken)?;
            Some((*digest, Location::Packed { pack, offset, length }))
        }
        Entry::Loose { digest, size } => Some((*digest, Location::Loose { size: *size })),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use redb::backends::InMemoryBackend;

    use super::*;

    type Rows = (Vec<(Digest, Location)>, Vec<(Table, Digest, Known)>);

    fn rows(database: Database) -> Rows {
        let view = View::open(database, DoneFlag::default()).unwrap();
        let mut rows = (Vec::new(), Vec::new());
        let mut object = |digest, location| {
            rows.0.push((digest, location));
            Ok(())
        };
        view.objects(&mut object).unwrap();
        let mut record = |table, key, known| {
            rows.1.push((table, key, known));
            Ok(())
        };
        view.records(None, &mut record).unwrap();
        rows
    }

    fn index(change: impl FnOnce(&mut Tables) -> IndexResult<()>) -> Rows {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut tables = Tables::open(&transaction).unwrap();
        change(&mut tables).unwrap();
        tables.finish().unwrap();
        transaction.commit().unwrap();
        rows(database)
    }

    /// Objects, files and records; of every tenth object there are two.
    fn entries(numbers: std::ops::Range<u64>) -> Vec<Placed> {
        let mut entries = Vec::new();
        let mut add = |entry| {
            let at = 100 * entries.len() as u64;
            entries.push((1, at, entry));
        };
        for number in numbers {
            let digest = Digest::of(&number.to_le_bytes());
            match number % 3 {
                0 => add(Entry::Loose { digest, size: number }),
                1 => add(Entry::Object { digest, bytes: Bytes::from_static(b"object") }),
                _ => {
                    let (table, value) = (Table(number as u8), Bytes::from_static(b"value"));
                    add(Entry::Record { table, key: digest, sequence: number, value });
                }
            }
            if number % 10 == 1 {
                add(Entry::Object { digest, bytes: Bytes::from_static(b"once more") });
            }
        }
        entries.sort_by_key(|(_, _, entry)| entry.key());
        entries
    }

    #[test]
    fn a_batch_has_the_same_rows_in_an_empty_index_as_one_by_one() {
        let batches = [entries(0..500), entries(400..900)];
        let at_once = index(|tables| {
            batches.iter().try_for_each(|batch| {
                tables.take_in_sorted(&batch.iter().collect::<Vec<&Placed>>())
            })
        });
        let mut all = batches.iter().flatten();
        let one_by_one =
            index(|tables| all.try_for_each(|(pack, at, entry)| tables.take_in(*pack, *at, entry)));
        assert_eq!(at_once, one_by_one);
        assert!(at_once.0.len() >= 600 && at_once.1.len() == 300, "{}", at_once.1.len());
    }
}
