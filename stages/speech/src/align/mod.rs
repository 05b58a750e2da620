//! Alignment of texts with sound: the times of words. The search knows no files and no stages.

pub mod anchors;
pub mod recording;
mod romanise;
mod stage;
pub mod text;
pub mod viterbi;

pub use stage::stages;
