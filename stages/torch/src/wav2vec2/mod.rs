//! Speech recognisers of the type wav2vec 2.0 with a head for CTC, for inference only.

pub mod artifact;
mod encoder;
mod features;
pub mod fixture;
mod model;

pub use model::Wav2Vec2;
