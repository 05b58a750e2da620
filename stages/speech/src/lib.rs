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

use stage_core::{Catalogue, Kind, Stage};

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

/// The kinds of this crate.
pub const KINDS: &[&[&Kind]] = &[
    corpus::kinds::KINDS,
    audio::kinds::KINDS,
    text::kinds::KINDS,
    dataset::kinds::KINDS,
    speaker::kinds::KINDS,
    quality::kinds::KINDS,
    rate::kinds::KINDS,
    voice::kinds::KINDS,
    report::kinds::KINDS,
    command::kinds::KINDS,
    python::kinds::KINDS,
];

/// All built-in kinds: those of this crate, and those for models.
pub fn catalogue() -> Catalogue {
    Catalogue::of(KINDS.iter().copied().flatten().copied().chain(stage_families::every_kind()))
}
