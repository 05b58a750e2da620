//! From the text of a manifest to a [`Pipeline`].
//!
//! Text becomes nodes with positions (`parse`), overrides and `[params]` are substituted, `written`
//! has the manifest as written, and `resolve` its meaning. All errors of a file are reported at
//! once, each with its position and advice. Only the text is read here: files and the environment
//! are accessed through functions.

mod artifacts;
mod asked;
mod brief;
mod draft;
mod edit;
mod executor;
mod export;
mod fields;
mod instance;
mod mistake;
mod nearest;
mod node;
mod options;
mod order;
mod overrides;
mod page;
mod params;
mod parse;
pub mod pipeline;
mod policy;
mod problem;
mod reference;
mod remote;
mod resolve;
mod schema;
mod session;
mod source;
pub mod sweep;
mod target;
mod trials;
mod unit;
mod value;
mod written;

use camino::Utf8Path;
use stage_core::Catalogue;

use crate::pipeline::{ManifestText, Pipeline};

pub use brief::brief;
pub use edit::{set, set_initial};
pub use fields::declared;
pub use nearest::{nearest, suggestion};
pub use options::{FileKind, LoadOptions};
pub use page::{kind_page, reference};
pub use problem::{Problem, Problems, Span};
pub use schema::schema;
pub use unit::{duration, size};

/// The name of the file with the manifest of a folder.
pub const FILE_NAME: &str = "pipeline.toml";

#[derive(Debug)]
pub struct LoadedPipeline {
    pub pipeline: Pipeline,
    pub warnings: Vec<Problem>,
}

/// The schema as it is written to files.
pub fn schema_text(catalogue: &Catalogue) -> String {
    format!("{:#}\n", schema(catalogue))
}

/// Reads the text of the manifest `file`. `files` is called with paths joined to the folder of the
/// manifest.
pub fn load(
    text: &str,
    file: &Utf8Path,
    catalogue: &Catalogue,
    options: &LoadOptions,
    files: &dyn Fn(&Utf8Path) -> FileKind,
) -> Result<LoadedPipeline, Problems> {
    let mut problems = problem::Collector::default();
    let pipeline = read(text, file, catalogue, options, files, &mut problems);
    let overrides = options.set.iter().map(|argument| ("--set", argument.as_str()));
    let texts: Vec<(&str, &str)> =
        std::iter::once((file.as_str(), text)).chain(overrides).collect();
    let warnings = problems.finish(file.as_str(), &texts)?;
    match pipeline {
        Some(pipeline) => Ok(LoadedPipeline { pipeline, warnings }),
        None => Err(Problems::unexplained(file.as_str())),
    }
}

/// `None` only if an error has been reported.
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
    let mut pipeline = resolve::resolve(manifest, file, catalogue, checks, problems)?;
    pipeline.written = ManifestText { text: text.to_owned(), set: options.set.clone() };
    Some(pipeline)
}
