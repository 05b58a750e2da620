//! Stages in plain Rust: corpora, audio, texts, data sets, speakers, reports and commands.
//!
//! Each family has its work as plain functions on bytes and values, and thin stages in front of
//! them that read parameters and fields. [`stages`] lists all of them.

pub mod audio;
pub mod command;
pub mod corpus;
pub mod dataset;
pub mod npy;
pub mod report;
pub mod speaker;
pub mod text;
