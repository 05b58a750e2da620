//! Plays voices that are graphs (`.onnx`) in this process, by onnxruntime.
//!
//! The library is opened at run time ([`open`]): nothing here is linked to it. A graph is prepared once (module `prepared`):
//! its noise becomes an input, so that a seed gives the same samples, and its decoder becomes a graph of its own that
//! gets a few seconds at a time, so that a long sentence needs no more memory than a short one. Texts arrive as
//! phonemes where a voice reads those.

mod decoder;
mod files;
mod interface;
mod library;
mod noise;
mod prepared;
mod session;
mod voice;

pub use files::VoiceFiles;
pub use library::{OpenLibrary, RELEASE, open};
pub use voice::{GraphVoice, Utterance};
