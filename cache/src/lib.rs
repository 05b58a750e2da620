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
mod backend;
mod cache;
mod checked;
mod claim;
mod commit;
mod database;
mod digest;
mod digests;
mod entry;
mod error;
mod gate;
mod half_written;
mod index;
mod input_folder;
mod layout;
mod lease;
mod ledger;
mod long;
mod losses;
mod lost_packs;
mod materialise;
mod misplaced;
mod objects;
mod open;
mod orphans;
mod own_file;
mod packs;
mod pending;
mod rebuild;
mod records;
mod recover;
mod room;
mod rows;
mod scan;
mod shares;
mod staging;
pub mod stat;
mod stats;
mod sweep;
mod trash;
mod verify;
mod writer;

pub use archive::{
    ArchiveEntry, ArchivePlaces, Archived, Archiving, ENTRY_HEADER, FIRST_ENTRY, Kept,
    MOST_ARCHIVE_BYTES, ObjectPlace, Prefers, UnpackCounts, Unpacking, VOLUME_MARK,
    archive_entries, archive_places, archive_volumes, record_parts, volume_name,
};
pub use cache::Cache;
pub use claim::Claim;
pub use commit::Committed;
pub use digest::{Digest, DigestError, Hasher};
pub(crate) use digest::{hash_open, hash_parts, hash_up_to};
pub use entry::Table;
pub use error::CacheError;
pub use gate::Access;
pub use input_folder::{IdleInputs, InputFolder, WantedInput, WrittenInput};
pub use layout::{FORMAT, cache_around};
pub use materialise::{Link, Materialised, Target};
pub use objects::LOOSE_SIZE;
pub use rebuild::RebuildReport;
pub use shares::in_shares;
pub use staging::{StagingDir, staging_lock};
pub use stats::Stats;
pub use sweep::{SweepPlan, SweepReport};
pub use trash::{Emptied, RestoreReport};
pub use verify::{Damage, VerifyOptions, VerifyReport};
