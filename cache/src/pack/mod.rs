//! The packs: an append-only log of objects and records, and the commits that write to it.

pub mod commit;
pub mod entry;
pub mod packs;
pub mod scan;
pub mod uncommitted;
pub mod writer;
