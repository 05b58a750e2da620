//! A listening test by keyboard in a real browser, killed in the middle, and as a file for others.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use throstle_tests::browser::Browser;
use throstle_tests::{Project, tone};

const MANIFEST: &str = r#"
[pipeline]
name = "heard"
seed = 1

[stage.spoken]
use = "corpus.table"
table = "spoken.csv"
audio = "wavs"

[stage.pairs]
use = "rate.pairs"
input = "spoken"
sentences = 8
hold = 0.0
traps = 0

[stage.votes]
use = "rate.votes"
folder = "ratings/pairs"

[stage.ranks]
use = "rate.result"
input = "pairs"
votes = "votes"
export = { report = "out/ranks.json" }
"#;

/// The pitches of two voices. The listener of these tests prefers the higher one.
const VOICES: [(&str, f64); 2] = [("secretlow", 200.0), ("secrethigh", 300.0)];

/// Two voices that have spoken eight sentences.
fn project() -> Project {
    let project = Project::new(MANIFEST);
    let mut table = "file,text,checkpoint,sentence\n".to_owned();
    for sentence in 0..8 {
        for (at, (voice, pitch)) in VOICES.into_iter().enumerate() {
            let file = format!("s{sentence}_{voice}.wav");
            project.write(&format!("wavs/{file}"), tone(pitch, 0.3, 2_000 * (at as i16 + 1)));
            table += &format!("{file},Sentence {sentence}.,{voice},s{sentence}\n");
        }
    }
    project.write("spoken.csv", table);
    let ran = project.run();
    assert_eq!(ran.code, Some(0));
    // Votes come later.
    let notes = ran.all("note");
    assert!(!notes.iter().any(|note| note.to_string().contains("has no items")), "{notes:?}");
    project
}

fn ranks(project: &Project) -> Value {
    serde_json::from_slice(&project.read("out/ranks.json")).unwrap()
}

/// A running test, ended with this value.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(project: &Project) -> Server {
        let arguments = ["rate", "pairs", "--rater", "anna", "--port", "0"];
        let mut child = project.throstle(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Server { child, address: line.trim().to_owned() }
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A person at the keyboard.
struct Listener(Browser);

impl Listener {
    fn until(&mut self, condition: &str) {
        let waited = self.0.evaluate(&format!(
            "(async () => {{
                for (let waited = 0; !({condition}) && waited < 3000; waited += 1) {{
                    await new Promise(done => setTimeout(done, 20));
                }}
                return {condition} ? '' : document.body.innerText;
            }})()"
        ));
        assert_eq!(waited, "", "{condition}");
    }

    fn press(&mut self, key: &str) {
        let mut event = json!({ "type": "keyDown", "key": key });
        if key.len() == 1 {
            event["text"] = json!(key);
        }
        self.0.call("Input.dispatchKeyEvent", event);
        self.0.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    fn votes(&mut self) -> u64 {
        self.0.evaluate("now.position").as_u64().unwrap()
    }

    /// Plays both and takes the higher pitch; true if there is a next pair.
    fn vote(&mut self) -> bool {
        self.until("now && !busy && (now.finished || (sounds.left && sounds.right))");
        if self.0.evaluate("now.finished") == true {
            return false;
        }
        let before = self.votes();
        self.press("1");
        self.press("2");
        let pitch = "(async (side) => {
            const blob = await sheet.sound(now[side]);
            const rate = 16000;
            const context = new OfflineAudioContext(1, 1, rate);
            const sound = await context.decodeAudioData(await blob.arrayBuffer());
            const samples = sound.getChannelData(0);
            let turns = 0;
            for (let at = 1; at < samples.length; at += 1) {
                turns += samples[at - 1] < 0 && samples[at] >= 0 ? 1 : 0;
            }
            return turns * rate / samples.length;
        })";
        let mut heard =
            |side: &str| self.0.evaluate(&format!("{pitch}('{side}')")).as_f64().unwrap();
        let key = if heard("left") > heard("right") { "ArrowLeft" } else { "ArrowRight" };
        self.press(key);
        self.until(&format!("!busy && now.position === {}", before + 1));
        true
    }

    /// Nothing that the page has or asks for names a voice.
    fn assert_blind(&mut self) {
        let page = self.0.evaluate("document.documentElement.outerHTML + JSON.stringify(now)");
        let page = page.as_str().unwrap().to_owned();
        assert!(!page.contains("secret"), "{page}");
        assert!(!self.0.complaints().iter().any(|told| told.contains("secret")));
    }
}

#[test]
fn a_folder_of_votes_that_cannot_be_there_is_no_empty_one() {
    let project = project();
    let failure = || {
        let ran = project.run();
        assert_eq!(ran.code, Some(1), "{}", ran.errors);
        ran.errors
    };
    // As on a drive that is then away.
    project.write("ratings/pairs/notes.txt", "");
    assert_eq!(project.run().code, Some(0));
    std::fs::remove_dir_all(project.file("ratings")).unwrap();
    std::os::unix::fs::symlink("away", project.file("ratings")).unwrap();
    assert!(failure().contains("`ratings` is a broken link"));
    std::fs::remove_file(project.file("ratings")).unwrap();
    project.write("ratings", "");
    assert!(failure().contains("`ratings` is not a folder"));
}

