//! XTTS v2: the GPT over text and codes with its conditioning encoder.
//!
//! Tensors are named as in the published checkpoint. Shapes: B rows, T columns or frames,
//! C channels.

pub mod batch;
mod conditioning_encoder;
pub mod gpt;
pub mod gpt2;
mod named;
mod perceiver;
mod trainee;

pub use batch::{Batch, Clip, Layout, Packer, Parity, Purpose};
pub use gpt::Gpt;
pub use stage_families::xtts::{Config, GptConfig};
pub use trainee::{GptTrainee, Memory};
