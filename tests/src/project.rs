//! A project in a temporary folder, and the real programs in it.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder with a manifest and data, removed when it is dropped.
pub struct Project {
    folder: tempfile::TempDir,
}

/// The results of one run, from the lines of `--json`.
#[derive(Clone, Debug)]
pub struct RanProgram {
    pub code: Option<i32>,
    pub events: Vec<Value>,
    pub errors: String,
}

/// The head of a manifest with the clips of [`write_clips`].
pub const CLIPS: &str = r#"
[pipeline]
name = "clips"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"
"#;

impl Default for Project {
    fn default() -> Project {
        Project { folder: tempfile::tempdir().unwrap() }
    }
}

impl Project {
    pub fn new(manifest: &str) -> Project {
        let project = Project::default();
        project.write("pipeline.toml", manifest);
        project
    }

    /// With the clips of [`write_clips`] as its stage `clips`, and more tables.
    pub fn of_clips(names: &[&str], tables: &str) -> Project {
        let project = Project::new(&format!("{CLIPS}{tables}"));
        write_clips(&project, names);
        project
    }

    /// A copy of a folder, except entries of these names at its top.
    pub fn copy_of(folder: &Path, without: &[&str]) -> Project {
        let project = Project::default();
        copy_folder(folder, project.path(), without);
        project
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.read(path)).unwrap()
    }

    /// Writes a file and its parent folders.
    pub fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let file = self.file(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }

    pub fn edit(&self, path: &str, change: impl FnOnce(&str) -> String) {
        let text = self.text(path);
        let changed = change(&text);
        assert_ne!(changed, text, "the edit of {path} changes nothing");
        self.write(path, changed);
    }

    /// Replaces a text in a file.
    pub fn replace(&self, path: &str, old: &str, new: &str) {
        self.edit(path, |text| text.replace(old, new));
    }

    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.file(path)).unwrap();
    }

    /// The names of the files in a folder, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.file(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The files in a folder and in those below it, by their path in it, with their bytes.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for name in self.names(folder) {
            let path = format!("{folder}/{name}");
            if !self.file(&path).is_dir() {
                files.insert(name, self.read(&path));
                continue;
            }
            let below = self.files(&path).into_iter();
            files.extend(below.map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        }
        files
    }

    /// `throstle` with these arguments, ready to be started in the folder.
    pub fn throstle(&self, arguments: &[&str]) -> Command {
        command("throstle", self.path(), arguments)
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.throstle(arguments).output().unwrap()
    }

    pub fn run(&self) -> RanProgram {
        RanProgram::of_folder(self.path())
    }

    /// The output of a successful program.
    pub fn printed(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The output of `why`.
    pub fn why(&self, stage_and_item: &[&str]) -> String {
        self.printed(&[&["why"], stage_and_item].concat())
    }
}

impl RanProgram {
    /// Runs the pipeline in a folder.
    pub fn of_folder(folder: &Path) -> RanProgram {
        RanProgram::of(command("throstle", folder, &["run", ".", "--json"]).output().unwrap())
    }

    pub fn of(output: Output) -> RanProgram {
        let text = String::from_utf8(output.stdout).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        RanProgram { code: output.status.code(), events, errors }
    }

    pub fn last(&self) -> &Value {
        self.events.last().unwrap_or_else(|| panic!("a run without events: {}", self.errors))
    }

    pub fn all(&self, event: &str) -> Vec<&Value> {
        self.events.iter().filter(|value| value["event"] == event).collect()
    }

    fn count(&self, stage: &str, name: &str) -> u64 {
        let count = &self.last()["stages"][stage][name];
        count.as_u64().unwrap_or_else(|| panic!("no count `{name}` of `{stage}`: {}", self.last()))
    }

    pub fn quarantined(&self, stage: &str) -> u64 {
        self.count(stage, "quarantined")
    }

    pub fn reused(&self, stage: &str) -> u64 {
        self.count(stage, "reused")
    }

    /// The executed counts of a successful run.
    pub fn executed(&self) -> BTreeMap<&str, u64> {
        assert_eq!(self.code, Some(0), "{} {:?}", self.errors, self.all("stage-failed"));
        self.executed_in_any_case()
    }

    /// The same for a run that failed or was stopped.
    pub fn executed_in_any_case(&self) -> BTreeMap<&str, u64> {
        let stages = self.last()["stages"].as_object().unwrap();
        let all = stages.keys().map(|name| (name.as_str(), self.count(name, "executed")));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Nothing was executed, nothing written, and no worker was started for it.
    pub fn assert_nothing_done(&self) {
        assert_eq!(self.executed(), BTreeMap::new());
        assert_eq!(self.all("worker-started"), Vec::<&Value>::new());
        let writes = self.all("exported").into_iter();
        let writes: Vec<&Value> =
            writes.filter(|event| event["written"] != 0 || event["removed"] != 0).collect();
        assert_eq!(writes, Vec::<&Value>::new());
    }
}

/// Clips of 100 ms at a constant level with a table of them, as `data/metadata.csv` and
/// `data/wavs`; each text is the name of its clip behind `Sana`.
pub fn write_clips(project: &Project, names: &[&str]) {
    for (level, name) in (1_000_i16..).zip(names) {
        project.write(&format!("data/wavs/{name}.wav"), wav(level));
    }
    let rows = names.iter().map(|name| format!("{name}.wav|Sana {name}.|aino\n"));
    project.write("data/metadata.csv", rows.collect::<String>());
}

/// 100 ms of one level at 16 kHz.
pub fn wav(level: i16) -> Vec<u8> {
    recording(std::iter::repeat_n(level, 1_600))
}

/// A hum of a pitch in hertz that swells and fades, at 16 kHz.
pub fn tone(pitch: f64, seconds: f64, loudest: i16) -> Vec<u8> {
    let frames = (seconds * 16_000.0) as u32;
    let turn = |frame: u32, hertz: f64| f64::from(frame) / 16_000.0 * hertz * std::f64::consts::TAU;
    let swell = |frame: u32| (turn(frame, 0.5 / seconds)).sin();
    let sample = |frame| (turn(frame, pitch).sin() * swell(frame) * f64::from(loudest)) as i16;
    recording((0..frames).map(sample))
}

fn recording(samples: impl Iterator<Item = i16>) -> Vec<u8> {
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: 16_000, bits_per_sample, sample_format };
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
    samples.for_each(|sample| writer.write_sample(sample).unwrap());
    writer.finalize().unwrap();
    bytes.into_inner()
}

/// A program of the workspace, to be started in a folder. The programs are beside the folder of the
/// test programs, and are built before those run.
pub fn command(program: &str, folder: &Path, arguments: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join(program);
    assert!(path.is_file(), "build the programs first: `cargo build --workspace --bins`");
    let mut command = Command::new(path);
    // The worker is the one beside it.
    command.args(arguments).current_dir(folder).env_remove("THROSTLE_TORCH");
    command
}

/// Copies a folder with its contents, except entries of these names at its top.
pub fn copy_folder(from: &Path, to: &Path, without: &[&str]) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if without.iter().any(|own| name == *own) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to.join(&name), &[])
        } else {
            std::fs::copy(entry.path(), to.join(&name)).unwrap();
        }
    }
}