#[test]
fn a_test_by_keyboard_that_is_killed_in_the_middle_loses_no_vote_and_goes_on() {
    let project = project();
    assert!(ranks(&project)["summary"].as_str().unwrap().starts_with("no votes yet"));
    let mut server = Server::start(&project);
    let mut listener = Listener(Browser::new());
    listener.0.go_to(&server.address);
    listener.until("now");
    // Who has not listened to both cannot choose.
    listener.press("ArrowLeft");
    listener.until("document.getElementById('told').textContent === 'Listen to both first.'");
    assert_eq!(listener.votes(), 0);
    for _ in 0..4 {
        assert!(listener.vote());
        listener.assert_blind();
    }
    assert_eq!(server.end(Signal::SIGKILL), None);
    let lines = || project.text("ratings/pairs/anna.jsonl").lines().count();
    assert_eq!(lines(), 5, "the votes are stored before the next pair is shown");

    // A line that was being written when the machine stopped.
    project.edit("ratings/pairs/anna.jsonl", |text| format!("{text}{{\"is\":\"vo"));
    let mut server = Server::start(&project);
    listener.0.go_to(&server.address);
    listener.until("now");
    assert_eq!(listener.votes(), 4);
    listener.press("u");
    listener.until("!busy && now.position === 3");
    let again = ["rate", "pairs", "--rater", "anna", "--port", "0"];
    let error = String::from_utf8(project.output(&again).stderr).unwrap();
    assert!(error.contains("`anna` is rating in another program"), "{error}");
    while listener.vote() {}
    listener.assert_blind();
    let done = listener.0.evaluate("document.getElementById('end').innerText");
    assert!(done.as_str().unwrap().contains("9 votes are stored"), "{done}");
    assert_eq!(server.end(Signal::SIGINT), Some(0));

    let ran = project.run();
    assert_eq!(ran.executed().keys().copied().collect::<Vec<_>>(), ["ranks", "votes"]);
    let ranks = ranks(&project);
    assert_eq!(ranks["summary"], "`secrethigh` is preferred", "{ranks}");
    // Eight pairs, and one of them again.
    assert_eq!((&ranks["votes"], &ranks["raters"][0]["agreed"]), (&json!(8), &json!(1)));
    assert!(ranks["warnings"][0].as_str().unwrap().starts_with("only `anna` rated"));
    project.run().assert_nothing_done();
    project.printed(&["report"]);
    listener.0.visit(&project.file("report.html"));
    let shown = listener.0.evaluate("document.getElementById('listening').innerText");
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("is preferred") && shown.contains("only `anna` rated"), "{shown}");
}

#[test]
fn others_rate_with_one_file_and_their_votes_are_merged() {
    let project = project();
    project.printed(&["rate", "pairs", "--pack", "test.html"]);
    assert!(!project.text("test.html").contains("secret"));
    let mut listener = Listener(Browser::open(&project.file("test.html")));
    listener.0.evaluate(
        "document.getElementById('name').value = 'ben';
         document.getElementById('who').requestSubmit();",
    );
    for _ in 0..3 {
        assert!(listener.vote());
    }
    // A page that is closed and opened again goes on.
    listener.0.visit(&project.file("test.html"));
    listener.0.evaluate(
        "document.getElementById('name').value = 'ben';
         document.getElementById('who').requestSubmit();",
    );
    listener.until("now");
    assert_eq!(listener.votes(), 3);
    while listener.vote() {}
    let text = listener.0.evaluate("document.getElementById('votes').value");
    project.write("from-ben.jsonl", text.as_str().unwrap());
    let complaints = listener.0.complaints().into_iter();
    let others: Vec<String> = complaints.filter(|told| !told.starts_with("wants blob:")).collect();
    assert_eq!(others, [""; 0]);

    let read = ["rate", "pairs", "--read", "from-ben.jsonl"];
    assert_eq!(project.printed(&read), "from-ben.jsonl: 9 new votes of `ben`\n");
    assert_eq!(project.printed(&read), "from-ben.jsonl: 0 new votes of `ben`\n");
    assert_eq!(project.run().code, Some(0));
    assert_eq!(ranks(&project)["voices"][0]["id"], "secrethigh");
}

#[test]
fn a_stage_without_pairs_and_odd_names_are_refused_with_advice() {
    let project = project();
    let refused = |arguments: &[&str]| {
        let output = project.output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(&["rate", "spoken", "--rater", "anna"]);
    assert!(error.contains("stages with pairs: pairs"), "{error}");
    let error = refused(&["rate", "pairs", "--rater", "../anna"]);
    assert!(error.contains("cannot be the name of a rater"), "{error}");
    refused(&["rate", "pairs"]);
    project.write("other.jsonl", "{}\n");
    let output = project.output(&["rate", "pairs", "--read", "other.jsonl"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("is not the header of a file of votes"), "{error}");
}
