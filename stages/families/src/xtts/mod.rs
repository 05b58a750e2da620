//! XTTS v2: a GPT-2 over text and audio codes, a discrete VAE for the codes, and a HiFi-GAN decoder.

mod config;
mod gpt_tensors;

pub use config::{
    Config, DecoderConfig, DvaeConfig, GptConfig, SamplingConfig, SpeakerEncoderConfig,
};
pub use gpt_tensors::{GPT_PREFIX, is_duplicate};
