//! Models on libtorch and the stages that use them; the only user of tch.
//!
//! A model is a codec behind [`codec::Codec`]. The worker program serves the stages to the
//! engine over a pipe, so that `throstle` itself never links libtorch.

pub mod codec;
pub mod error;
pub mod griffin_lim;
pub mod kmeans;
pub mod mel;
pub mod mel_rvq;
pub mod mel_rvq_fit;
pub mod random;

pub use error::TorchError;
