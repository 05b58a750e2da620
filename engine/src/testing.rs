//! Pipelines for tests: from their text alone, as if every file existed.
#![allow(clippy::unwrap_used)]

use camino::Utf8Path;
use manifest::pipeline::Pipeline;
use manifest::{FileKind, LoadOptions, load};
use stage_core::Kind;

pub fn pipeline(text: &str) -> Pipeline {
    pipeline_with(text, &[])
}

/// The same with further kinds.
pub fn pipeline_with(text: &str, kinds: &[&'static Kind]) -> Pipeline {
    let options = LoadOptions::default();
    let file = Utf8Path::new("pipeline.toml");
    let mut catalogue = stage_speech::catalogue();
    kinds.iter().copied().for_each(|kind| catalogue.add(kind));
    let loaded = load(text, file, &catalogue, &options, &|_| FileKind::File);
    loaded.unwrap_or_else(|problems| panic!("{problems:?}")).pipeline
}
