//! Reports on the outputs of a pipeline.

mod fates;
mod recordings;
mod stage;
pub mod summary;
mod tensorboard;

pub use stage::stages;
