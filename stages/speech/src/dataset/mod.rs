//! Operations on whole data sets: splitting, filtering, merging and packing.

mod hash;
pub mod pack;
pub mod split;
