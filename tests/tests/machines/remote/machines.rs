//! Machines that share a remote.

use std::path::{Path, PathBuf};

use serde_json::Value;
use throstle_tests::{Project, RanProgram, write_clips};

/// Small objects of items, large ones, an artifact, and data sets.
pub const MANIFEST: &str = r#"
[pipeline]
name = "shared"

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

[stage.large]
use = "command"
input = "clips"
fields = ["text"]
command = "yes {text} | head -c 2000000 > {out.large}"
outputs = { large = "large.bin" }

[stage.voice]
use = "audio.resample"
input = "clips"
rate = "8kHz"
export = "out/{id}.wav"

[stage.summary]
use = "report.summary"
input = ["clips", "words"]
export = "out/summary.json"
"#;

pub const CLIPS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A folder for a remote, and machines beside it.
pub struct Shared {
    folder: tempfile::TempDir,
}

impl Shared {
    pub fn new() -> Shared {
        Shared { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path().to_str().unwrap())
    }

    /// All files of the remote in this folder and those below it.
    pub fn files(&self, below: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.path().join(below), &mut found);
        found.sort();
        found
    }
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

pub fn machine(manifest: &str) -> Project {
    let project = Project::new(manifest);
    write_clips(&project, &CLIPS);
    project
}

/// The same manifest and data in another folder, without results of runs.
pub fn another(project: &Project) -> Project {
    Project::copy_of(project.path(), &[".throstle", "out"])
}

/// A run with a remote, or with other arguments.
pub fn run(project: &Project, shared: &Shared) -> RanProgram {
    run_with(project, &["--remote", &shared.url()])
}

pub fn run_with(project: &Project, arguments: &[&str]) -> RanProgram {
    RanProgram::of(project.output(&[&["run", ".", "--json"], arguments].concat()))
}

/// The notes of a run, without those about what was pushed.
pub fn warnings(ran: &RanProgram) -> Vec<String> {
    let notes = ran.all("note").into_iter();
    let notes = notes.filter_map(|note| Some(note["message"].as_str()?.to_owned()));
    notes.filter(|note| !note.starts_with("pushed to")).collect()
}

/// The JSON output of a successful command.
pub fn json(project: &Project, arguments: &[&str]) -> Value {
    let text = project.printed(&[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
}

/// A machine that ran everything with the remote.
pub fn first(shared: &Shared) -> Project {
    let project = machine(MANIFEST);
    let ran = run(&project, shared);
    assert_eq!(
        ran.executed(),
        [("clips", 1), ("words", 5), ("large", 5), ("voice", 5), ("summary", 1)].into()
    );
    assert_eq!(warnings(&ran), Vec::<String>::new());
    project
}

/// The output of `remote verify`, which finds something.
pub fn found(project: &Project, shared: &Shared) -> String {
    let output = project.output(&["remote", "verify", "--remote", &shared.url()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn name_in(shared: &Shared, path: &Path) -> String {
    path.strip_prefix(shared.path()).unwrap().to_str().unwrap().to_owned()
}
