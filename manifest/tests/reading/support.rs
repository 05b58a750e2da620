//! Loads manifests against a catalogue and a set of files that exist only here.

use camino::Utf8Path;
use manifest::pipeline::Pipeline;
use manifest::{FileKind, LoadOptions, LoadedPipeline, Problems, load};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use stage_core::Catalogue;

use crate::catalogue;

/// The start of most manifests in these tests: a pipeline and a corpus.
pub const CORPUS: &str = r#"[pipeline]
name = "voice"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

"#;

pub fn files(path: &Utf8Path) -> FileKind {
    match path.as_str() {
        "home/data/wavs" | "home/models/codec" => FileKind::Folder,
        "home/data/metadata.csv" | "home/models/codec.safetensors" => FileKind::File,
        _ => FileKind::Missing,
    }
}

pub fn secrets(name: &str) -> Option<String> {
    (name == "HUB_TOKEN").then(|| "very-secret-value".to_owned())
}

pub fn load_with(text: &str, set: &[&str]) -> Result<LoadedPipeline, Problems> {
    load_from(&catalogue::catalogue(), text, set)
}

pub fn load_from(
    catalogue: &Catalogue,
    text: &str,
    set: &[&str],
) -> Result<LoadedPipeline, Problems> {
    let set = set.iter().map(|argument| argument.to_string()).collect();
    let options = LoadOptions { set, secrets: &secrets, ..LoadOptions::default() };
    load(text, Utf8Path::new("home/voice.toml"), catalogue, &options, &files)
}

/// The pipeline of a manifest that follows after [`CORPUS`].
pub fn pipeline(rest: &str) -> Pipeline {
    pipeline_with(rest, &[])
}

pub fn pipeline_with(rest: &str, set: &[&str]) -> Pipeline {
    match load_with(&format!("{CORPUS}{rest}"), set) {
        Ok(loaded) => loaded.pipeline,
        Err(problems) => panic!("{}", rendered(&problems)),
    }
}

pub fn errors_of(text: &str, set: &[&str]) -> String {
    match load_with(text, set) {
        Ok(_) => "no errors".to_owned(),
        Err(problems) => rendered(&problems),
    }
}

pub fn rendered(diagnostic: &dyn Diagnostic) -> String {
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none()).with_width(76);
    handler.render_report(&mut text, diagnostic).expect("text takes everything");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}
