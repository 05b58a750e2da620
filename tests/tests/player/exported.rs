//! Graphs that this project exports, without libtorch, against the sound of the stage.

use serde_json::Value;
use throstle_tests::Project;

use crate::support::{library, samples, throstle, told};

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
