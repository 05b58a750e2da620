//! Reports on the outputs of a pipeline.

mod stage;
pub mod summary;
mod tensorboard;

pub use stage::stages;
