//! Reports on what a pipeline has made.

mod stage;
pub mod summary;

pub use stage::stages;
