//! `say` and `serve` with a worker that hangs, dies, or lacks memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use throstle_tests::{Project, RanProgram};

const VITS: &str = r#"
[pipeline]
name = "voice"

[assets.model]
path = "model.bin"

[stage.lines]
use = "corpus.sentences"
sentences = ["a"]

[stage.spoken]
use = "vits.synthesize"
input = "lines"
model = "assets.model"
timeout = "1s"
"#;

const FISH: &str = r#"
[pipeline]
name = "voice"

[assets.model]
path = "model.bin"

[stage.lines]
use = "corpus.sentences"
sentences = ["a"]

[stage.spoken]
use = "fish.synthesize"
input = "lines"
model = "assets.model"
codec = "assets.model"
batch = 4
"#;

/// A pipeline with a voice that the fake worker speaks.
fn project(manifest: &str) -> Project {
    let project = Project::new(manifest);
    project.write("model.bin", "weights");
    let (worker, notes) = (env!("CARGO_BIN_EXE_fake_worker"), project.file("notes"));
    project.write("worker", format!("#!/bin/sh\nexec '{worker}' speaks '{}'\n", notes.display()));
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(project.file("worker"), all).unwrap();
    assert!(project.throstle(&["run", ".", "lines"]).status().unwrap().success());
    project
}

fn throstle(project: &Project, arguments: &[&str]) -> Command {
    let mut command = project.throstle(arguments);
    command.env("THROSTLE_TORCH", project.file("worker"));
    command.env("XDG_CACHE_HOME", project.file("caches"));
    command
}

fn say(project: &Project, text: &str) -> (Output, String) {
    let output = throstle(project, &["say", ".", text, "-o", "a.wav"]).output().unwrap();
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    (output, errors)
}

