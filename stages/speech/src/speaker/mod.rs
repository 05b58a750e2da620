//! Speakers of a data set: how much each has said, and which of them to train on.

pub mod select;
mod stage;
pub mod stats;

pub use stage::stages;
