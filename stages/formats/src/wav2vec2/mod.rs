//! Speech recognisers of the type wav2vec 2.0 with a head for CTC (`Wav2Vec2ForCTC` of
//! transformers): their configuration, what their tensors are called and how large they are, how
//! sound is handed to them, and how what they say is read.

mod config;
mod preprocessor;
mod tensors;
mod vocabulary;

pub use config::{Config, Norm};
pub use preprocessor::Preprocessor;
pub use tensors::{MASK, plain_name};
pub use vocabulary::Vocabulary;
