//! The recipe `piper-voice` from recordings to a chosen state, with stand-ins in the place of the judges.

use std::path::Path;
use std::process::Command;

use throstle_tests::{Project, RanProgram};

use crate::piper::{has_espeak, published, said};

/// Stand-ins of the judges' packages: they hear the same words and the same voice in everything. The real ones are
/// tried in tests/tests/python/judges.rs.
const STUBS: [(&str, &str); 3] = [
    (
        "faster_whisper.py",
        "class Segment:\n    text = 'hello'\n\nclass WhisperModel:\n    def __init__(self, *_, **__): pass\n\
         \x20   def transcribe(self, *_, **__): return [Segment()], None\n",
    ),
    ("torch.py", "def set_num_threads(count): pass\ndef manual_seed(seed): pass\n"),
    (
        "resemblyzer.py",
        "import numpy\n\ndef preprocess_wav(path): return numpy.ones(9)\n\nclass VoiceEncoder:\n\
         \x20   def __init__(self, *_, **__): pass\n\
         \x20   def embed_utterance(self, speech): return numpy.ones(4, numpy.float32)\n",
    ),
];

/// The recipe's project: a voice, recordings of a program, and a Python with the stand-ins.
fn recipe(python: &Path, project: &Project) {
    let output = project.output(&["init", "voice", "--template", "piper-voice"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let (_, graph) = said(python, &["path"], "", project);
    std::fs::create_dir_all(project.file("voice/models")).unwrap();
    let folder = Path::new(&graph).parent().unwrap();
    std::os::unix::fs::symlink(folder, project.file("voice/models/voice")).unwrap();
    project.write("voice/models/whisper-base/model.bin", "a stand-in");
    let mut table = String::new();
    for number in 1..=8 {
        let text = format!("This is prompt number {number}.");
        let file = format!("{number}.wav");
        project.write(&format!("voice/data/{file}"), "");
        let clip = project.file(&format!("voice/data/{file}"));
        assert!(
            Command::new("espeak-ng").arg("-w").arg(clip).arg(&text).status().unwrap().success()
        );
        table.push_str(&format!("{file}|{text}\n"));
    }
    project.write("voice/data/metadata.csv", table);
    for (name, text) in STUBS {
        project.write(&format!("stubs/{name}"), text);
    }
    let (stubs, python) = (project.file("stubs"), python.display());
    let wrapper =
        format!("#!/bin/sh\nPYTHONPATH={}:$PYTHONPATH exec {python} \"$@\"\n", stubs.display());
    project.write("python", wrapper);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(project.file("python"), mode).unwrap();
}

#[test]
fn the_recipe_of_a_voice_trains_and_is_judged() {
    if !has_espeak() {
        return;
    }
    let Some((python, project)) = published("") else { return };
    recipe(&python, &project);
    let interpreter = format!("params.python={}", project.file("python").display());
    let short = [
        interpreter.as_str(),
        "params.steps=2",
        "params.batch=2",
        "stage.complete.steps=1",
        "stage.complete.sentences=4",
        "stage.sides.fraction=0.3",
        "stage.trained.validate_every=1",
        "stage.trained.keep_every=1",
        "stage.trained.preflight=false",
        "stage.chosen.least=1",
    ];
    let sets = short.iter().flat_map(|set| ["--set", *set]);
    let arguments: Vec<&str> = ["run", "voice", "--json"].into_iter().chain(sets).collect();
    let ran = RanProgram::of(project.output(&arguments));
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&project.text(&format!("voice/out/{name}"))).unwrap()
    };
    let gain = read("gain.json");
    assert_eq!(
        (&gain["models"][0]["id"], &gain["ceilings"][0]["id"]),
        (&"base".into(), &"recordings".into())
    );
    // All sound alike to the stand-ins, so nothing speaks for the base or against the first state.
    assert_eq!(read("choice.json")["chosen"], "step-1");
    assert!(project.file("voice/out/speech").read_dir().unwrap().count() == 3);
}
