//! XTTS v2: a GPT-2 over text and audio codes, a discrete VAE for the codes, and a HiFi-GAN decoder.

mod check;
mod config;
mod fresh;
mod gpt_tensors;
mod published;
mod tensors;

pub use config::{
    Config, DecoderConfig, DvaeConfig, GptConfig, SamplingConfig, SpeakerEncoderConfig,
};
pub use gpt_tensors::{GPT_PREFIX, is_duplicate};
pub use published::{Shapes, TextTokens};
pub use tensors::{
    DECODER_PREFIX, DIRECTION, DVAE_PREFIX, LENGTH, MEL_STATS, SPEAKER_ENCODER_PREFIX, is_buffer,
    parameters,
};
