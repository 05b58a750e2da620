//! `say` and `serve` with the voices of the demo.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use base64ct::{Base64, Encoding};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use throstle_tests::Project;
use throstle_tests::browser::Browser;
use throstle_tests::players::{node_players, players};

use crate::{done, vits, xtts};

const SENTENCE: &str = "Järvellä oli aamulla tyyntä.";

/// A copy of the variant without tokens after a run.
fn trained() -> Project {
    static TRAINED: OnceLock<Project> = OnceLock::new();
    let demo = TRAINED.get_or_init(|| {
        let demo = vits::variant();
        let ran = demo.run();
        assert_eq!(ran.code, Some(0), "{}", ran.errors);
        demo
    });
    Project::copy_of(demo.path(), &[])
}

fn command(project: &Project, arguments: &[&str]) -> std::process::Command {
    let mut command = project.throstle(arguments);
    command.env("XDG_CACHE_HOME", project.file("caches"));
    command
}

fn say(project: &Project, arguments: &[&str]) -> Vec<u8> {
    let output = command(project, &[&["say"], arguments].concat()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    output.stdout
}

fn refused(project: &Project, arguments: &[&str]) -> String {
    let output = command(project, arguments).output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn samples(wav: &[u8]) -> Vec<i32> {
    assert_eq!(&wav[..4], b"RIFF");
    let samples = wav[44..].chunks_exact(2);
    samples.map(|two| i32::from(i16::from_le_bytes([two[0], two[1]]))).collect()
}

#[test]
fn a_sentence_sounds_as_the_stage_spoke_it_and_so_does_the_exported_folder() {
    let demo = trained();
    let spoken = demo.read("out/vits/spoken/001.wav");
    assert_eq!(say(&demo, &[".", SENTENCE]), spoken);
    assert_eq!(say(&demo, &[".:trained", SENTENCE, "-o", "-"]), spoken);
    assert!(say(&demo, &[".", SENTENCE, "-o", "a.wav"]).is_empty());
    assert_eq!(demo.read("a.wav"), spoken);
    let seed = ["--set", "pipeline.seed=1"];
    let exported = say(&demo, &[&["out/vits/model", SENTENCE], &seed[..]].concat());
    // Weight norm was removed, which rounds.
    let (ours, theirs) = (samples(&exported), samples(&spoken));
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= 2));
    for voice in ["out/vits/model", "."] {
        let output = command(&demo, &["say", voice, SENTENCE, "--speaker", "nobody"]).output();
        let output = output.unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("no speaker `nobody`") && told.contains("leave out"), "{told}");
    }
    // Another name for the speaker needs no other import.
    let again = ["say", "out/vits/model", SENTENCE, "--speaker", "0", "-o", "b.wav"];
    let output = command(&demo, &[&again[..], &seed].concat()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !told.contains("importing"), "{told}");
    assert_eq!(demo.read("b.wav"), exported);
    let fast = say(&demo, &[".", SENTENCE, "--speed", "2"]);
    let ratio = fast.len() as f64 / spoken.len() as f64;
    // No letter is shorter than a frame.
    assert!((0.4..0.8).contains(&ratio), "{ratio}");
    demo.run().assert_nothing_done();
}

