//! Speakers of a data set: statistics, the selection of speakers to train on, and their voices.

mod embedding;
mod group;
pub mod kinds;
mod matching;
pub mod select;
mod stage;
pub mod stats;
mod voice;

pub use embedding::{cosine, embedding};
pub use stage::stages;
