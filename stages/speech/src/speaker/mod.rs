//! Speakers of a data set: statistics, and the selection of speakers to train on.

pub mod select;
mod stage;
pub mod stats;

pub use stage::stages;
