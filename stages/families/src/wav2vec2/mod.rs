//! Speech recognisers of the type wav2vec 2.0 with a head for CTC (`Wav2Vec2ForCTC` of
//! transformers): their configuration, what their tensors are called and how large they are, how
//! sound is handed to them, and how what they say is read.

mod config;
mod import;
pub mod kinds;
mod preprocessor;
mod tensors;
mod vocabulary;

use stage_core::Kind;

use crate::artifact;
use crate::family::Family;
use crate::import::Importer;
pub use config::{Config, Norm};
pub use preprocessor::Preprocessor;
pub use tensors::{MASK, plain_name};
pub use vocabulary::Vocabulary;

pub struct Wav2Vec2;

impl Family for Wav2Vec2 {
    fn name(&self) -> &'static str {
        artifact::WAV2VEC2
    }

    fn title(&self) -> &'static str {
        "a speech recogniser"
    }

    fn kinds(&self) -> &'static [&'static Kind] {
        kinds::KINDS
    }

    fn importer(&self) -> Option<&dyn Importer> {
        Some(self)
    }
}
