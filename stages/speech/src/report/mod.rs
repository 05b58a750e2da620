//! Reports on what a pipeline has made.

mod stage;
pub mod summary;
mod tensorboard;

pub use stage::stages;
