//! Shared code of the end-to-end tests: a small world of stages with a folder to run them in, and
//! projects for the real programs.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

pub mod browser;
pub mod guide;
mod lab;
pub mod modules;
pub mod names;
pub mod picture;
pub mod players;
pub mod processes;
mod project;
mod running;
pub mod screen;
pub mod small_disk;
pub mod stages;
pub mod train;
pub mod training;
pub mod unruly;
pub mod voice;
pub mod worlds;

pub use lab::{Lab, MANIFEST, Ran, SPLIT_MANIFEST};
pub use project::{CLIPS, Project, RanProgram, command, copy_folder, tone, wav, write_clips};
pub use running::{Running, send};
