//! Exported graphs in the programs that run them, against the sound of the stage.
//!
//! The references are onnxruntime 1.32.0, sherpa-onnx 2.0.1 and piper-tts 1.8.0 of
//! `tools/players.sh`; without them the test says that it is skipped.

use std::process::Command;

use throstle_tests::Project;
use throstle_tests::players::players;

const SCRIPT: &str = include_str!("play_graphs.py");

const PIPELINE: &str = r#"
[pipeline]
name = "graphs"
seed = 1

[stage.model]
use = "vits.init"
characters = " abcdefghijklmnopqrstuvwxyzåäö'-"
{sizes}
speakers = {speakers}

[stage.sentences]
use = "corpus.sentences"
file = "sentences.txt"

[stage.spoken]
use = "vits.synthesize"
input = "sentences"
model = "model"
noise_scale = 0.0
noise_scale_duration = 0.0
on_unknown = "report"
{speaker}
export = "out/spoken/{id}.wav"
"#;

/// Capitals, composed and decomposed letters, unknown signs, one character and 200.
fn sentences() -> String {
    let long = "pitkä lause ilman loppua ".repeat(8);
    let texts = [
        "hei moi",
        "Hyvää päivää",
        "ÅKE ÖLJYÄÄ",
        "a\u{308}iti",
        "he#i1 m§oi",
        "a",
        long.trim(),
        "x-y'z",
        "Kissa istuu puussa",
        "ööö",
    ];
    assert_eq!(long.chars().count(), 200);
    texts.join("\n") + "\n"
}

fn export(name: &str, target: &str, dtype: &str) -> String {
    format!(
        "\n[stage.{name}]\nuse = \"model.export\"\nmodel = \"model\"\nformat = \"onnx\"\n\
         target = \"{target}\"\ndtype = \"{dtype}\"\nexport = \"out/{name}\"\n"
    )
}

fn exported(sizes: &str, speakers: u32) -> Project {
    let speaker = if speakers > 1 { "speaker = \"2\"" } else { "" };
    let mut manifest = PIPELINE
        .replace("{sizes}", sizes)
        .replace("{speakers}", &speakers.to_string())
        .replace("{speaker}", speaker);
    let exports = [
        ("sherpa", "sherpa", "f32"),
        ("piper", "piper", "f32"),
        ("plain", "plain", "f32"),
        ("half", "plain", "fp16"),
        ("whole", "plain", "int8"),
    ];
    exports.iter().for_each(|(name, target, dtype)| manifest += &export(name, target, dtype));
    let project = Project::new(&manifest);
    project.write("sentences.txt", sentences());
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    project
}

#[test]
fn graphs_are_written_with_the_files_of_their_programs() {
    let project = exported("hidden = 16\nlayers = 1\nchannels = 16", 3);
    assert_eq!(project.names("out/sherpa"), ["model.onnx", "tokens.txt"]);
    assert_eq!(project.names("out/piper"), ["model.onnx", "model.onnx.json"]);
    let plain = ["config.json", "model.onnx", "tokenizer_config.json", "vocab.json"];
    assert_eq!(project.names("out/plain"), plain);
    let size = |name: &str| project.read(&format!("out/{name}/model.onnx")).len();
    assert!(size("half") < size("plain") && size("whole") < size("half"));
    project.run().assert_nothing_done();
}

#[test]
fn the_programs_make_the_sound_of_the_stage() {
    let Some(python) = players("onnxruntime, sherpa_onnx, piper") else {
        eprintln!(
            "skipped: `.players` has no onnxruntime, sherpa-onnx and piper-tts: tools/players.sh"
        );
        return;
    };
    let sizes = [
        "hidden = 16\nlayers = 1\nchannels = 16",
        "hidden = 32\nlayers = 2\nchannels = 32",
        "hidden = 48\nlayers = 3\nchannels = 64",
    ];
    for (sizes, speakers) in sizes.into_iter().flat_map(|sizes| [(sizes, 1), (sizes, 3)]) {
        let project = exported(sizes, speakers);
        let output = Command::new(&python)
            .args(["-c", SCRIPT, "sentences.txt", "out", &speakers.to_string()])
            .current_dir(project.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{sizes}, {speakers} speakers\n{said}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{sizes}, {speakers} speakers:\n{said}\n{errors}");
        assert_eq!(said.matches(" ok").count(), 3 * 10 + 2, "{said}");
    }
}

#[test]
fn what_belongs_to_graphs_is_refused_elsewhere() {
    let manifest = PIPELINE.replace("{sizes}", "").replace("{speakers}", "1");
    let manifest = manifest.replace("{speaker}", "");
    let other = "\n[stage.other]\nuse = \"model.export\"\nmodel = \"model\"\ntarget = \"piper\"\n\
                 dtype = \"int8\"\nexport = \"out/other\"\n";
    let project = Project::new(&(manifest + other + &export("graph", "plain", "bf16")));
    project.write("sentences.txt", sentences());
    let output = project.output(&["check", "."]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    for told in [
        "only a graph has a target",
        "only a graph is written in int8",
        "a graph is not written in bf16",
    ] {
        assert!(errors.contains(told), "{told}: {errors}");
    }
}
