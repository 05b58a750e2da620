//! A small pipeline of programs.

use throstle_tests::{Project, write_clips};

pub const MANIFEST: &str = r#"
[pipeline]
name = "small"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text"]
command = "printf %s {text} | wc -w > {out.words}"
outputs = { words = "words.txt" }
export = "out/{id}.txt"

[stage.summary]
use = "report.summary"
input = ["clips", "words"]
export = "out/summary.json"
"#;

/// Five clips and the pipeline, not yet run.
pub fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b", "c", "d", "e"]);
    project
}

/// The same after a run.
pub fn done() -> Project {
    let project = project();
    assert_eq!(project.run().executed(), [("clips", 1), ("words", 5), ("summary", 1)].into());
    project
}
