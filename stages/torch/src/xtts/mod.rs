//! XTTS v2: the GPT over text and codes with its conditioning encoder, and the audio modules.
//!
//! Tensors are named as in the published files. Shapes: B rows, T columns or frames, L samples, N
//! codes, C channels.

pub mod artifact;
pub mod batch;
pub mod codec;
mod conditioning_encoder;
pub mod decode;
pub mod decoder;
pub mod dvae;
pub mod fresh;
pub mod gpt;
pub mod gpt2;
pub mod gpt_fixture;
#[cfg(test)]
mod gpt_tests;
pub mod mel;
mod perceiver;
pub mod resample;
pub mod sound_fixture;
pub mod speaker_encoder;
mod trainee;
pub mod tune;
pub mod voice;

pub use crate::runtime::parity::Parity;
pub use crate::train::run::Purpose;
pub use batch::{GptBatch, GptClip, Packer, RowLayout};
pub use decode::{GptSampling, GptSentence, SentenceCodes};
pub use gpt::Gpt;
pub use stage_families::xtts::{GptConfig, XttsConfig};
pub use trainee::{AUDIO, GptMemory, GptTrainee, TEXT};
