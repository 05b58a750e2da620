//! Files of the original projects: weights, tokenizers, token arrays, training shards and
//! event files. Every reader here takes hostile bytes: it gives values or an error, runs
//! nothing, and asks for no more memory than the file itself accounts for. Files of weights are
//! read in parts: their directory first, and then one tensor at a time.
//!
//! Of models only their configurations are known here: which tensors there are, and their shapes.

mod announced;
pub mod artifact;
pub mod bpe;
pub mod checkpoint;
pub mod dual_ar;
mod error;
pub mod npy;
mod parts;
pub mod pattern;
pub mod pickle;
pub mod picture;
pub mod protos;
pub mod pth;
pub mod safetensors;
pub mod shapes;
mod sink;
mod sizes;
mod symbols;
pub mod tensor;
pub mod tensorboard;
pub mod training;
pub mod vits;
pub mod wav2vec2;
pub mod weight_norm;
pub mod weights;
mod zip;

pub use error::FormatError;
pub use parts::Parts;
pub use sink::FileSink;
pub use tensor::{Dtype, Tensor, TensorInfo};
pub use weights::WeightFile;
