//! Archives: the live contents of a cache as a few large files, to be carried to another machine.
//!
//! An archive is a folder with numbered volumes and, written last, an index. A volume is a pack
//! with large objects cut into pieces. An overlay contains only what its base archives lack. The
//! format is described in `docs/store.md`.

mod assembly;
mod contents;
mod index;
mod lock;
mod merge;
mod pack;
mod places;
mod unpack;
mod volumes;

use camino::{Utf8Path, Utf8PathBuf};

use crate::{Damage, Digest, Table};

pub use places::{
    ArchiveEntry, ArchivePlaces, ENTRY_HEADER, FIRST_ENTRY, MOST_ARCHIVE_BYTES, ObjectPlace,
    VOLUME_MARK, archive_entries, archive_places, archive_volumes, record_parts, volume_name,
};

/// The options for writing an archive.
pub struct Archiving<'a> {
    /// Created if necessary; it must not contain an archive yet.
    pub folder: &'a Utf8Path,
    /// Archives that will be present when this one is unpacked: their contents are left out.
    pub bases: &'a [Utf8PathBuf],
    /// The largest size of a volume. A single entry may exceed it: a piece of 4 MiB, or a record.
    pub volume_bytes: u64,
    /// Called with the finished and the total number of bytes of objects.
    pub progress: &'a dyn Fn(u64, u64),
}

/// The part of the cache that goes into an archive.
pub struct Kept<'a> {
    /// True for an object that goes into the archive. Parts of long records go in anyway.
    pub object: &'a dyn Fn(&Digest) -> bool,
    /// True for a record, by its table and key, that goes into the archive.
    pub record: &'a dyn Fn(Table, &Digest) -> bool,
}

/// The counts of a written archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archived {
    /// Volume files written.
    pub volumes: u64,
    /// The size of all volumes.
    pub bytes: u64,
    /// Objects written.
    pub objects: u64,
    /// Records written.
    pub records: u64,
    /// Objects and records that the bases contain.
    pub in_bases: u64,
    /// Damaged objects and keys of damaged records, which the archive lacks.
    pub damaged: Vec<Digest>,
}

/// Tests if the second value of a record replaces the first, existing one.
pub type Prefers = dyn Fn(Table, &[u8], &[u8]) -> bool;

/// The options for unpacking archives.
pub struct Unpacking<'a> {
    /// The base first, then the archives on top of it.
    pub folders: &'a [Utf8PathBuf],
    /// Decides between a record of an archive and the one that the cache has.
    pub prefers: &'a Prefers,
    /// Selects the tables to read; records of others stay in the archive.
    pub takes: &'a dyn Fn(Table) -> bool,
    /// Called with the read and the total number of bytes of the volumes.
    pub progress: &'a dyn Fn(u64, u64),
}

/// The counts of unpacked entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnpackCounts {
    /// The size of all volumes that were read.
    pub bytes: u64,
    /// Objects and records that were new here.
    pub objects: u64,
    /// Records that were new here, or that replaced others.
    pub records: u64,
    /// Entries that could not be read; all others were unpacked.
    pub damages: Vec<Damage>,
    /// Archives with a base that was not named.
    pub without_base: Vec<Utf8PathBuf>,
}
