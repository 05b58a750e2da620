//! Texts and sound: which words are said where. The search knows no files and no stages.

pub mod anchors;
pub mod recording;
mod romanise;
mod stage;
pub mod text;
pub mod viterbi;

pub use stage::stages;
