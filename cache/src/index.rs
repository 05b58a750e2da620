//! The tables of the index: the location of each object, the records, and the indexed length of
//! each pack. All of it can be rebuilt from the packs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
    TableError, WriteTransaction,
};

use crate::backend::Done;
use crate::entry::Entry;
use crate::fs::FsError;
use crate::rows::{Known, KnownValue, Location};
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
struct Closing(Option<Database>, Done);

impl Drop for Closing {
    fn drop(&mut self) {
        self.1.set();
        let database = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

impl View {
    pub fn open(database: Database, done: Done) -> IndexResult<View> {
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

    /// Adds an entry at this position of a pack.
    pub fn take_in(&mut self, pack: u32, offset: u64, entry: &Entry) -> IndexResult<()> {
        let offset = u32::try_from(offset).map_err(broken)?;
        match entry {
            Entry::Object { digest, bytes } => {
                let length = u32::try_from(bytes.len()).map_err(broken)?;
                self.put_object(digest, Location::Packed { pack, offset, length })
            }
            Entry::Loose { digest, size } => {
                self.put_object(digest, Location::Loose { size: *size })
            }
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
            // Belongs to archives; it has no meaning in a pack of the cache.
            Entry::Piece { .. } => Ok(()),
        }
    }
}
