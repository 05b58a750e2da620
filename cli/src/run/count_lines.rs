//! Estimates the items of a source from the number of lines of its text file.

use std::collections::BTreeMap;

use cache::fs::{Fs, RealFs};
use engine::pipeline::{Pipeline, StageId, StageSpec, StageWork};
use stage_speech::corpus::table::is_header_line;

/// Larger files are not read for this.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The parameter of `corpus.sentences` that limits the number of items.
const FIRST: &str = "first";
/// The parameter of tables that says if their first line has column names.
const HEADER: &str = "header";

/// The lines of the text files of sources. Empty lines, comments and headers do not count.
pub fn count_lines(pipeline: &Pipeline) -> BTreeMap<StageId, f64> {
    let sources = pipeline.stages.iter().filter(|spec| spec.work == StageWork::Source);
    sources.filter_map(|spec| Some((spec.id, lines_of(pipeline, spec)?))).collect()
}

fn lines_of(pipeline: &Pipeline, spec: &StageSpec) -> Option<f64> {
    let text = spec.paths().find_map(|(_, path)| {
        let path = pipeline.base.join(path);
        let metadata = RealFs.metadata(&path).ok()?;
        let is_small = metadata.is_file() && metadata.size <= MAX_FILE_BYTES;
        let bytes = is_small.then(|| RealFs.read(&path).ok())??;
        // Other files, such as those of Parquet, have no lines.
        String::from_utf8(bytes).ok()
    })?;
    let is_item = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let items = text.lines().filter(is_item);
    let is_headed = match spec.parameters.text(HEADER) {
        Ok("yes") => true,
        Ok("auto") => items.clone().next().is_some_and(is_header_line),
        _ => false,
    };
    let lines = items.skip(usize::from(is_headed)).count() as f64;
    let first = spec.parameters.integer(FIRST).ok();
    // An empty file is still to be filled.
    (lines > 0.0).then(|| first.map_or(lines, |first| lines.min(first as f64)))
}
