//! Storage: objects under their digests, records about them, and a memo of file states. It knows
//! nothing of stages and pipelines.
//!
//! The packs are an append-only log and the truth; the index can always be rebuilt from them. The
//! format on disk is described in `docs/store.md`.

#![warn(missing_docs)]
#![warn(clippy::missing_errors_doc)]

pub mod fs;
pub mod memory;

mod archive;
mod cache;
mod claim;
mod digest;
mod digests;
mod error;
mod index;
mod input_folder;
mod layout;
mod lease;
mod long;
mod materialise;
mod objects;
mod open;
mod own_file;
mod pack;
mod records;
mod shares;
mod staging;
pub mod stat;
mod stats;
mod upkeep;

pub use archive::{
    ArchiveEntry, ArchivePlaces, Archived, Archiving, ENTRY_HEADER, FIRST_ENTRY, Kept,
    MOST_ARCHIVE_BYTES, ObjectPlace, Prefers, UnpackCounts, Unpacking, VOLUME_MARK,
    archive_entries, archive_places, archive_volumes, record_parts, volume_name,
};
pub use cache::Cache;
pub use claim::Claim;
pub use digest::{Digest, DigestError, Hasher};
pub(crate) use digest::{hash_open, hash_parts, hash_up_to};
pub use error::CacheError;
pub use index::gate::Access;
pub use input_folder::{IdleInputs, InputFolder, WantedInput, WrittenInput};
pub use layout::{FORMAT, cache_around};
pub use materialise::{Link, Materialised, Target};
pub use objects::LOOSE_SIZE;
pub use pack::commit::Committed;
pub use pack::entry::Table;
pub use shares::in_shares;
pub use staging::{StagingDir, staging_lock};
pub use stats::Stats;
pub use upkeep::rebuild::RebuildReport;
pub use upkeep::sweep::{SweepPlan, SweepReport};
pub use upkeep::trash::{Emptied, RestoreReport};
pub use upkeep::verify::{Damage, VerifyOptions, VerifyReport};
