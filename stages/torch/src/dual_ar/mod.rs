//! The text model of Fish Speech: a slow transformer over text and frames of codes, and a fast
//! one over the codes of a frame.
//!
//! Tensors are named as in the published files. Shapes: B rows, T columns (of text or of
//! frames), C channels, K codebooks, N frames.

pub mod batch;
pub mod block;
pub mod decode;
pub mod generate;
pub(crate) mod loss;
pub mod model;
pub mod prompt;
pub mod sampling;

pub use crate::autoregressive::{Noise, RowFrames, SeededNoise, Stop};
pub use crate::runtime::parity::Parity;
pub use batch::{ClipColumns, DualArBatch};
pub use generate::{DualArSentence, DualArSpeech};
pub use model::{DualAr, SpecialTokens};
pub use prompt::{PromptFormat, PromptVocabulary, Script, SpokenText};
pub use sampling::DualArSampling;
pub use stage_families::dual_ar::DualArConfig;
