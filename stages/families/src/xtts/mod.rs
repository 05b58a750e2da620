//! XTTS v2: a GPT-2 over text and audio codes, a discrete VAE for the codes, and a HiFi-GAN decoder.

mod buffers;
mod check;
mod cleaners;
mod clip;
mod config;
mod export;
mod extend;
mod fresh;
mod gpt_tensors;
mod import;
pub mod kinds;
mod language;
mod mistakes;
mod model;
mod published;
mod published_check;
mod sentences;
mod speakers;
pub mod speech;
mod tensors;
mod tokenizer;
mod training;
pub mod tune;
mod vocabulary;
mod vocabulary_check;

use stage_core::{Kind, Parameters};

pub use self::cleaners::Uncleanable;
pub use self::clip::{CLIP_SALT, clip_identity};
pub use self::config::{
    DecoderConfig, DvaeConfig, GptConfig, SamplingConfig, SpeakerEncoderConfig, XttsConfig,
};
pub use self::extend::{ExtendedVocabulary, Pieces, TEXT_TABLES, grown};
pub use self::fresh::config as fresh_config;
pub use self::gpt_tensors::{GPT_PREFIX, is_duplicate};
pub use self::import::SPEAKERS_FILE;
pub use self::language::LanguageCode;
pub use self::published::{Shapes, TextTokens};
pub use self::sentences::pieces;
pub use self::speakers::{Speaker, Speakers};
pub use self::tensors::{
    DECODER_PREFIX, DVAE_PREFIX, MEL_STATS, SPEAKER_ENCODER_PREFIX, is_buffer, parameters,
};
pub use self::tokenizer::{TextError, XttsTokenizer};
pub use self::training::{training_memory, training_operations};
pub use self::vocabulary::XttsVocabulary;
use crate::artifact;
use crate::export::Exporter;
use crate::family::Family;
use crate::import::Importer;
use crate::model::{AssumedModel, Codec, Model};
pub use crate::scope::{DIRECTION, LENGTH};
use crate::speech::{PublishedFiles, SpeechGap, SpeechNeed, manifest, quoted};

/// The sample rate of references.
const REFERENCE_RATE: u32 = 22_050;
/// The published DVAE: 51,567,184 parameters in f32.
const DVAE_BYTES: f64 = 51_567_184.0 * 4.0;

pub struct Xtts;

/// Adapters for the GPT of such a model.
pub struct XttsLora;

impl Family for XttsLora {
    fn name(&self) -> &'static str {
        artifact::XTTS_LORA
    }

    fn title(&self) -> &'static str {
        "adapters of an XTTS model"
    }

    fn kinds(&self) -> &'static [&'static Kind] {
        tune::KINDS
    }
}

impl Family for Xtts {
    fn name(&self) -> &'static str {
        artifact::XTTS
    }

    fn title(&self) -> &'static str {
        "an XTTS model"
    }

    fn codec(&self) -> Option<Codec> {
        let told = "the DVAE of XTTS takes a tenth of the time of the published codec";
        Some(Codec { share: 0.1, told: Some(told), bytes: DVAE_BYTES, working_bytes: |_| 0.0 })
    }

    fn kinds(&self) -> &'static [&'static Kind] {
        kinds::KINDS
    }

    fn read(&self, config: &[u8]) -> Option<Box<dyn Model>> {
        model::read(config)
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
        Some("coqui")
    }

    fn speech(&self, files: &PublishedFiles) -> Result<String, SpeechGap> {
        let mut manifest = manifest(files, artifact::XTTS);
        let source = match (&files.speaker, &files.reference) {
            (Some(speaker), _) => Some(format!("speaker = {}\n", quoted(speaker))),
            (None, Some(clip)) => {
                manifest.push_str(&clip.stages(REFERENCE_RATE));
                Some("input = \"clip\"\n".to_owned())
            }
            (None, None) => None,
        };
        let (Some(source), Some(language)) = (&source, &files.language) else {
            return Err(lacking(source.is_none(), files.language.is_none()));
        };
        Ok(format!(
            "{manifest}\n[stage.voice]\nuse = \"xtts.voice\"\nmodel = \"model\"\n{source}\n\
             [stage.speech]\nuse = \"xtts.synthesize\"\ninput = \"sentences\"\nmodel = \"model\"\n\
             voice = \"voice\"\nlanguage = {}\n",
            quoted(language)
        ))
    }
}

/// Names at once all that files of XTTS need to speak.
fn lacking(voice: bool, language: bool) -> SpeechGap {
    let needs = [
        (
            voice,
            SpeechNeed::Reference,
            "a reference recording or the name of a voice that comes with it",
        ),
        (language, SpeechNeed::Language, "the language of the text"),
    ];
    let needs = needs.into_iter().filter(|(is_lacking, ..)| *is_lacking);
    let (needs, named): (Vec<_>, Vec<_>) = needs.map(|(_, need, named)| (need, named)).unzip();
    SpeechGap { reason: format!("an XTTS model needs {}", named.join(", and ")), needs }
}

/// A voice of an XTTS model: conditioning latents and a speaker vector.
pub struct Voice;

impl Family for Voice {
    fn name(&self) -> &'static str {
        artifact::XTTS_VOICE
    }

    fn title(&self) -> &'static str {
        "a voice of an XTTS model"
    }

    fn kinds(&self) -> &'static [&'static Kind] {
        speech::KINDS
    }
}
