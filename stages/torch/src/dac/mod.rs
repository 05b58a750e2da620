//! The codec of Fish Speech: a DAC of causal convolutions and window transformers, with a semantic
//! codebook before the residual ones.
//!
//! `config` has the sizes, `layout` the names and shapes of a file's tensors, `load` converts them
//! for `model`.

mod codec;
mod config;
mod conv;
pub(crate) mod fixture;
mod layout;
mod load;
mod model;
mod quantizer;
mod trace;
mod transformer;

pub use codec::Dac;
pub use config::{Config, EncoderTransformer, Quantizer, Transformer};
pub use layout::Layout;
