//! A few clips with their tokens and random models, and the trainings to test on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use throstle_tests::{Project, RanProgram, copy_folder};

pub const MANIFEST: &str = "pipeline.toml";

/// The common start of all trainings.
pub const HEAD: &str = r#"
[pipeline]
name = "tune"
seed = 1

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"
columns = ["file", "text", "speaker"]

[stage.codec_clips]
use = "dataset.filter"
input = "clips"
where = [{ field = "id", any_of = ["clip_0", "clip_1"] }]

[stage.codec]
use = "vq.fit"
input = "codec_clips"
codebooks = 2
entries = 16

[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "codec"

[stage.base]
use = "fish.init"
codec = "codec"
layers = 1
dim = 16
heads = 2
key_heads = 1
max_length = 128

[stage.voice_base]
use = "vits.init"
hidden = 4
layers = 1
channels = 16
"#;

const CLIPS: usize = 9;
const RATE: u32 = 16_000;

/// The finished upstream stages of all trainings, with these downstream stages to run.
pub fn with(stages: &str) -> Project {
    static DONE: OnceLock<PathBuf> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tune");
        // Remains of an earlier test program.
        let _ = std::fs::remove_dir_all(&folder);
        let project = Project::new(HEAD);
        let numbers = 0..CLIPS;
        project.write("data/metadata.csv", numbers.clone().map(row).collect::<String>());
        numbers.for_each(|number| write_wav(&project, number));
        let ran = project.run();
        assert_eq!(ran.code, Some(0), "{:?}", ran.all("stage-failed"));
        copy_folder(project.path(), &folder, &[]);
        folder
    });
    let project = Project::copy_of(done, &[]);
    project.write(MANIFEST, format!("{HEAD}{stages}"));
    project
}

/// Another text for each clip, short enough for its frames.
fn row(number: usize) -> String {
    let letter = char::from(b'a' + number as u8);
    format!("clip_{number}.wav|sa{letter}|aino\n")
}

/// A quarter of a second of two tones.
fn write_wav(project: &Project, number: usize) {
    let sample = |at: u32| {
        let time = f64::from(at) / f64::from(RATE) * std::f64::consts::TAU;
        let pitch = 150.0 + 40.0 * number as f64;
        (0.3 * (pitch * time).sin() + 0.2 * (3.1 * pitch * time).sin()) as f32
    };
    let samples: Vec<f32> = (0..RATE / 4).map(sample).collect();
    let wav = stage_torch::wave::write(RATE, &samples).unwrap();
    project.write(&format!("data/wavs/clip_{number}.wav"), wav);
}

/// Adds one clip to the corpus, without changing the codec.
pub fn add_clip(project: &Project, number: usize) {
    write_wav(project, number);
    project.edit("data/metadata.csv", |text| format!("{text}{}", row(number)));
}

/// The outputs of a training: its weights and its log, as exported.
pub fn outputs(project: &Project) -> BTreeMap<String, Vec<u8>> {
    project.files("out")
}

/// A figure of a stage by step; `name` as in the log.
pub fn figures(ran: &RanProgram, stage: &str, name: &str) -> Vec<(u64, f64)> {
    let told = ran.all("metrics").into_iter().filter(|event| event["stage"] == stage);
    let figure = |event: &Value| Some((event["step"].as_u64()?, event["values"][name].as_f64()?));
    told.filter_map(figure).collect()
}
