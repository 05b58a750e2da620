//! Models on libtorch and the stages that use them; the only user of tch.
//!
//! The worker program serves the stages to the engine over a pipe, so that `throstle` itself never
//! links libtorch.

pub mod autoregressive;
pub mod dac;
pub mod device;
pub mod dual_ar;
pub mod error;
pub mod fish;
pub mod fixture;
mod lineage;
mod model_slot;
mod nn;
pub mod npy;
mod patterns;
mod port_model;
mod runtime;
mod sound;
mod stages;
pub mod stored;
#[cfg(test)]
mod testing;
mod torchscript;
pub mod train;
mod tune;
pub mod vits;
pub mod wav2vec2;
pub mod worker;
pub mod xtts;

pub use device::{open_gpu, peak_memory, reset_peak_memory};
pub use error::TorchError;
pub use nn::{layers, lora, random, rope, weights};
pub use runtime::heap;
pub use runtime::shim::{
    AttentionKernels, Tf32, attention, is_deterministic, operations, tf32, waits,
};
pub use runtime::upload::{Copies, copies};
pub use sound::{codec, mel, mel_rvq, mel_rvq_fit, wave};
