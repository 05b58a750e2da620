//! Quality of a synthesis: measures by itself, against a recording of the same sentence, against
//! the transcript of a recogniser, against an earlier run, and of models against each other. Functions of samples and texts do
//! the work; stages around them read fields.

mod align;
mod ceiling;
mod cepstrum;
pub mod choose;
pub mod compare;
pub mod edits;
pub mod fit;
mod frames;
mod gain;
pub mod kinds;
pub mod measure;
mod pair;
mod paired;
pub mod pitch;
mod regression;
mod stage;
pub mod transcript;

pub use stage::stages;
