//! Operations on whole data sets: splitting, filtering, merging and packing.

mod corpus;
pub mod filter;
mod hash;
pub mod kinds;
pub mod merge;
pub mod pack;
pub mod split;
mod stage;

pub use stage::stages;

/// True for the share of names that is set aside for a purpose, whatever other names there are.
pub(crate) fn is_held(purpose: &str, name: &str, share: f64) -> bool {
    hash::position(hash::stable(purpose, &[name])) < share
}

/// Sorts names by a hash: those that are selected stay the same whatever other names there are.
pub(crate) fn stable_order(purpose: &str, names: &mut [&str]) {
    names.sort_by_key(|name| hash::stable(purpose, &[name]));
}
