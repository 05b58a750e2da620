//! Stages in plain Rust: corpora, audio, texts, data sets, speakers, tokens, models, the quality of
//! syntheses, listening tests, voices, reports, commands and Python programs.
//!
//! Each family consists of plain functions on bytes and values, and thin stages around them that
//! read parameters and fields. [`stages`] lists them.

pub mod align;
pub mod audio;
pub mod command;
pub mod corpus;
pub mod dataset;
pub mod model;
mod numbers;
mod object;
mod plain;
pub mod python;
pub mod quality;
pub mod rate;
pub mod report;
pub mod speaker;
pub mod statistics;
pub mod text;
pub mod voice;
pub mod vq;

use std::sync::Arc;

use stage_core::Stage;

/// The implementations of all families of this crate.
pub fn stages() -> Vec<Arc<dyn Stage>> {
    let families = [
        corpus::stages(),
        audio::stages(),
        text::stages(),
        align::stages(),
        dataset::stages(),
        speaker::stages(),
        vq::stages(),
        model::stages(),
        quality::stages(),
        rate::stages(),
        voice::stages(),
        report::stages(),
        command::stages(),
        python::stages(),
    ];
    families.into_iter().flatten().collect()
}