#[test]
fn a_voice_reads_texts_as_it_has_learned_them_and_loses_no_letter_in_silence() {
    let demo = trained();
    let told = |arguments: &[&str]| {
        let output = command(&demo, &[&["say"], arguments].concat()).output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let words = say(&demo, &[".", "Minulla on kolme koiraa"]);
    assert_eq!(
        say(&demo, &[".", "Minulla on 3 koiraa"]),
        words,
        "numbers are spelled as in training"
    );
    let (code, sound, errors) = told(&[".", "Hei aamu. Minulla on 3kg ж."]);
    assert_eq!((code, sound.len()), (Some(1), 0), "{errors}");
    for part in [
        "`3` (1 time), `ж` (1 time)",
        "between `sentences_spoken` and `spoken_sentences`",
        "--on-unknown report",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let (code, sound, errors) = told(&[".", "Hei ж, aamu, ж", "--on-unknown", "report"]);
    assert!(code == Some(0) && sound.len() > 44, "{errors}");
    assert!(
        errors.contains("warning") && errors.contains("`,` (2 times), `ж` (2 times)"),
        "{errors}"
    );
    let (_, _, errors) = told(&[".", "Hei aamu"]);
    assert!(!errors.contains("warning"), "{errors}");
    // A stage is told to leave them out, and a folder of files has no stages to change.
    let set = ["--set", "stage.spoken_sentences.on_unknown=report"];
    assert_eq!(told(&[&[".", "Hei ж"][..], &set].concat()).0, Some(0));
    let (code, _, errors) = told(&["out/vits/model", "Hei 3"]);
    assert!(code == Some(1) && errors.contains("write them out in the text"), "{errors}");
}

#[test]
fn a_server_tells_what_it_leaves_out_and_which_voice_speaks() {
    let demo = trained();
    let server = Server::start(&demo, &["."]);
    let wish = |input: &str, more: Value| {
        let mut wish = json!({"model": "tts-1", "voice": "alloy", "input": input});
        wish.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.speak(wish)
    };
    let (status, head, _) = wish("Hei aamu", json!({}));
    assert_eq!(status, 200, "{head}");
    assert!(head.contains("Throstle-Note: no voice \"alloy\": spoken by"), "{head}");
    assert!(!head.contains("Throstle-Dropped"), "{head}");
    let (status, _, body) = wish("Hei. Aamu ж!", json!({}));
    let why = String::from_utf8(body).unwrap();
    assert!(status == 400 && why.contains("`ж` (1 time)") && why.contains("on_unknown"), "{why}");
    for more in [json!({}), json!({"stream": true}), json!({"stream_format": "sse"})] {
        let mut more = more;
        more["on_unknown"] = "report".into();
        let (status, head, _) = wish("Hei. Aamu ж!", more);
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("Throstle-Dropped: U+0021=1, U+002E=1, U+0436=1"), "{head}");
    }
    let (status, head, body) = wish("Hei aamu", json!({"response_format": "mp3"}));
    if std::process::Command::new("ffmpeg").arg("-version").output().is_err() {
        eprintln!("skipped: `ffmpeg` is not installed");
        let why = String::from_utf8(body).unwrap();
        assert!(status == 400 && why.contains("`ffmpeg`, which is not installed"), "{why}");
        return;
    }
    assert!(status == 200 && head.contains("Content-Type: audio/mpeg"), "{head}");
    let is_frame = body.starts_with(b"ID3") || body[0] == 0xff && body[1] & 0xe0 == 0xe0;
    assert!(is_frame, "{:?}", &body[..8]);
}

#[test]
fn a_chosen_checkpoint_speaks_like_any_model() {
    let demo = trained();
    let items = demo.printed(&["items", "trained.checkpoints", "--format", "jsonl"]);
    let last: Value = serde_json::from_str(items.lines().last().unwrap()).unwrap();
    let picked = format!(
        "\n[stage.picked]\nuse = \"dataset.item\"\ninput = \"trained.checkpoints\"\nid = {}\n",
        last["id"]
    );
    let manifest = demo.text("pipeline.toml");
    demo.write("pipeline.toml", &(manifest + &picked));
    assert_eq!(demo.run().code, Some(0));
    assert_eq!(say(&demo, &[".:picked", SENTENCE]), say(&demo, &[".:trained", SENTENCE]));
}

#[test]
fn tokens_and_references_speak_as_in_the_pipeline() {
    let demo = done();
    let spoken = demo.read("out/spoken/001.wav");
    assert_eq!(say(&demo, &[".", SENTENCE]), spoken);
    assert_serves(&demo, &spoken);
    // Another model on the port of the stage that speaks.
    let other = say(&demo, &[".:trained", SENTENCE]);
    assert_ne!(other, spoken);
    let error = refused(&demo, &["say", ".", SENTENCE, "--speed", "2"]);
    assert!(error.contains("has only one speed"), "{error}");
    let demo = xtts::variant();
    assert_eq!(demo.run().code, Some(0));
    let spoken = demo.read("out/xtts/spoken/001.wav");
    assert_eq!(say(&demo, &[".", SENTENCE]), spoken);
    assert_serves(&demo, &spoken);
    assert!(say(&demo, &[".", SENTENCE, "--speed", "2"]).len() < spoken.len() * 2 / 3);
    let error = refused(&demo, &["say", "out/xtts/model", SENTENCE, "--language", "fi"]);
    assert!(error.contains("needs a reference recording"), "{error}");
    let error = refused(&demo, &["say", "out/xtts/model", SENTENCE]);
    let all = "add `--reference FILE` or `--speaker NAME`, and `--language CODE`";
    assert!(error.contains(all), "{error}");
    let wav = "data/wavs/aino_09.wav";
    let heard = ["out/xtts/model", "Hei.", "--language", "fi", "--reference", wav];
    let quick = ["--set", "stage.speech.max_codes=10"];
    assert!(say(&demo, &[&heard[..], &quick].concat()).len() > 44);
}

/// A server with the only voice of a pipeline speaks as its stage did, whole and in events.
fn assert_serves(demo: &Project, spoken: &[u8]) {
    let server = Server::start(demo, &["."]);
    let models: Value = serde_json::from_slice(&server.ask("GET", "/v1/models", None).2).unwrap();
    let voice = &models["data"][0]["id"];
    let (status, head, body) = server.speak(json!({"model": voice, "input": SENTENCE}));
    assert_eq!((status, body == spoken), (200, true), "{voice}: {head}");
    let wish = json!({"model": voice, "input": SENTENCE, "response_format": "pcm",
        "stream_format": "sse"});
    let (status, head, body) = server.speak(wish);
    assert_eq!((status, heard(&joined(&body)) == spoken[44..]), (200, true), "{voice}: {head}");
}

/// The audio in the events of an answer. The last event marks the end.
fn heard(events: &[u8]) -> Vec<u8> {
    let events = std::str::from_utf8(events).unwrap();
    let event = |event: &str| -> Value {
        serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()
    };
    let mut events: Vec<Value> = events.split_terminator("\n\n").map(event).collect();
    let last = events.pop().unwrap();
    assert_eq!(last["type"], "speech.audio.done");
    assert!(last["usage"]["total_tokens"].as_u64().unwrap() > 0, "{last}");
    let audio = |event: &Value| {
        assert_eq!(event["type"], "speech.audio.delta");
        Base64::decode_vec(event["audio"].as_str().unwrap()).unwrap()
    };
    events.iter().flat_map(audio).collect()
}

/// A model with three speakers, and clips of two of them.
const SPEAKERS: &str = r#"
[pipeline]
name = "speakers"
seed = 1

[stage.clips]
use = "corpus.table"
table = "metadata.csv"
columns = ["file", "text", "speaker"]

[stage.model]
use = "vits.init"
characters = " abcdefghijklmnopqrstuvwxyzåäö'-"
hidden = 16
layers = 1
channels = 16
speakers = 3

[stage.sentences]
use = "corpus.sentences"
sentences = ["Järvellä oli aamulla tyyntä.", "Koira nukkui uunin päällä."]

[stage.voices]
use = "voice.audition"
input = "sentences"
clips = "clips"

[stage.spoken]
use = "vits.synthesize"
input = "voices"
model = "model"

[stage.measured]
use = "quality.measure"
input = "spoken"

[stage.best]
use = "voice.choose"
input = "measured"
clips = "clips"
require = ["mean(longest_silence) <= base + 60"]
prefer = [{ measure = "mean(characters_per_second)", better = "lower" }]
tie = "exact"
least = 1
hold = 0.0
"#;

#[test]
fn a_speaker_of_a_model_is_chosen_by_what_it_says() {
    let project = Project::new(SPEAKERS);
    project.write("metadata.csv", "a.wav|Yksi.|1\nb.wav|Kaksi.|2\nc.wav|Kolme.|2\n");
    for (name, level) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
        project.write(&format!("{name}.wav"), throstle_tests::wav(level));
    }
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    assert_eq!((ran.executed()["spoken"], ran.executed()["best"]), (4, 1));
    let items = |stage: &str| -> Vec<Value> {
        let lines = project.printed(&["items", stage, "--format", "jsonl"]);
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let measured = items("measured");
    let rate = |speaker: &str| -> f64 {
        let own = measured.iter().filter(|item| item["speaker"] == speaker);
        own.map(|item| item["characters_per_second"].as_f64().unwrap()).sum()
    };
    let slowest = if rate("1") < rate("2") { "1" } else { "2" };
    let best = items("best");
    let clips: Vec<&str> = best.iter().map(|clip| clip["id"].as_str().unwrap()).collect();
    assert_eq!(clips, if slowest == "1" { vec!["a"] } else { vec!["b", "c"] });
    project.run().assert_nothing_done();
}

#[test]
fn places_without_a_voice_are_refused_with_advice() {
    let demo = vits::variant();
    for (arguments, told) in [
        (&["say", "nowhere", "Hei."][..], "there is no `nowhere`"),
        (&["say", ".:nobody", "Hei."], "has no stage `nobody`"),
        (&["say", ".:clips", "Hei."], "no stage of `.` speaks with the model of `clips`"),
        (&["say", "data/wavs", "Hei."], "`data/wavs`"),
        (&["serve", ".", "--listen", "0.0.0.0:0", "--token", ""], "needs a token"),
    ] {
        let error = refused(&demo, arguments);
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn a_player_gets_the_sound() {
    let demo = trained();
    demo.write("bin/pw-play", "#!/bin/sh\ncp \"$1\" played.wav\n");
    let player = demo.file("bin/pw-play");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&player, mode).unwrap();
    let path = format!("{}:/usr/bin:/bin", demo.file("bin").display());
    let status = command(&demo, &["say", ".", SENTENCE, "--play"]).env("PATH", path).status();
    assert!(status.unwrap().success());
    assert_eq!(demo.read("played.wav"), demo.read("out/vits/spoken/001.wav"));
}

/// A running server, ended with the test.
struct Server {
    child: Child,
    /// Without the token.
    address: String,
}

impl Server {
    fn start(project: &Project, arguments: &[&str]) -> Server {
        let arguments = [&["serve"], arguments, &["--port", "0"]].concat();
        let mut child = command(project, &arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line}"));
        let address = address.split('/').next().unwrap().to_owned();
        Server { address, child }
    }

    fn request(&self, method: &str, path: &str, body: Option<&Value>) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// Status, head and body.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String, Vec<u8>) {
        let mut bytes = Vec::new();
        self.request(method, path, body).read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, bytes[end + 4..].to_vec())
    }

    fn speak(&self, wish: Value) -> (u16, String, Vec<u8>) {
        self.ask("POST", "/v1/audio/speech", Some(&wish))
    }

    fn metric(&self, name: &str) -> f64 {
        let (_, _, text) = self.ask("GET", "/metrics", None);
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("throstle_{name} ")));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
    }

    /// The resident memory of the server and of its worker, in bytes.
    fn memory(&self) -> u64 {
        let resident = |id: String| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let line = line.and_then(|line| line.split_whitespace().next());
            line.map_or(0, |number| number.parse::<u64>().unwrap()) * 1024
        };
        self.processes().into_iter().map(resident).sum()
    }

    /// The server and what it started.
    fn processes(&self) -> Vec<String> {
        let own = self.child.id();
        let threads = std::fs::read_dir(format!("/proc/{own}/task")).unwrap();
        let children = threads.flat_map(|thread| {
            let children = thread.unwrap().path().join("children");
            let children = std::fs::read_to_string(children).unwrap_or_default();
            children.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        });
        children.chain([own.to_string()]).collect()
    }

    fn end(mut self) -> Option<i32> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// The content of a body in chunks.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body.windows(2).position(|part| part == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        body = &body[end + 2..];
        if size == 0 {
            return whole;
        }
        whole.extend(&body[..size]);
        body = &body[size + 2..];
    }
}

