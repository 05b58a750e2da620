//! Upkeep: recovery after a crash, removal of damage and remains, and the release of space.

pub mod half_written;
pub mod losses;
pub mod lost_packs;
pub mod misplaced;
pub mod orphans;
pub mod rebuild;
pub mod recover;
pub mod room;
pub mod sweep;
pub mod trash;
pub mod verify;
