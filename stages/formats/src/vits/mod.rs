//! VITS as transformers and the MMS project publish it: the configuration, what its tensors
//! are called and how large they are, and the tokenizer.

mod check;
mod config;
mod names;
mod tensors;
mod tokenizer;
mod training;

pub use config::Config;
pub use names::from_original;
pub use tensors::{DISCRIMINATOR_PREFIX, is_normed};
pub use tokenizer::{Tokenizer, Tokens};
pub use training::training_memory;