#[test]
fn a_server_speaks_lists_streams_and_refuses() {
    let demo = trained();
    let server = Server::start(&demo, &[".", "two=.:untrained"]);
    let spoken = demo.read("out/vits/spoken/001.wav");
    let voice = "spoken_sentences";
    let (status, head, body) = server.speak(json!({"model": voice, "input": SENTENCE}));
    assert_eq!((status, body == spoken), (200, true), "{head}");
    assert!(head.contains("Content-Type: audio/wav"), "{head}");
    let two = json!({"model": "x", "voice": "two", "input": "Hei. Moi!", "response_format": "pcm"});
    let (status, head, whole) = server.speak(two.clone());
    assert_eq!(status, 200);
    assert!(head.contains("rate=16000"), "{head}");
    let mut streamed = two;
    streamed["stream"] = true.into();
    let (status, head, parts) = server.speak(streamed.clone());
    assert!(status == 200 && head.contains("Transfer-Encoding: chunked"), "{head}");
    assert_eq!(joined(&parts), whole);
    streamed["stream_format"] = "sse".into();
    let (status, head, events) = server.speak(streamed);
    assert!(status == 200 && head.contains("Content-Type: text/event-stream"), "{head}");
    let events = joined(&events);
    assert_eq!(events.windows(12).filter(|part| part == b"audio.delta\"").count(), 2);
    assert_eq!(heard(&events), whole);
    let (status, _, flac) =
        server.speak(json!({"model": voice, "input": SENTENCE, "response_format": "flac"}));
    assert_eq!((status, &flac[..4]), (200, &b"fLaC"[..]));
    let list =
        |path: &str| -> Value { serde_json::from_slice(&server.ask("GET", path, None).2).unwrap() };
    assert_eq!(list("/v1/models")["data"][1]["id"], "two");
    assert_eq!(list("/v1/audio/voices")["voices"][0]["id"], voice);
    assert_eq!(list("/health")["status"], "ok");
    let (status, head, page) = server.ask("GET", "/", None);
    assert!(status == 200 && head.contains("Content-Security-Policy: default-src 'none'"));
    assert!(String::from_utf8(page).unwrap().contains("<textarea"));
    let refused = |wish: Value| {
        let (status, _, body) = server.speak(wish);
        let body: Value = serde_json::from_slice(&body).unwrap();
        (status, body["error"]["message"].as_str().unwrap().to_owned())
    };
    let (status, why) = refused(json!({"model": voice, "input": "?!"}));
    assert!(status == 400 && why.contains("none of the characters of the text"), "{why}");
    let (status, why) = refused(json!({"model": "nobody", "input": "Hei."}));
    assert!(status == 400 && why.contains("spoken_sentences, two"), "{why}");
    assert_eq!(server.ask("GET", "/v1/../etc", None).0, 400);
    assert!(server.metric("sentences_total") >= 6.0);
    // A worker that dies is replaced, and its request is not lost.
    for process in server.processes() {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap();
        if name.trim() == "throstle-torch" {
            kill(Pid::from_raw(process.parse().unwrap()), Signal::SIGKILL).unwrap();
        }
    }
    let (status, _, body) = server.speak(json!({"model": voice, "input": SENTENCE}));
    assert_eq!((status, body == spoken), (200, true));
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_person_types_and_compares_voices_in_a_real_browser() {
    let demo = trained();
    let server = Server::start(&demo, &[".", "two=.:untrained", "--token", "secret"]);
    let mut browser = Browser::new();
    browser.go_to(&format!("http://{}", server.address));
    let until = |browser: &mut Browser, condition: &str| {
        let waited = browser.evaluate(&format!(
            "(async () => {{
                for (let waited = 0; !({condition}) && waited < 3000; waited += 1) {{
                    await new Promise(done => setTimeout(done, 20));
                }}
                return {condition} ? '' : document.body.innerText;
            }})()"
        ));
        assert_eq!(waited, "", "{condition}");
    };
    let says = "document.getElementById('told').textContent";
    until(&mut browser, &format!("{says}.includes('token')"));
    // The token is behind the `#` of the address that the server prints.
    browser.go_to(&format!("http://{}/?again#secret", server.address));
    until(&mut browser, "document.querySelectorAll('#voices input').length === 2");
    browser.evaluate(
        "document.querySelectorAll('#voices input').forEach(box => { box.checked = true; });
         document.getElementById('text').value = 'Hei <b>aamu</b> ж.';
         document.getElementById('report').checked = true;
         document.getElementById('speed').value = 1.5;
         document.getElementById('form').requestSubmit();",
    );
    let sounds = "[...document.querySelectorAll('#sounds-made audio')]";
    until(&mut browser, &format!("{sounds}.filter(sound => sound.duration > 0).length === 2"));
    assert_eq!(browser.evaluate("document.querySelectorAll('#sounds-made b').length"), 0);
    let left_out = browser.evaluate("document.querySelector('#sounds-made .dropped').innerText");
    let left_out = left_out.as_str().unwrap();
    assert!(left_out.starts_with("Left out: ") && left_out.contains('ж'), "{left_out}");
    let complaints = browser.complaints().into_iter();
    let own = format!("wants http://{}/", server.address);
    let others: Vec<String> = complaints
        .filter(|told| !told.starts_with(&own) && !told.starts_with("wants blob:"))
        .filter(|told| !told.contains("favicon"))
        .collect();
    assert_eq!(others, [""; 0]);
}

