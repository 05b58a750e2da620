//! A corpus with a manifest, and the program that works on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::arguments::Arguments;
use crate::clock::{let_files_age, median, timed};
use crate::corpus::{self, RATE, Size};

pub const MANIFEST: &str = r#"[pipeline]
name = "bench"

[stage.clips]
use = "corpus.table"
table = "metadata.csv"
audio = "wavs"
columns = ["file", "text", "speaker"]

[stage.voice]
use = "audio.resample"
input = "clips"
rate = 16000

[stage.good]
use = "audio.check"
input = "voice"
min_duration = "10ms"
"#;

pub struct Project {
    pub folder: TempDir,
    pub clips: Vec<PathBuf>,
    program: PathBuf,
}

/// The executed work of a run, from its last event.
pub struct Ran {
    pub time: Duration,
    pub executed: u64,
    /// The estimate of the run at its start; 0 if it had nothing to do.
    pub expected_seconds: f64,
}

impl Project {
    pub fn new(arguments: &Arguments, size: Size) -> Project {
        Project::with(arguments, size, MANIFEST)
    }

    pub fn with(arguments: &Arguments, size: Size, manifest: &str) -> Project {
        Project::on(&arguments.folder, arguments, size, manifest)
    }

    /// In a folder of this one, which may be on another disk.
    pub fn on(above: &Path, arguments: &Arguments, size: Size, manifest: &str) -> Project {
        let folder = tempfile::tempdir_in(above).unwrap();
        let clips = corpus::make(folder.path(), size, RATE);
        fs::write(folder.path().join("pipeline.toml"), manifest).unwrap();
        let_files_age();
        Project { folder, clips, program: arguments.program.clone() }
    }

    pub fn empty(arguments: &Arguments) -> Project {
        let folder = tempfile::tempdir_in(&arguments.folder).unwrap();
        fs::write(folder.path().join("pipeline.toml"), "[pipeline]\nname = \"empty\"\n").unwrap();
        Project { folder, clips: Vec::new(), program: arguments.program.clone() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// One call of the program; its output is discarded.
    pub fn call(&self, words: &[&str]) -> Duration {
        let mut command = Command::new(&self.program);
        command.args(words).current_dir(self.path());
        let (time, status) = timed(|| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
        });
        let status = status.unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        assert!(status.success(), "throstle {words:?} ended with {status}");
        time
    }

    pub fn call_often(&self, runs: usize, words: &[&str]) -> Duration {
        median(runs, || _ = self.call(words))
    }

    /// Runs the pipeline and returns its executed work.
    pub fn run(&self) -> Ran {
        let mut command = Command::new(&self.program);
        command.args(["run", "--json"]).current_dir(self.path());
        let (time, output) = timed(|| command.output().unwrap());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout);
        let event = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        let estimate = text.lines().map(event).find(|event| event["event"] == "estimated");
        let expected = estimate.and_then(|event| event["seconds"]["likely"].as_f64());
        let last = event(text.lines().last().unwrap_or("{}"));
        let stages = last["stages"].as_object().expect("the last event is `finished`");
        let executed = stages.values().filter_map(|stage| stage["executed"].as_u64()).sum();
        Ran { time, executed, expected_seconds: expected.unwrap_or(0.0) }
    }

    /// Another transcript of a clip.
    pub fn change_text(&self, number: usize, text: &str) {
        let (table, name) = (self.path().join("metadata.csv"), format!("clip{number:06}.wav"));
        let rows = fs::read_to_string(&table).unwrap();
        let change = |row: &str| match row.split('|').collect::<Vec<_>>()[..] {
            [file, _, speaker] if file == name => format!("{file}|{text}|{speaker}\n"),
            _ => format!("{row}\n"),
        };
        fs::write(table, rows.lines().map(change).collect::<String>()).unwrap();
    }

    /// Removes all results.
    pub fn forget(&self) {
        let _ = fs::remove_dir_all(self.path().join(".throstle"));
    }

    /// The size of the cache in bytes.
    pub fn cache_bytes(&self) -> u64 {
        bytes_below(&self.path().join(".throstle"))
    }
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}
