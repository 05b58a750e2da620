//! Reports on the outputs of a pipeline.

mod fates;
pub mod kinds;
mod recordings;
mod stage;
pub mod summary;
mod tensorboard;

pub use stage::stages;
