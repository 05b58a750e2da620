//! Models on libtorch and the stages that use them; the only user of tch.
//!
//! The worker program serves the stages to the engine over a pipe, so that `throstle` itself never
//! links libtorch.

mod arrived;
pub mod autoregressive;
mod budget;
mod cast;
mod chain;
pub mod codec;
mod conv;
mod convolution;
mod counter;
pub mod dac;
pub mod device;
pub mod dual_ar;
pub mod error;
pub mod fish;
pub mod fixture;
mod griffin_lim;
pub mod heap;
mod hifi_gan;
mod kmeans;
pub mod layers;
mod lineage;
mod loaded;
pub mod lora;
mod lora_fixture;
mod measure;
pub mod mel;
pub mod mel_rvq;
pub mod mel_rvq_fit;
pub mod npy;
mod parity;
mod patterns;
pub mod random;
pub mod rope;
mod shim;
mod stages;
pub mod stored;
#[cfg(test)]
mod testing;
mod threads;
mod torchscript;
pub mod train;
mod tune;
mod upload;
mod utterance;
pub mod vits;
pub mod wav2vec2;
pub mod wave;
mod weight_norm;
pub mod weights;
pub mod worker;
pub mod xtts;

pub use device::{open_gpu, peak_memory, reset_peak_memory};
pub use error::TorchError;
pub use shim::{AttentionKernels, Tf32, attention, is_deterministic, operations, tf32, waits};
pub use upload::{Copies, copies};
