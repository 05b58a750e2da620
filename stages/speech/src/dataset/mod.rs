//! Operations on whole data sets: splitting, filtering, merging and packing.

pub mod filter;
mod hash;
pub mod merge;
pub mod pack;
pub mod split;
mod stage;

pub use stage::stages;
