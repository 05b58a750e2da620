//! The codec of Fish Speech: a DAC of causal convolutions and window transformers, with a semantic
//! codebook before the residual ones.
//!
//! `load` converts the tensors of a file for `model`; their names, shapes and sizes are in
//! `stage_families::dac`.

mod codec;
mod conv;
pub(crate) mod fixture;
mod load;
mod model;
mod quantizer;
mod trace;
mod transformer;

pub use codec::Dac;
pub use stage_families::dac::{DacConfig, DacLayout, EncoderTransformer, Quantizer, Transformer};
