//! Sentences through the codec of Fish Speech, from its imported files: the small one of the
//! fixtures, which `fixtures/make_fish_dac.py` made.

use std::path::Path;

use serde_json::Value;
use stage_formats::safetensors::SafetensorsFile;
use throstle_tests::Project;

const SPOKEN: &str = r#"
[pipeline]
name = "spoken"
seed = 1

[assets.dac]
path = "dac"

[stage.codec]
use = "model.import"
asset = "assets.dac"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.tokens]
use = "vq.encode"
input = "clips"
codec = "codec"

[stage.sample]
use = "dataset.item"
input = "tokens"
id = "short"

[stage.model]
use = "fish.init"
codec = "codec"
layers = 1
dim = 16
heads = 2
key_heads = 1
max_length = 256

[stage.sentences]
use = "corpus.sentences"
sentences = ["Hei.", "Moi."]

[stage.spoken]
use = "fish.synthesize"
input = "sentences"
model = "model"
codec = "codec"
reference = "sample"
max_frames = 40
export = "out/spoken/{id}.wav"

[stage.decoded]
use = "vq.decode"
input = "spoken"
codec = "codec"
export = "out/decoded/{id}.wav"
"#;

/// For that codec: four samples per encoder step, and four steps per frame.
const HOP: f64 = 16.0;
const RATE: u32 = 44_100;

/// The weights and, as a file of its own, the configuration in their metadata.
fn write_codec(project: &Project) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fish_dac/model.safetensors");
    let bytes = std::fs::read(fixture).unwrap();
    let config = SafetensorsFile::read(bytes.clone()).unwrap().metadata()["config"].clone();
    project.write("dac/codec.safetensors", bytes);
    project.write("dac/codec.json", config);
}

#[test]
fn a_model_speaks_through_an_imported_fish_codec() {
    let project = Project::new(SPOKEN);
    write_codec(&project);
    let samples: Vec<f32> = (0..800).map(|at| (at as f32 * 0.05).sin() * 0.3).collect();
    project.write("data/wavs/short.wav", stage_torch::wave::write(RATE, &samples).unwrap());
    project.write("data/metadata.csv", "short.wav|Hei hei.|aino\n");
    let ran = project.run();
    let executed = ran.executed();
    assert_eq!((executed["spoken"], executed["decoded"]), (2, 2));
    let listed = project.printed(&["items", "spoken", "--format", "jsonl"]);
    for line in listed.lines() {
        let item: Value = serde_json::from_str(line).unwrap();
        let frames = item["frames"].as_f64().unwrap();
        assert!((1.0..=40.0).contains(&frames), "{item}");
        let seconds = item["seconds"].as_f64().unwrap();
        assert!((seconds - frames * HOP / f64::from(RATE)).abs() < 1e-9, "{item}");
    }
    let spoken = project.files("out/spoken");
    assert_ne!(spoken["001.wav"], spoken["002.wav"]);
    assert!(spoken == project.files("out/decoded"), "the audio is that of the tokens beside it");
}