#[test]
fn of_200_requests_at_16_at_once_none_is_lost_and_memory_stays() {
    const THREADS: usize = 16;
    let demo = trained();
    let server = Server::start(&demo, &["."]);
    let wish = |number: usize| {
        let text = format!("Hei {}.", "a".repeat(number % 7 + 1));
        json!({"model": "x", "voice": "spoken_sentences", "input": text})
    };
    let round = |requests: usize| {
        let one = |at: usize| {
            let (status, head, body) = server.speak(wish(at));
            assert_eq!(status, 200, "{head}");
            assert!(body.len() > 44);
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || (thread..requests).step_by(THREADS).for_each(one));
            }
        });
    };
    round(64);
    let before = server.memory();
    round(200);
    let after = server.memory();
    assert!(after < before + (24 << 20), "{before} {after}");
    assert_eq!(server.metric("sentences_total"), 264.0);
    assert_eq!(server.metric("requests_refused_total"), 0.0);
    // Who hangs up frees the place.
    let long =
        json!({"model": "x", "voice": "spoken_sentences", "input": "Hei aamu. ".repeat(200)});
    drop(server.request("POST", "/v1/audio/speech", Some(&long)));
    let is_free = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        server.metric("requests_abandoned_total") >= 1.0 && server.metric("requests_waiting") == 0.0
    });
    assert!(is_free, "the place is not free again");
}