/// The sizes of the batches that the worker got.
fn batches(project: &Project) -> Vec<String> {
    project.text("notes").lines().map(|line| line.replace(" at once", "")).collect()
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(project: &Project) -> Server {
        let mut command = throstle(project, &["serve", ".", "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line}"));
        let address = address.split('/').next().unwrap().to_owned();
        Server { child, address }
    }

    fn speak(&self, text: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
        let body = json!({"model": "spoken", "voice": "spoken", "input": text}).to_string();
        let head = format!(
            "POST /v1/audio/speech HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    fn reason(&self, text: &str) -> (u16, String) {
        let (status, answer) = self.speak(text);
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let error: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"));
        (status, error["error"]["message"].as_str().unwrap().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_hung_and_a_dying_worker_behind_a_server_cost_only_their_request() {
    let project = project(VITS);
    let server = Server::start(&project);
    let (status, reason) = server.reason("hang");
    assert_eq!(status, 500);
    assert!(reason.starts_with("not done after 1 s"), "{reason}");
    assert_eq!(server.speak("well").0, 200);
    let (status, reason) = server.reason("die");
    assert_eq!(status, 500);
    assert!(reason.contains("told to die by a sentence"), "{reason}");
    assert_eq!(server.speak("well").0, 200);
}

#[test]
fn say_ends_when_its_worker_hangs_or_dies() {
    let project = project(VITS);
    let (output, errors) = say(&project, "hang");
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("`spoken` cannot speak: not done after 1 s"), "{errors}");
    assert!(errors.contains("raise `timeout` if it needs more"), "{errors}");
    let (output, errors) = say(&project, "die");
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("told to die by a sentence"), "{errors}");
    let (output, errors) = say(&project, "well");
    assert_eq!(output.status.code(), Some(0), "{errors}");
}

#[test]
fn lack_of_memory_halves_the_batches_of_a_voice_from_then_on() {
    let project = project(FISH);
    let text = "One heavy. Two heavy. Three heavy. Four heavy. Five heavy. Six heavy. Seven heavy.";
    let (output, errors) = say(&project, text);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert_eq!(batches(&project), ["4", "2", "1", "1", "1", "1", "1", "1", "1"]);
}

#[test]
fn a_sentence_with_which_the_worker_dies_does_not_take_others_along() {
    let project = project(FISH);
    let (output, errors) = say(&project, "One. Two. Three will die. Four. Five.");
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("told to die by a sentence"), "{errors}");
    assert_eq!(batches(&project), ["4", "4", "2", "2", "1", "1"]);
}

/// Runs all stages with the fake worker.
fn run(project: &Project) -> RanProgram {
    RanProgram::of(throstle(project, &["run", ".", "--json"]).output().unwrap())
}

#[test]
fn a_missing_sentence_ends_a_run_as_failed_after_all_others_are_exported() {
    let project = project(&format!("{FISH}export = \"out/{{id}}.wav\"\n{MEASURED}"));
    project.replace(
        "pipeline.toml",
        "[\"a\"]",
        "[\"One.\", \"Two mute.\", \"Three.\", \"Mute mute.\"]",
    );
    for _ in 0..2 {
        // The second run has nothing to do, and the sentences are missing all the same.
        let ran = run(&project);
        assert_eq!(ran.code, Some(1), "{}", ran.errors);
        assert_eq!(project.names("out"), ["001.wav", "003.wav", "measured"]);
        assert_eq!(project.names("out/measured"), ["001.txt", "003.txt"]);
        let failures = ran.all("stage-failed");
        assert_eq!(failures.len(), 1, "{failures:?}");
        let message = failures[0]["message"].as_str().unwrap();
        assert_eq!(
            message,
            "2 of 4 sentences are missing, the others are done: `002`, `004`; `002`: the model ended \
             before it spoke"
        );
        let help = failures[0]["help"].as_str().unwrap();
        assert!(help.contains("`quarantine = \"50%\"` in `[stage.spoken]`"), "{help}");
    }
    // The loss is accepted.
    project.replace("pipeline.toml", "batch = 4", "batch = 4\nquarantine = \"50%\"");
    let ran = run(&project);
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
}

/// A stage behind the spoken sentences.
const MEASURED: &str = r#"
[stage.measured]
use = "command"
input = "spoken"
fields = ["audio"]
command = "wc -c < {audio} > {out.size}"
outputs = { size = "size.txt" }
export = { size = "out/measured/{id}.txt" }
"#;

#[test]
fn say_warns_of_a_language_that_the_voice_does_not_choose() {
    let project = project(VITS);
    let arguments = ["say", ".", "well", "-o", "a.wav", "--language", "it"];
    let output = throstle(&project, &arguments).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    assert!(errors.contains("`--language` has no effect on `spoken`"), "{errors}");
    assert!(!say(&project, "well").1.contains("--language"));
}

#[test]
fn say_speaks_with_the_last_result_of_a_model_that_is_not_up_to_date() {
    let made = "[stage.trained]\nuse = \"command.once\"\ncommand = \"echo 1 > {out.config}\"\n\
                outputs = { config = \"config.json\" }\n";
    let manifest = VITS.replace("model = \"assets.model\"", "model = \"trained\"");
    let project = project(&format!("{manifest}\n{made}"));
    let (output, errors) = say(&project, "well");
    assert_eq!(output.status.code(), Some(1), "nothing has made it yet: {errors}");
    assert!(errors.contains("`trained` is not up to date, and `spoken` needs it"), "{errors}");
    assert_eq!(
        throstle(&project, &["run", ".", "trained"]).output().unwrap().status.code(),
        Some(0)
    );
    let (_, errors) = say(&project, "well");
    assert!(!errors.contains("up to date"), "{errors}");
    project.replace("pipeline.toml", "echo 1", "echo 2");
    let (output, errors) = say(&project, "well");
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let told = "`trained` is not up to date: `spoken` speaks with its output of run 2";
    assert!(errors.contains(told), "{errors}");
}
