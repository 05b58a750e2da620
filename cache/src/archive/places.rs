//! The positions of objects in the volumes of an archive, and entries decoded from parts of
//! volumes, for reading single objects without unpacking the archive.

use bytes::Bytes;
use camino::Utf8Path;

use super::Prefers;
use super::index::{Index, volume_path};
use super::merge::Merge;
use crate::cache::Cache;
use crate::fs::{Fs, Open};
use crate::index::rows::Location;
use crate::long::parts_of;
use crate::pack::entry::{Entry, HEADER, Header, PACK_MARK};
use crate::{CacheError, Digest, Table};

/// The position of an object's entry in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectPlace {
    /// The digest of the object.
    pub digest: Digest,
    /// Counted from 1.
    pub volume: u32,
    /// The offset of its entry in the volume, in bytes.
    pub offset: u32,
    /// The size of the object.
    pub length: u32,
}

/// The contents of an archive, by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivePlaces {
    /// The id of the archive, by which others name it as a base.
    pub id: Digest,
    /// The size of each volume.
    pub volumes: Vec<u64>,
    /// Only of objects that are not cut into pieces; sorted by digest.
    pub objects: Vec<ObjectPlace>,
    /// The volume and offset of the first record, since records come last.
    pub first_record: Option<(u32, u64)>,
}

/// A valid entry of a part of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveEntry {
    /// An object, with checked bytes.
    Object {
        /// The digest of `bytes`.
        digest: Digest,
        /// The whole object.
        bytes: Bytes,
    },
    /// The value is as written: see [`Cache::whole_record`].
    Record {
        /// The table of the record.
        table: Table,
        /// The key in that table.
        key: Digest,
        /// The value, or for a long one the list of its parts.
        written: Bytes,
    },
}

/// The size of an object's entry beside the object itself.
pub const ENTRY_HEADER: u64 = HEADER as u64;
/// The first bytes of every volume.
pub const VOLUME_MARK: &[u8] = PACK_MARK;
/// The position of the first entry of a volume.
pub const FIRST_ENTRY: u64 = PACK_MARK.len() as u64;

/// The file name of a volume of an archive.
pub fn volume_name(number: u32) -> String {
    volume_path("".into(), number).into_string()
}

/// The longest file `ARCHIVE` that is read.
pub const MOST_ARCHIVE_BYTES: u64 = Index::MOST_BYTES;

/// The id of an archive and the sizes of its volumes, from the bytes of its file `ARCHIVE`; none if
/// they are damaged.
pub fn archive_volumes(bytes: &[u8]) -> Option<(Digest, Vec<u64>)> {
    let index = Index::parse(std::str::from_utf8(bytes).ok()?)?;
    Some((index.id, index.volumes.into_iter().map(|volume| volume.bytes).collect()))
}

/// The positions in an archive, from the headers of its entries.
///
/// # Errors
///
/// [`CacheError::Archive`] if the folder has no complete archive or one of a newer format,
/// [`CacheError::DamagedArchive`] if its index or the header of an entry is damaged, and
/// [`CacheError::Fs`] if a volume cannot be read.
pub fn archive_places(fs: &dyn Fs, folder: &Utf8Path) -> Result<ArchivePlaces, CacheError> {
    let index = Index::read(fs, folder)?;
    let volumes = index.volumes.iter().map(|volume| volume.bytes).collect();
    let mut places =
        ArchivePlaces { id: index.id, volumes, objects: Vec::new(), first_record: None };
    for (number, volume) in (1..).zip(&index.volumes) {
        let path = volume_path(folder, number);
        let file = fs.open(&path, Open::Read)?;
        let mut at = FIRST_ENTRY;
        while at < volume.bytes {
            let mut bytes = [0u8; HEADER];
            let filled = file.read_full_at(&mut bytes, at)?;
            let header = Header::decode(&bytes[..filled], number, at).ok_or_else(|| {
                CacheError::DamagedArchive { path: path.clone(), advice: "pack it again" }
            })?;
            if let Some(digest) = header.small_object() {
                let (offset, length) = (at as u32, header.length);
                places.objects.push(ObjectPlace { digest, volume: number, offset, length });
            }
            if header.record().is_some() {
                places.first_record.get_or_insert((number, at));
            }
            at += HEADER as u64 + u64::from(header.length);
        }
    }
    places.objects.sort_by_key(|place| place.digest);
    Ok(places)
}

