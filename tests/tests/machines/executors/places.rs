//! A project with an executor, and the remote that its jobs share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use throstle_tests::{Project, RanProgram, Running, write_clips};

use super::fake::FakeSlurm;

pub const CLIPS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A stage on items with small and large outputs, and stages that run where the run is.
const STAGES: &str = r#"
[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text", "audio"]
command = "COMMAND"
outputs = { words = "words.txt" }
executor = "boxes"
export = "out/{id}.txt"

[stage.voice]
use = "audio.resample"
input = "clips"
rate = "8kHz"
executor = "boxes"
export = "out/{id}.wav"

[stage.summary]
use = "report.summary"
input = ["clips", "words"]
export = "out/summary.json"
"#;

pub const WORDS: &str = "printf %s {text} | wc -c > {out.words}; wc -c < {audio} >> {out.words}";

/// Starts a worker with a cache of its own, as on another machine.
pub const OTHER_MACHINE: &str = "$THROSTLE_WORK --cache FOLDER/machine-$THROSTLE_SHARD";

pub struct Place {
    pub project: Project,
    /// The remote, and the caches of the machines.
    shared: tempfile::TempDir,
}

impl Place {
    /// Three jobs of two items each, which are started by this command.
    pub fn new(command: &str) -> Place {
        Place::with(&format!("use = \"command\"\ncommand = '''{command}'''"), WORDS)
    }

    /// With these keys of the executor, and this command of the stage.
    pub fn with(executor: &str, words: &str) -> Place {
        let shared = tempfile::tempdir().unwrap();
        let folder = shared.path().to_str().unwrap();
        std::fs::create_dir(shared.path().join("remote")).unwrap();
        let manifest = format!(
            "[pipeline]\nname = \"boxes\"\n\n[remote]\nurl = \"file://{folder}/remote\"\n\n\
             [executor.boxes]\n{executor}\nshard = \"20s\"\nmax_jobs = 3\npoll = \"100ms\"\n{STAGES}"
        );
        let manifest = manifest.replace("COMMAND", words).replace("FOLDER", folder);
        let project = Project::new(&manifest);
        write_clips(&project, &CLIPS);
        Place { project, shared }
    }

    pub fn folder(&self) -> &Path {
        self.shared.path()
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        let arguments = [&["run", ".", "--json"], arguments].concat();
        Running::start(self.project.throstle(&arguments))
    }

    pub fn run(&self) -> RanProgram {
        self.start(&[]).ended()
    }

    /// A program with the fake Slurm first on its search path.
    pub fn with_slurm(&self, slurm: &FakeSlurm, arguments: &[&str]) -> Command {
        let mut command = self.project.throstle(arguments);
        command.env("PATH", slurm.search_path());
        command
    }

    /// The exports of the same manifest without an executor and without a remote.
    pub fn alone(&self) -> Project {
        let alone = Project::copy_of(self.project.path(), &[".throstle", "out"]);
        alone.replace("pipeline.toml", "executor = \"boxes\"\n", "");
        let output = alone.output(&["run", ".", "--json", "--remote", "none"]);
        assert_eq!(RanProgram::of(output).last()["status"], "done");
        alone
    }

    /// A job that is killed between a pack and its label leaves the pack without one in the remote.
    pub fn repair(&self) {
        self.project.output(&["remote", "verify", "--repair"]);
    }

    /// The results of a run on machines are those of one machine.
    pub fn assert_as_alone(&self) {
        assert_eq!(self.project.files("out"), self.alone().files("out"));
        let checked = self.project.printed(&["remote", "verify"]);
        assert!(
            checked.contains("nothing is damaged") || checked.contains("0 damaged"),
            "{checked}"
        );
    }

    /// The lines that commands of the stage have written, one for each execution.
    pub fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub fn caches(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        let is_cache = |path: &PathBuf| path.join("FORMAT").exists();
        entries.filter(is_cache).collect()
    }
}

/// The notes of a run, without those about what was pushed.
pub fn notes(ran: &RanProgram) -> Vec<String> {
    let notes = ran.all("note").into_iter();
    let notes = notes.filter_map(|note| Some(note["message"].as_str()?.to_owned()));
    notes.filter(|note| !note.starts_with("pushed to")).collect()
}

pub fn is_reproducible(ran: &RanProgram) -> bool {
    !notes(ran).iter().any(|note| note.contains("not reproducible"))
}

pub fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(240), "it takes too long");
        std::thread::sleep(Duration::from_millis(50));
    }
}
