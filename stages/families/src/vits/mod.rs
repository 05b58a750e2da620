//! VITS as published by transformers and the MMS project: the configuration, the names and shapes
//! of its tensors, and the tokenizer.

mod check;
mod checkpoint;
mod clip;
pub mod complete;
mod config;
mod export;
mod fresh;
mod import;
pub mod kinds;
mod model;
mod names;
mod onnx;
mod original;
mod piper;
mod speakers;
mod tensors;
mod tokenizer;
mod training;
pub mod tune;
mod vocabulary;

use stage_core::{Kind, Parameters};

use crate::artifact;
use crate::export::Exporter;
use crate::family::Family;
use crate::import::Importer;
use crate::model::{AssumedModel, Model};
use crate::speech::{PublishedFiles, SpeechGap, manifest};
pub use clip::{CLIP_SALT, clip_identity};
pub use config::VitsConfig;
pub use fresh::config as fresh_config;
pub use names::{from_original, is_projection, of_original_discriminator, plain_name};
pub use original::{is_original, read_original};
pub use piper::{DESCRIPTION_SUFFIX, VoiceDescription, describe, reads_phonemes};
pub use speakers::{SPEAKERS_FILE, config_for_speakers, read_speakers, write_speakers};
pub use tensors::{DISCRIMINATOR_PREFIX, is_normed, is_normed_in_transformers};
pub use tokenizer::{PHONEMES, PHONEMISE, Phonemes, ROMANISE, Tokens, VitsTokenizer};
use training::{training_memory, training_share};
pub use vocabulary::{TextRules, tokenizer_config_file, vocabulary_file};

/// The stage that speaks the items of `INPUT`.
const SPEECH: &str =
    "\n[stage.speech]\nuse = \"vits.synthesize\"\ninput = \"INPUT\"\nmodel = \"model\"\n";
const PHONEMES_OF_SENTENCES: &str =
    "\n[stage.phonemes]\nuse = \"text.phonemise\"\ninput = \"sentences\"\nmodel = \"model\"\n";

pub struct Vits;

impl Family for Vits {
    fn name(&self) -> &'static str {
        artifact::VITS
    }

    fn title(&self) -> &'static str {
        "a VITS model"
    }

    fn kinds(&self) -> &'static [&'static Kind] {
        kinds::KINDS
    }

    fn read(&self, config: &[u8]) -> Option<Box<dyn Model>> {
        Some(Box::new(VitsConfig::parse(config).ok()?))
    }

    fn fresh(
        &self,
        kind: &Kind,
        parameters: &Parameters,
        _: Option<&Parameters>,
    ) -> Option<Box<dyn Model>> {
        model::fresh(kind, parameters)
    }

    fn assumed(&self) -> Option<AssumedModel> {
        Some(model::assumed())
    }

    fn importer(&self) -> Option<&dyn Importer> {
        Some(self)
    }

    fn exporter(&self) -> Option<&dyn Exporter> {
        Some(self)
    }

    fn library(&self) -> Option<&'static str> {
        Some("transformers")
    }

    fn speech(&self, files: &PublishedFiles) -> Result<String, SpeechGap> {
        let stages = match files.reads_phonemes {
            false => SPEECH.replace("INPUT", "sentences"),
            true => PHONEMES_OF_SENTENCES.to_owned() + &SPEECH.replace("INPUT", "phonemes"),
        };
        Ok(manifest(files, artifact::VITS) + &stages)
    }
}
