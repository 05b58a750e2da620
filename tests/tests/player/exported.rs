//! Graphs that this project exports, without libtorch, against the sound of the stage.

use std::process::Command;

use serde_json::Value;
use throstle_tests::Project;

use crate::support::{DESCRIPTION, GRAPH, PublishedVoice, library, samples, throstle, told};

const PIPELINE: &str = r#"
[pipeline]
name = "graphs"
seed = 1

[stage.model]
use = "vits.init"
characters = " abcdefghijklmnopqrstuvwxyzåäö'-"
speakers = 2
hidden = 16
layers = 1
channels = 16

[stage.sentences]
use = "corpus.sentences"
sentences = ["hyvää päivää", "pitkä lause ilman loppua"]

[stage.spoken]
use = "vits.synthesize"
input = "sentences"
model = "model"
noise_scale = 0.0
noise_scale_duration = 0.0
speaker = "1"
export = "out/spoken/{id}.wav"

[stage.piper]
use = "model.export"
model = "model"
format = "onnx"
target = "piper"
export = "out/piper"

[stage.plain]
use = "model.export"
model = "model"
format = "onnx"
target = "plain"
export = "out/plain"
"#;

fn quiet(project: &Project, file: &str, change: impl FnOnce(&mut Value)) {
    let mut described: Value = serde_json::from_str(&project.text(file)).unwrap();
    change(&mut described);
    project.write(file, described.to_string());
}

#[test]
fn an_exported_graph_speaks_like_its_stage() {
    let Some((_, library)) = library() else { return };
    let project = Project::new(PIPELINE);
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    quiet(&project, "out/piper/model.onnx.json", |described| {
        described["inference"]["noise_scale"] = 0.into();
        described["inference"]["noise_w"] = 0.into();
    });
    quiet(&project, "out/plain/config.json", |described| {
        described["noise_scale"] = 0.into();
        described["noise_scale_duration"] = 0.into();
    });
    let spoken = project.names("out/spoken");
    let texts = ["hyvää päivää", "pitkä lause ilman loppua"];
    for (name, text) in spoken.iter().zip(texts) {
        let expected = samples(&project.file(&format!("out/spoken/{name}")));
        for voice in ["out/piper/model.onnx", "out/piper", "out/plain"] {
            let arguments = ["say", voice, text, "--speaker", "1", "-o", "own.wav"];
            let output = throstle(&project, &library, &arguments).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{:?}", told(&output));
            let own = samples(&project.file("own.wav"));
            assert_eq!(own.len(), expected.len(), "{voice} {text}");
            let worst = own.iter().zip(&expected).map(|(one, other)| one.abs_diff(*other)).max();
            assert!(worst.unwrap() <= 5, "{voice} {text}: {worst:?}");
        }
    }
}

const IMPORTED: &str = r#"
[pipeline]
name = "again"

[assets.voice]
path = "voice"

[stage.model]
use = "model.import"
asset = "assets.voice"

[stage.graph]
use = "model.export"
model = "model"
format = "onnx"
target = "piper"
export = "out/again"
"#;

/// Speaks with the file of piper-tts, and with sherpa-onnx from the same graph; prints the numbers of samples.
const OTHERS: &str = r#"
import sys, piper, sherpa_onnx
from piper.config import SynthesisConfig
folder, text = sys.argv[1:]
voice = piper.PiperVoice.load(folder + "/model.onnx")
quiet = SynthesisConfig(noise_scale=0, noise_w_scale=0, normalize_audio=False)
print(sum(len(chunk.audio_float_array) for chunk in voice.synthesize(text, quiet)))
vits = sherpa_onnx.OfflineTtsVitsModelConfig(
    model=folder + "/model.onnx", tokens=folder + "/tokens.txt", noise_scale=0, noise_scale_w=0)
config = sherpa_onnx.OfflineTtsConfig(model=sherpa_onnx.OfflineTtsModelConfig(vits=vits), max_num_sentences=1)
given = sherpa_onnx.GenerationConfig()
given.phoneme_codepoints = [[ord(phoneme) for phoneme in sentence] for sentence in voice.phonemize(text)]
print(len(sherpa_onnx.OfflineTts(config).generate(text, given).samples))
"#;

#[test]
fn an_imported_voice_is_exported_again_with_the_same_samples() {
    let Some(voice) = PublishedVoice::quiet() else { return };
    let text = "Hello, world.";
    assert_eq!(voice.say("first", text, &[]).0, Some(0));
    for file in [GRAPH, DESCRIPTION] {
        voice.project.write(&format!("voice/{file}"), voice.project.read(file));
    }
    voice.project.write("pipeline.toml", IMPORTED);
    let ran = voice.project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    assert_eq!(voice.project.names("out/again"), ["model.onnx", "model.onnx.json", "tokens.txt"]);
    let arguments = ["say", "out/again", text, "-o", "again.wav"];
    let output = voice.throstle(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{:?}", told(&output));
    let (first, again) = (voice.samples("first"), samples(&voice.project.file("again.wav")));
    assert_eq!(first.len(), again.len());
    let worst = first.iter().zip(&again).map(|(one, other)| one.abs_diff(*other)).max();
    assert!(worst.unwrap() <= 5, "{worst:?}");
    let others = Command::new(&voice.python)
        .args(["-c", OTHERS, "out/again", text])
        .current_dir(voice.project.path())
        .output()
        .unwrap();
    let (code, errors) = told(&others);
    assert_eq!(code, Some(0), "{errors}");
    let lengths = String::from_utf8(others.stdout).unwrap();
    let lengths: Vec<usize> = lengths.lines().map(|line| line.parse().unwrap()).collect();
    let [piper, sherpa] = lengths[..] else { panic!("{lengths:?}") };
    assert_eq!(piper, first.len());
    // sherpa-onnx cuts pauses.
    assert!(sherpa > first.len() / 2 && sherpa <= first.len(), "{sherpa} of {}", first.len());
}
