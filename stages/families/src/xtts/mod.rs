//! XTTS v2: a GPT-2 over text and audio codes, a discrete VAE for the codes, and a HiFi-GAN decoder.

mod buffers;
mod check;
mod config;
mod fresh;
mod gpt_tensors;
pub mod kinds;
mod published;
mod tensors;
mod vocabulary;

use stage_core::Kind;

pub use self::config::{
    Config, DecoderConfig, DvaeConfig, GptConfig, SamplingConfig, SpeakerEncoderConfig,
};
pub use self::fresh::{Fresh, config as fresh_config};
pub use self::gpt_tensors::{GPT_PREFIX, is_duplicate};
pub use self::published::{Shapes, TextTokens};
pub use self::tensors::{
    DECODER_PREFIX, DIRECTION, DVAE_PREFIX, LENGTH, MEL_STATS, SPEAKER_ENCODER_PREFIX, is_buffer,
    parameters,
};
pub use self::vocabulary::Vocabulary;
use crate::artifact;
use crate::family::Family;

pub struct Xtts;

impl Family for Xtts {
    fn name(&self) -> &'static str {
        artifact::XTTS
    }

    fn title(&self) -> &'static str {
        "an XTTS model"
    }

    fn kinds(&self) -> &'static [&'static Kind] {
        kinds::KINDS
    }
}
