//! Pipelines for tests: from their text alone, as if every file existed.
#![allow(clippy::unwrap_used)]

use camino::Utf8Path;
use manifest::pipeline::Pipeline;
use manifest::{FileKind, LoadOptions, load};

pub fn pipeline(text: &str) -> Pipeline {
    let options = LoadOptions::default();
    let file = Utf8Path::new("pipeline.toml");
    let loaded = load(text, file, &stage_families::catalogue(), &options, &|_| FileKind::File);
    loaded.unwrap_or_else(|problems| panic!("{problems:?}")).pipeline
}
