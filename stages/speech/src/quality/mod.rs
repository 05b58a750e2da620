//! Quality of a synthesis: measures by itself, against a recording of the same sentence, against
//! the transcript of a recogniser, and against an earlier run. Functions of samples and texts do
//! the work; stages around them read fields.

mod align;
mod cepstrum;
pub mod compare;
pub mod edits;
pub mod fit;
mod frames;
pub mod measure;
mod pair;
pub mod pitch;
mod regression;
mod similarity;
mod stage;
pub mod transcript;

pub use stage::stages;