#[test]
fn too_many_requests_are_told_to_come_again() {
    let demo = trained();
    let server = Server::start(&demo, &[".", "--queue", "1"]);
    let long = json!({"model": "x", "voice": "spoken_sentences", "input": "Hei aamu. ".repeat(30)});
    // One is spoken, one waits, and the others come too soon.
    let round = || {
        std::thread::scope(|scope| {
            let ask = || scope.spawn(|| server.speak(long.clone()));
            let asked: Vec<_> = (0..6).map(|_| ask()).collect();
            asked.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        })
    };
    let answers: Vec<_> = (0..20).flat_map(|_| round()).take(24).collect();
    let count = |wanted: u16| answers.iter().filter(|(status, _, _)| *status == wanted).count();
    assert!(count(200) > 0 && count(429) > 0, "{} {}", count(200), count(429));
    assert_eq!(count(200) + count(429), answers.len(), "nothing else happens");
    for (_, head, _) in answers.iter().filter(|(status, _, _)| *status == 429) {
        assert!(head.contains("Retry-After: "), "{head}");
    }
}

#[test]
fn a_card_has_the_licences_the_training_and_the_measures() {
    let demo = trained();
    demo.edit("pipeline.toml", |manifest| {
        let asset = "[assets.notes]\npath = \"data/spoken.txt\"\nlicense = \"CC-BY-4.0\"\n";
        format!("{manifest}\n{asset}")
    });
    let arguments =
        ["card", "original", "-o", "card.md", "--base", "them/base", "--language", "fi"];
    let output = command(&demo, &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no licence is known"), "{told}");
    assert!(told.contains("hf upload USER/NAME") && told.contains("out/vits/model"), "{told}");
    let card = demo.text("card.md");
    for part in [
        "---\nlanguage: fi\npipeline_tag: text-to-speech\nlibrary_name: transformers\n",
        "base_model: them/base\nbase_model_relation: finetune\n",
        "| trained | `vits.finetune` |",
        "steps = 2",
        "| mean of `duration_ratio` |",
        "| last held-out loss |",
    ] {
        assert!(card.contains(part), "{part}: {card}");
    }
    for none in ["mean of `frames`", "mean of `seconds`", "mean of `step`"] {
        assert!(!card.contains(none), "{none}: {card}");
    }
    // An asset that the model does not derive from is none of its licences.
    assert!(!card.contains("CC-BY-4.0"), "{card}");
}

/// Tests with OpenAI's own client, openai 3.54.0 of `tools/players.sh`.
#[test]
fn the_client_of_openai_speaks_with_the_server() {
    let Some(python) = players("openai") else {
        eprintln!("skipped: `.players` has no package `openai`: tools/players.sh");
        return;
    };
    let demo = trained();
    let server = Server::start(&demo, &["."]);
    let script = r#"
import base64, json, sys, openai
client = openai.OpenAI(base_url=f"http://{sys.argv[1]}/v1", api_key="none", max_retries=0)
print([model.id for model in client.models.list()])
speech = client.audio.speech.create(
    model="spoken_sentences", voice="spoken_sentences", input=sys.argv[2], response_format="wav")
open("client.wav", "wb").write(speech.read())
with client.audio.speech.with_streaming_response.create(
        model="x", voice="spoken_sentences", input=sys.argv[2], response_format="pcm",
        extra_body={"stream": True}) as speech:
    open("client.pcm", "wb").write(b"".join(speech.iter_bytes()))
with client.audio.speech.with_streaming_response.create(
        model="x", voice="spoken_sentences", input=sys.argv[2], response_format="pcm",
        stream_format="sse") as speech:
    parts = [json.loads(line[6:]) for line in speech.iter_lines() if line]
assert parts.pop()["type"] == "speech.audio.done"
open("client.sse", "wb").write(b"".join(base64.b64decode(part["audio"]) for part in parts))
other = client.audio.speech.with_raw_response.create(
    model="tts-1", voice="alloy", input=sys.argv[2], response_format="wav")
assert other.content == open("client.wav", "rb").read()
print(other.headers["throstle-note"])
try:
    client.audio.speech.create(model="x", voice="alloy", input="Hei ж.")
except openai.BadRequestError as error:
    print(error.body["message"])
"#;
    let mut command = std::process::Command::new(python);
    let arguments = ["-c", script, &server.address, SENTENCE];
    let output = command.args(arguments).current_dir(demo.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("no voice \"alloy\": spoken by \"spoken_sentences\""), "{said}");
    assert!(said.contains("`ж` (1 time)"), "{said}");
    let spoken = demo.read("out/vits/spoken/001.wav");
    assert_eq!(demo.read("client.wav"), spoken);
    assert_eq!(demo.read("client.pcm"), spoken[44..]);
    assert_eq!(demo.read("client.sse"), spoken[44..]);
}

/// Tests with OpenAI's own client for Node, openai 7.57.0 of `tools/players.sh`.
#[test]
fn the_client_of_openai_for_node_speaks_with_the_server() {
    let Some(packages) = node_players("openai") else {
        eprintln!("skipped: `.players/node` has no package `openai`: tools/players.sh");
        return;
    };
    let demo = trained();
    let server = Server::start(&demo, &["."]);
    let script = r#"
const fs = require("node:fs");
const { default: OpenAI, BadRequestError } = require("openai");
const [address, folder, input] = process.argv.slice(1);
const client = new OpenAI({ baseURL: `http://${address}/v1`, apiKey: "none", maxRetries: 0 });
const voice = "spoken_sentences";
const main = async () => {
    for await (const model of client.models.list()) console.log(model.id);
    const speech = await client.audio.speech.create({
        model: voice, voice, input, response_format: "wav" });
    fs.writeFileSync(`${folder}/client.wav`, Buffer.from(await speech.arrayBuffer()));
    const streamed = await client.audio.speech.create({
        model: "x", voice, input, response_format: "pcm", stream: true });
    const parts = [];
    for await (const part of streamed.body) parts.push(part);
    fs.writeFileSync(`${folder}/client.pcm`, Buffer.concat(parts));
    try {
        await client.audio.speech.create({ model: "x", voice: "alloy", input: "Hei ж." });
    } catch (error) {
        if (!(error instanceof BadRequestError)) throw error;
        console.log(error.message);
    }
};
main().catch(error => { console.error(error); process.exit(1); });
"#;
    let mut command = std::process::Command::new("node");
    command.args(["-e", script, "--", &server.address]).arg(demo.path()).arg(SENTENCE);
    let output = command.current_dir(packages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("spoken_sentences\n") && said.contains("`ж` (1 time)"), "{said}");
    let spoken = demo.read("out/vits/spoken/001.wav");
    assert_eq!(demo.read("client.wav"), spoken);
    assert_eq!(demo.read("client.pcm"), spoken[44..]);
}

/// Puts a stage between the sentences and the stage that speaks.
fn with_stage_before(demo: &Project, stage: &str) {
    demo.edit("pipeline.toml", |manifest| {
        let (head, speaks) = manifest.split_once("[stage.spoken_sentences]").unwrap();
        let speaks = speaks.replacen("input = \"sentences_spoken\"", "input = \"changed\"", 1);
        format!(
            "{head}[stage.changed]\ninput = \"sentences_spoken\"\n{stage}\n\n\
             [stage.spoken_sentences]{speaks}"
        )
    });
}

#[test]
fn a_text_comes_through_the_stages_that_change_texts() {
    let demo = trained();
    let plain = say(&demo, &[".", "Hei aamu."]);
    let shell = "command = \"printf '%s' {text} | sed s/moi/hei/ > {out.text}\"\n\
        outputs = { text = \"text.txt\" }";
    with_stage_before(
        &demo,
        &format!("use = \"command\"\nfields = [\"text\"]\n{shell}\ntexts = [\"text\"]"),
    );
    let ran = demo.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    assert_ne!(say(&demo, &[".", "Moi aamu."]), plain, "the letters are other ones");
    assert_eq!(say(&demo, &[".", "moi aamu."]), say(&demo, &[".", "hei aamu."]));
    let demo = trained();
    demo.write(
        "change.py",
        "from throstle import Reject, stage\n\n\n@stage\ndef change(item, state):\n    \
         if 'rumaa' in item['text']:\n        raise Reject('not said')\n    \
         return {'text': item['text'].replace('xx', 'aamu')}\n",
    );
    let python = "use = \"python\"\nscript = \"change.py\"\nfields = [\"text\"]\n\
        outputs = { text = \"text\" }";
    with_stage_before(&demo, python);
    // Between them, a stage that hands its items on as they are.
    demo.replace("pipeline.toml", "input = \"changed\"", "input = \"some\"");
    demo.edit("pipeline.toml", |manifest| {
        let filter = "use = \"dataset.filter\"\ninput = \"changed\"\n\
            where = [{ field = \"text\", not_empty = true }]";
        format!("{manifest}\n[stage.some]\n{filter}\n")
    });
    let ran = demo.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    assert_eq!(say(&demo, &[".", "Hei xx."]), plain);
    let error = refused(&demo, &["say", ".", "Hei rumaa."]);
    assert!(error.contains("not said"), "{error}");
}

#[test]
fn a_stage_that_cannot_change_a_single_text_is_named() {
    let demo = trained();
    demo.write(
        "change.py",
        "from throstle import stage\n\n\n@stage\ndef change(items, state):\n    \
         return {'count': len(items)}, [item.with_fields(text='hei') for item in items]\n",
    );
    let whole = "use = \"python.all\"\nscript = \"change.py\"\nfields = [\"text\"]\n\
        outputs = { count = \"number\" }\nitem_outputs = { text = \"text\" }";
    with_stage_before(&demo, whole);
    demo.replace("pipeline.toml", "input = \"changed\"", "input = \"changed.items\"");
    let error = refused(&demo, &["say", ".", "Hei."]);
    assert!(error.contains("`changed` cannot make the field `text`"), "{error}");
    assert!(error.contains("works on all items together"), "{error}");
    assert!(error.contains("`command` or `python`"), "{error}");
    let named = "use = \"command\"\nfields = [\"text\", \"id\"]\n\
        command = \"printf '%s %s' {text} {id} > {out.text}\"\noutputs = { text = \"text.txt\" }\n\
        texts = [\"text\"]";
    let demo = trained();
    with_stage_before(&demo, named);
    let error = refused(&demo, &["serve", ".", "--port", "0"]);
    assert!(error.contains("`changed` cannot make the field `text`"), "{error}");
    assert!(error.contains("reads the id"), "{error}");
}

/// A text of many sentences is still being spoken when its first one arrives.
#[test]
fn the_first_sentence_is_heard_before_the_last_is_spoken() {
    const SENTENCES: usize = 250;
    let demo = trained();
    let server = Server::start(&demo, &["."]);
    let before = server.metric("sentences_total");
    let wish = json!({"model": "x", "voice": "spoken_sentences", "response_format": "pcm",
        "input": "Hei aamu moi. ".repeat(SENTENCES).trim(), "stream": true});
    let mut answer = BufReader::new(server.request("POST", "/v1/audio/speech", Some(&wish)));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(answer.read_line(&mut line).unwrap() > 0, "no head");
    }
    // The size of the first chunk, and its samples.
    line.clear();
    answer.read_line(&mut line).unwrap();
    let size = usize::from_str_radix(line.trim(), 16).unwrap();
    let mut samples = vec![0; size];
    answer.read_exact(&mut samples).unwrap();
    let spoken = server.metric("sentences_total") - before;
    assert!((1.0..SENTENCES as f64).contains(&spoken), "{spoken}");
    let mut rest = Vec::new();
    answer.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n"), "{}", rest.len());
    assert_eq!(server.metric("sentences_total") - before, SENTENCES as f64);
}
