//! The contents of a cache as a whole: what is kept, packed and exchanged with other machines.

pub mod archive;
pub mod gc;
pub(crate) mod leftovers;
pub mod mirror;
pub mod misplaced;
