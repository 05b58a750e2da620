//! How good a synthesis is: measures of its own, against a recording of the same sentence,
//! against what a recogniser heard, and against an earlier run. The work is done by functions of
//! samples and texts; the stages in front of them read fields.

mod align;
mod cepstrum;
pub mod compare;
pub mod edits;
pub mod frames;
pub mod measure;
mod pair;
pub mod pitch;
mod regression;
mod similarity;
mod stage;
pub mod transcript;

pub use stage::stages;
