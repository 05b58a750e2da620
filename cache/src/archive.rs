//! Archives: what is live in a cache as a few large files, to be carried to another machine.
//!
//! An archive is a folder with numbered volumes and, written last, an index. A volume is a pack
//! whose large objects are cut into pieces. An overlay has only what the archives it builds on
//! have not. The format is described in `docs/store.md`.

mod assembly;
mod contents;
mod index;
mod lock;
mod merge;
mod pack;
mod unpack;
mod volumes;

use camino::{Utf8Path, Utf8PathBuf};

use crate::{Damage, Digest, Table};

/// How an archive is written.
pub struct Archiving<'a> {
    /// Made if it is not there; it must not have an archive yet.
    pub folder: &'a Utf8Path,
    /// Archives that will be at hand when this one is unpacked: what they have is left out.
    pub bases: &'a [Utf8PathBuf],
    /// How large a volume may become. One entry may be larger: a piece of 4 MiB, or a record.
    pub volume_bytes: u64,
    /// Told how many bytes of objects are done, and of how many.
    pub progress: &'a dyn Fn(u64, u64),
}

/// What of the cache goes into an archive.
pub struct Kept<'a> {
    pub object: &'a dyn Fn(&Digest) -> bool,
    pub record: &'a dyn Fn(Table, &Digest) -> bool,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archived {
    pub volumes: u64,
    /// The size of all volumes.
    pub bytes: u64,
    pub objects: u64,
    pub records: u64,
    /// Objects and records that the bases have.
    pub in_bases: u64,
    /// Objects and keys of records that turned out to be damaged and are not in the archive.
    pub damaged: Vec<Digest>,
}

/// Whether the second value of a record takes the place of the first, which is there.
pub type Prefers = dyn Fn(Table, &[u8], &[u8]) -> bool;

/// How archives are unpacked.
pub struct Unpacking<'a> {
    /// The base first, then what builds on it.
    pub folders: &'a [Utf8PathBuf],
    pub prefers: &'a Prefers,
    /// Which tables are read; records of others stay where they are.
    pub takes: &'a dyn Fn(Table) -> bool,
    /// Told how many bytes of the volumes have been read, and of how many.
    pub progress: &'a dyn Fn(u64, u64),
}

/// What came in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenIn {
    /// The size of all volumes that were read.
    pub bytes: u64,
    /// Objects and records that were new here.
    pub objects: u64,
    pub records: u64,
    /// What could not be read; all else came in.
    pub damages: Vec<Damage>,
    /// Archives that build on others which were not named.
    pub without_base: Vec<Utf8PathBuf>,
}
