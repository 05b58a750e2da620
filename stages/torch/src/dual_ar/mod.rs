//! The text model of Fish Speech: a slow transformer over text and frames of codes, and a fast
//! one over the codes of a frame.
//!
//! Tensors are named as in the published files. Shapes: B rows, T columns (of text or of
//! frames), C channels, K codebooks, N frames.

pub mod batch;
pub mod block;
pub mod config;
mod loss;
pub mod model;
mod trainee;

pub use batch::{Batch, Clip};
pub use config::Config;
pub use model::{DualAr, Parity, Tokens};
pub use trainee::{DualArTrainee, Memory};
