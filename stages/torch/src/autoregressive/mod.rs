//! The shared parts of models that draw one frame after the other: attention and its masks, the KV
//! cache, sampling, and the decoding loop over a batch of rows.
//!
//! A model implements [`Decoder`]; [`generate`] runs it on several prefixes at once. In f32 on a
//! CPU the frames of a row are the same to the bit, alone and in any batch: see [`rows`].

pub mod attention;
mod draws;
mod generate;
mod kernels;
pub mod kv_cache;
mod line;
pub mod noise;
mod penalty;
pub mod rows;
pub mod sampler;

pub use attention::{AttentionMask, Heads, Spans};
pub use draws::Draws;
pub use generate::{Decoder, OpenRows, RowFrames, RowMemory, RowRequest, Stop, generate};
pub use kv_cache::{CacheShape, KvCache};
pub use line::Line;
pub use noise::{Noise, SeededNoise};
pub use penalty::PenaltyScope;
pub use sampler::{Sampling, SamplingOrder};