/// The valid entries in a part of a volume that begins with an entry. The part may end in the
/// middle of one. False if an entry is damaged; the valid ones after it are read as well.
pub fn archive_entries(volume: u32, offset: u64, part: &Bytes) -> (Vec<ArchiveEntry>, bool) {
    let (framed, mut is_whole) = framed(volume, offset, part);
    let is_object = |(header, _): &&(Header, Bytes)| header.small_object().is_some();
    let objects: Vec<&[u8]> =
        framed.iter().filter(is_object).map(|(_, bytes)| &bytes[..]).collect();
    let mut digests = Digest::of_each(&objects).into_iter();
    let mut entries = Vec::with_capacity(framed.len());
    for (header, payload) in &framed {
        let entry = match header.small_object() {
            Some(digest) if digests.next() == Some(digest) => {
                Some(Entry::Object { digest, bytes: payload.clone() })
            }
            Some(_) => None,
            None => header.entry(payload),
        };
        match entry {
            Some(Entry::Object { digest, bytes }) => {
                entries.push(ArchiveEntry::Object { digest, bytes });
            }
            Some(Entry::Record { table, key, value, .. }) => {
                entries.push(ArchiveEntry::Record { table, key, written: value });
            }
            Some(Entry::Loose { .. } | Entry::Gone { .. } | Entry::Piece { .. }) => {}
            None => is_whole = false,
        }
    }
    (entries, is_whole)
}

/// The valid headers of a part with their payloads. After a damaged header, the next valid one is
/// searched for, and the result is false.
fn framed(volume: u32, offset: u64, part: &Bytes) -> (Vec<(Header, Bytes)>, bool) {
    let (mut framed, mut is_whole) = (Vec::new(), true);
    let mut at = 0;
    while at + HEADER <= part.len() {
        let header = Header::decode(&part[at..at + HEADER], volume, offset + at as u64);
        let Some(header) = header else {
            is_whole = false;
            at += 1;
            continue;
        };
        let end = at + HEADER + header.length as usize;
        if end > part.len() {
            break;
        }
        framed.push((header, part.slice(at + HEADER..end)));
        at = end;
    }
    (framed, is_whole)
}

/// The objects that a record's value as written consists of, if it is a long one.
pub fn record_parts(written: &[u8]) -> Vec<Digest> {
    parts_of(written).unwrap_or_default()
}

impl Cache {
    /// All committed objects with their sizes.
    ///
    /// # Errors
    ///
    /// [`CacheError::Index`] or [`CacheError::Fs`] if the index cannot be read.
    pub fn objects(&self) -> Result<Vec<(Digest, u64)>, CacheError> {
        let (mut objects, _) = self.0.ledger().rows()?;
        // In the order in which they were written.
        objects.sort_by_key(|(_, at): &(Digest, Location)| at.pack_end().unwrap_or((u32::MAX, 0)));
        Ok(objects.into_iter().map(|(digest, location)| (digest, location.size())).collect())
    }

    /// The value of a record of an archive; none if a part of it is missing.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::read`] for a part that is in the cache but cannot be read; a missing part
    /// is no error.
    pub fn whole_record(&self, written: Bytes) -> Result<Option<Bytes>, CacheError> {
        self.whole(written)
    }

    /// Adds records of an archive with the values as written; returns the number of new ones.
    ///
    /// # Errors
    ///
    /// [`CacheError::ReadOnly`] if the cache is open for reading, and those of [`Cache::commit`].
    /// Records before the error may have been taken.
    pub fn take_records(
        &self,
        records: impl IntoIterator<Item = (Table, Digest, Bytes)>,
        prefers: &Prefers,
    ) -> Result<u64, CacheError> {
        let mut merge = Merge::new(self, prefers);
        for (table, key, written) in records {
            merge.add(table, key, written)?;
        }
        merge.flush()?;
        Ok(merge.taken)
    }
}
