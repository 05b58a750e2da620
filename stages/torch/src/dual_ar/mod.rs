//! The text model of Fish Speech: a slow transformer over text and frames of codes, and a fast
//! one over the codes of a frame.
//!
//! Tensors are named as in the published files. Shapes: B rows, T columns (of text or of
//! frames), C channels, K codebooks, N frames.

pub mod batch;
pub mod block;
pub mod fixture;
pub mod generate;
pub(crate) mod loss;
pub mod model;
pub mod prompt;
pub mod sampler;
mod trainee;

pub use batch::{Batch, Clip};
pub use generate::{Speech, Stop};
pub use model::{DualAr, Parity, Tokens};
pub use prompt::{PromptFormat, Script, Spoken, Vocabulary};
pub use sampler::{Noise, Sampling, Seeded};
pub use stage_families::dual_ar::Config;
pub use trainee::{DualArTrainee, Memory};
