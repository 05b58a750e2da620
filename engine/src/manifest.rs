//! From the text of a manifest to a [`Pipeline`].
//!
//! Text becomes nodes with places (`parse`), overrides and `[params]` take their places,
//! `written` says what stands there, and `resolve` what is meant. Every error of a file is
//! reported at once, each with its place and advice. Nothing is read here but the text: files and
//! the environment are asked for through functions.

mod artifacts;
mod draft;
mod export;
mod fields;
mod instance;
mod mistake;
mod nearest;
mod node;
mod order;
mod overrides;
mod page;
mod params;
mod parse;
mod policy;
mod problem;
mod reference;
mod resolve;
mod schema;
mod session;
mod source;
mod target;
mod unit;
mod value;
mod written;

#[cfg(test)]
pub(crate) mod testing;

use camino::Utf8Path;
use stage_core::Catalogue;

use crate::pipeline::Pipeline;

pub(crate) use fields::declared;
pub use page::{kind_page, reference};
pub use problem::{Problem, Problems, Span};
pub use schema::schema;
pub use unit::{duration, size};

/// What comes from outside of the text.
pub struct LoadOptions<'a> {
    /// Overrides such as `stage.voice.rate=22050`, in order.
    pub set: Vec<String>,
    /// The value of an environment variable.
    pub secrets: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a path is in the folder of the cache, wherever that lies.
    pub is_in_cache: &'a dyn Fn(&Utf8Path) -> bool,
}

impl Default for LoadOptions<'_> {
    fn default() -> Self {
        LoadOptions { set: Vec::new(), secrets: &|_| None, is_in_cache: &|_| false }
    }
}

/// What is found at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Folder,
    Missing,
}

#[derive(Debug)]
pub struct Loaded {
    pub pipeline: Pipeline,
    pub warnings: Vec<Problem>,
}

/// The schema as it is written to files.
pub fn schema_text(catalogue: &Catalogue) -> String {
    format!("{:#}\n", schema(catalogue))
}

/// Reads the text of the manifest `file`. `files` is asked about paths that are joined to the
/// folder of the manifest.
pub fn load(
    text: &str,
    file: &Utf8Path,
    catalogue: &Catalogue,
    options: &LoadOptions,
    files: &dyn Fn(&Utf8Path) -> FileKind,
) -> Result<Loaded, Problems> {
    let mut problems = problem::Collector::default();
    let pipeline = read(text, file, catalogue, options, files, &mut problems);
    let overrides = options.set.iter().map(|argument| ("--set", argument.as_str()));
    let texts: Vec<(&str, &str)> =
        std::iter::once((file.as_str(), text)).chain(overrides).collect();
    let warnings = problems.finish(file.as_str(), &texts)?;
    match pipeline {
        Some(pipeline) => Ok(Loaded { pipeline, warnings }),
        None => Err(Problems::unexplained(file.as_str())),
    }
}

/// `None` only where an error has been reported.
fn read(
    text: &str,
    file: &Utf8Path,
    catalogue: &Catalogue,
    options: &LoadOptions,
    files: &dyn Fn(&Utf8Path) -> FileKind,
    problems: &mut problem::Collector,
) -> Option<Pipeline> {
    let mut root = parse::document(text, problems)?;
    for (at, argument) in options.set.iter().enumerate() {
        overrides::apply(&mut root, argument, at + 1, problems);
    }
    params::substitute(&mut root, problems);
    let manifest = written::Manifest::read(root, problems);
    let base = file.parent().unwrap_or(Utf8Path::new(""));
    let checks = value::Checks::new(base, files, options);
    resolve::resolve(manifest, file, catalogue, checks, problems)
}
