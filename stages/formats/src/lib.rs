//! Files of the original projects: weights, tokenizers, token arrays, training shards and event
//! files. Every reader accepts hostile bytes: it returns values or an error, runs nothing, and uses
//! no more memory than the file justifies. Weight files are read in parts: first their directory,
//! then one tensor at a time.

mod announced;
pub mod bpe;
pub mod checkpoint;
mod error;
pub mod json;
pub mod mark;
pub mod npy;
pub mod onnx;
mod parts;
pub mod pattern;
pub mod pickle;
pub mod picture;
pub mod protos;
pub mod pth;
pub mod safetensors;
pub mod shapes;
pub mod shards;
mod sink;
pub mod stranger;
pub mod tensor;
pub mod tensorboard;
pub mod weight_norm;
pub mod weights;
mod zip;

pub use error::FormatError;
pub use parts::Parts;
pub use sink::FileSink;
pub use stranger::Stranger;
pub use tensor::{Dtype, Tensor, TensorInfo};
pub use weights::WeightFile;
