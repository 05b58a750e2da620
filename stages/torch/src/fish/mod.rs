//! Fish Speech from clips to sentences: the layer between the stages and the text model.

pub mod clip;
pub mod fixture;
pub mod model;
pub mod plan;
pub mod preflight;
#[cfg(test)]
pub(crate) mod testing;
mod trainee;
pub mod tune;
pub mod vocabulary;
pub mod voice;

pub use trainee::{DualArMemory, DualArTrainee};
