//! Commands in the documents.

use std::path::{Path, PathBuf};

/// The folder of the whole project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A document of the project.
pub fn document(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The lines of the blocks of this kind, such as `sh`.
pub fn blocks<'a>(text: &'a str, kind: &str) -> Vec<&'a str> {
    let all = typed(text).into_iter();
    all.filter_map(|(own, line)| (own == kind).then_some(line)).collect()
}

/// The lines of all blocks with the words after their fences.
pub fn typed(text: &str) -> Vec<(&str, &str)> {
    let mut inside = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        match (inside, line.strip_prefix("```")) {
            (None, Some(kind)) => inside = Some(kind),
            (Some(_), Some(_)) => inside = None,
            (Some(kind), None) => lines.push((kind, line)),
            (None, None) => {}
        }
    }
    lines
}
