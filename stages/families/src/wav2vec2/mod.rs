//! Speech recognisers of the type wav2vec 2.0 with a head for CTC (`Wav2Vec2ForCTC` of
//! transformers): configuration, names and shapes of tensors, preprocessing of sound, and decoding
//! of text.

mod config;
mod import;
pub mod kinds;
mod preprocessor;
mod tensors;
mod vocabulary;

use stage_core::{Kind, Parameters};

use crate::artifact;
use crate::family::Family;
use crate::import::Importer;
use crate::model::{AssumedModel, Model};
pub use config::{Norm, Wav2Vec2Config};
pub use preprocessor::Preprocessor;
pub use tensors::{MASK, plain_name};
pub use vocabulary::{Alphabet, CtcVocabulary};

/// Published weights are in f32.
const WEIGHT_BYTES: f64 = 4.0;

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

    fn read(&self, config: &[u8]) -> Option<Box<dyn Model>> {
        Some(Box::new(Wav2Vec2Config::parse(config).ok()?))
    }

    fn assumed(&self) -> Option<AssumedModel> {
        let told = "a speech recogniser of unknown size has the size of the base model: 94 million \
             parameters, kept in f32";
        Some(AssumedModel { model: Box::new(Wav2Vec2Config::default()), told })
    }

    fn importer(&self) -> Option<&dyn Importer> {
        Some(self)
    }
}

impl Model for Wav2Vec2Config {
    fn parameters(&self) -> i64 {
        Wav2Vec2Config::parameters(self)
    }

    fn bytes(&self, _: &Parameters) -> f64 {
        self.parameters() as f64 * WEIGHT_BYTES
    }

    fn share(&self) -> f64 {
        self.multiplications() / Wav2Vec2Config::default().multiplications()
    }
}
