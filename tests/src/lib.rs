//! What the end-to-end tests share: a small world of stages, and a folder to run them in.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lab;
pub mod stages;
pub mod worlds;

pub use lab::{Lab, MANIFEST, Ran};
