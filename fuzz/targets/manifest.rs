//! Any text as a manifest: a pipeline, or problems that can be shown.
#![no_main]

use camino::Utf8Path;
use engine::manifest::{FileKind, LoadOptions, load};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let options = LoadOptions::default();
    let files = |path: &Utf8Path| match path.extension() {
        Some(_) => FileKind::File,
        None => FileKind::Folder,
    };
    let file = Utf8Path::new("pipeline.toml");
    if let Err(problems) = load(text, file, &stage_speech::catalogue(), &options, &files) {
        assert!(!problems.to_string().is_empty());
    }
});
