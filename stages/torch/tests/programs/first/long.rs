//! Long recordings with planted faults: the recipe, an edit, its timelines, and the recipes of voices
//! behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use throstle_tests::browser::{Browser, Look};
use throstle_tests::guide::root;
use throstle_tests::{Project, RanProgram};

use super::models;

const PHONE: Look = Look { width: 400, height: 844, dark: false };

/// The recordings, texts and recogniser of the recipe, in a folder of a project.
pub(crate) fn make(project: &Project, folder: &str, more: &[&str]) {
    let program = root().join("pipelines/long-recordings/make_data.py");
    let made = Command::new("python3")
        .arg(program)
        .arg("--to")
        .arg(project.file(folder))
        .args(more)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

pub(crate) fn book(more: &[&str]) -> Project {
    let project = Project::default();
    project.printed(&["init", "book", "--template", "long-recordings"]);
    make(&project, "book", more);
    project
}

pub(crate) fn run(project: &Project, arguments: &[&str]) -> RanProgram {
    let ran = RanProgram::of(project.output(&[&["run", "book", "--json"], arguments].concat()));
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    ran
}

/// The project after its first run, which happens once per test program.
fn done() -> Project {
    static DONE: OnceLock<Project> = OnceLock::new();
    let first = DONE.get_or_init(|| {
        let project = book(&[]);
        run(&project, &[]);
        project
    });
    Project::copy_of(Path::new(first.path()), &[])
}

/// The items of a stage as JSON.
pub(crate) fn items(project: &Project, stage: &str, more: &[&str]) -> Vec<Value> {
    let told =
        project.printed(&[&["items", stage, "-m", "book", "--format", "jsonl"], more].concat());
    told.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A sentence of the truth.
struct Said {
    recording: String,
    middle: f64,
    fault: Option<String>,
    text: String,
    /// What can be heard of it; None if no text fits its sound.
    heard: Option<String>,
}

/// The words of a text, without punctuation.
fn bare(text: &str) -> String {
    text.replace('.', "").to_lowercase()
}

fn heard(part: &Value) -> Option<String> {
    let words = part["words"].as_array().unwrap().iter().map(|word| word[2].as_str().unwrap());
    let is_cut = part["is_cut"].as_bool().unwrap();
    match part["fault"].as_str() {
        // A pause before or after the words belongs to no word.
        Some("silence" | "not-read") => Some(String::new()),
        Some("clipped-start" | "clipped-end") if is_cut => None,
        None | Some("clipped-start" | "clipped-end") => Some(words.collect::<Vec<_>>().join(" ")),
        Some(_) => None,
    }
}

fn truth(project: &Project) -> Vec<Said> {
    let truth: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&project.text("book/truth.json")).unwrap();
    let said = |recording: &String, part: &Value| Said {
        recording: recording.clone(),
        middle: (part["start"].as_f64().unwrap() + part["end"].as_f64().unwrap()) / 2.0,
        fault: part["fault"].as_str().map(str::to_owned),
        text: part["text"].as_str().unwrap().to_owned(),
        heard: heard(part),
    };
    truth.iter().flat_map(|(name, parts)| parts.iter().map(move |part| said(name, part))).collect()
}

/// The sentences of each clip that is kept, by the truth.
fn kept(project: &Project) -> Vec<(String, Vec<Said>)> {
    let segments: BTreeMap<String, (String, f64, f64)> = items(project, "segments", &[])
        .into_iter()
        .map(|item| {
            let number = |name: &str| item[name].as_f64().unwrap();
            let id = item["id"].as_str().unwrap().to_owned();
            let recording = item["recording"].as_str().unwrap().to_owned();
            (id, (recording, number("start"), number("start") + number("seconds")))
        })
        .collect();
    let mut clips: Vec<(String, Vec<Said>)> = Vec::new();
    for item in items(project, "clips", &[]) {
        let (recording, start, end) = &segments[item["id"].as_str().unwrap()];
        let inside =
            |said: &Said| said.recording == *recording && (*start..*end).contains(&said.middle);
        let sentences = truth(project).into_iter().filter(inside).collect();
        clips.push((item["text"].as_str().unwrap().to_owned(), sentences));
    }
    clips
}

/// The number of good sentences in a clip, whose text must be what can be heard in it, and which must
/// have no fault.
fn good(text: &str, sentences: &[Said]) -> Result<usize, String> {
    let faults: Vec<&str> = sentences.iter().filter_map(|said| said.fault.as_deref()).collect();
    let heard: Option<Vec<&str>> = sentences.iter().map(|said| said.heard.as_deref()).collect();
    let heard = heard.map(|heard| heard.into_iter().filter(|heard| !heard.is_empty()).collect());
    if heard.is_none_or(|heard: Vec<&str>| bare(text) != heard.join(" ")) {
        return Err(format!("`{text}` has {faults:?}"));
    }
    let written: Vec<&str> = sentences.iter().map(|said| said.text.as_str()).collect();
    match faults.is_empty() {
        true if text == written.join(" ") => Ok(written.len()),
        true => Err(format!("`{text}` is not {written:?}")),
        false => Ok(0),
    }
}

/// The clips with a wrong text or a fault, and the share of good sentences that are in a clip.
pub(crate) fn judged(project: &Project) -> (Vec<String>, f64) {
    let (mut wrong, mut kept_well) = (Vec::new(), 0);
    for (text, sentences) in kept(project) {
        match good(&text, &sentences) {
            Ok(count) => kept_well += count,
            Err(what) => wrong.push(what),
        }
    }
    let all = truth(project).iter().filter(|said| said.fault.is_none()).count();
    (wrong, kept_well as f64 / all as f64)
}

#[test]
fn good_sentences_become_clips_and_planted_faults_do_not() {
    let project = done();
    run(&project, &[]).assert_nothing_done();
    let (wrong, share) = judged(&project);
    assert_eq!(wrong, [""; 0]);
    assert!(share >= 0.6, "{share} of the good sentences");
    // What nobody reads is told.
    let unheard = project.text("book/out/unheard.json");
    let unread: Vec<String> = truth(&project)
        .into_iter()
        .filter(|said| said.fault.as_deref() == Some("not-read"))
        .map(|said| said.text)
        .collect();
    assert!(!unread.is_empty());
    for text in unread {
        assert!(unheard.contains(text.trim_end_matches('.')), "{text} is not in {unheard}");
    }
}

#[test]
fn an_edit_of_a_recording_redoes_the_segments_that_it_touches() {
    let project = done();
    let all = items(&project, "segments", &[]).len() as u64;
    let wav = project.read("book/data/chapter2.wav");
    // Four seconds are cut out of the middle.
    let (middle, less) = ((wav.len() / 2) & !1, 4 * 16_000 * 2);
    let mut samples = wav[44..middle].to_vec();
    samples.extend(&wav[middle + less..]);
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: 16_000,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer =
        hound::WavWriter::create(project.file("book/data/chapter2.wav"), spec).unwrap();
    for sample in samples.as_chunks::<2>().0 {
        writer.write_sample(i16::from_le_bytes(*sample)).unwrap();
    }
    writer.finalize().unwrap();
    let ran = run(&project, &[]);
    let executed = ran.executed();
    assert_eq!((executed["pauses"], executed["segments"], executed["aligned"]), (1, 1, 1));
    assert!(executed["heard"] <= 4 && all > 20, "{executed:?} of {all}");
}

#[test]
fn a_corrected_text_makes_a_clip_of_a_quarantined_segment_and_nothing_is_heard_again() {
    let project = done();
    let places: BTreeMap<String, Value> = items(&project, "segments", &[])
        .into_iter()
        .map(|item| (item["id"].as_str().unwrap().to_owned(), item))
        .collect();
    // A segment with one sentence, of which the text has another word.
    let truth = truth(&project);
    let rejected = items(&project, "fitting", &["--quarantined"]);
    let (id, said) = rejected
        .iter()
        .find_map(|item| {
            let id = item["id"].as_str().unwrap();
            let number = |name: &str| places[id][name].as_f64().unwrap();
            let times = number("start")..number("start") + number("seconds");
            let is_inside = |said: &&Said| {
                places[id]["recording"] == *said.recording && times.contains(&said.middle)
            };
            let inside: Vec<&Said> = truth.iter().filter(is_inside).collect();
            let is_wrong = |said: &Said| said.fault.as_deref() == Some("wrong-word");
            (inside.len() == 1 && is_wrong(inside[0])).then(|| (id.to_owned(), inside[0]))
        })
        .unwrap();
    let line = format!("segment,action,text,at,with\n{id},text,{},,\n", said.text);
    project.write("book/corrections.csv", line);
    let ran = run(&project, &[]);
    let executed = ran.executed();
    assert_eq!((executed["corrected"], executed["aligned"], executed["fitting"]), (1, 1, 1));
    assert!(!executed.contains_key("heard_at") && !executed.contains_key("heard"), "{executed:?}");
    let clips = items(&project, "clips", &[]);
    let clip = clips.iter().find(|clip| clip["id"] == id.as_str()).unwrap();
    assert_eq!(clip["text"], said.text.as_str());
}

#[test]
fn the_report_draws_a_timeline_of_each_recording_on_a_phone_too() {
    let project = done();
    project.printed(&["report", "book"]);
    let mut browser = Browser::open(&project.file("book/report.html"));
    browser.look(PHONE);
    let count = |browser: &mut Browser, what: &str| {
        let found =
            browser.evaluate(&format!("document.querySelectorAll('#recordings {what}').length"));
        found.as_u64().unwrap()
    };
    assert_eq!(count(&mut browser, ".timeline"), 2);
    for fate in ["kept", "rejected", "no-text"] {
        assert!(count(&mut browser, &format!("path.{fate}")) > 0, "nothing is {fate}");
    }
    assert!(count(&mut browser, ".player") >= 5);
    let overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.evaluate(overflow), 0);
    let narrowest = "Math.min(...[...document.querySelectorAll('.timeline svg')]
        .map((row) => row.getBoundingClientRect().width))";
    assert!(browser.evaluate(narrowest).as_f64().unwrap() > 250.0);
    browser.evaluate("document.querySelector('#recordings .player button').click()");
    browser.evaluate("new Promise(done => setTimeout(done, 200))");
    assert_eq!(browser.complaints(), [""; 0]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings.png");
    std::fs::write(folder, browser.screenshot()).unwrap();
}

/// The recipe of a voice, its lines that name the corpus, and their new values.
type Continued = (&'static str, &'static [(&'static str, &'static str)]);

#[test]
fn each_recipe_of_a_voice_reads_the_corpus_once_its_path_is_changed() {
    const VOICES: [Continued; 3] = [
        ("finnish-fish", &[("folder = \"data\"", "folder = \"../book/out/corpus\"")]),
        (
            "amharic-xtts",
            &[("table = \"data/metadata.csv\"", "table = \"../book/out/corpus/metadata.csv\"")],
        ),
        (
            "gujarati-mms",
            &[("table = \"data/metadata.csv\"", "table = \"../book/out/corpus/metadata.csv\"")],
        ),
    ];
    let project = done();
    let clips: BTreeSet<String> =
        items(&project, "clips", &[]).iter().map(|item| item["text"].to_string()).collect();
    for (template, lines) in VOICES {
        project.printed(&["init", template, "--template", template]);
        let manifest = format!("{template}/pipeline.toml");
        for (before, now) in lines {
            project.replace(&manifest, before, now);
        }
        let models = |name: &str| project.file(&format!("{template}/models/{name}"));
        match template {
            "finnish-fish" => models::write_fish(&models("openaudio-s1-mini")),
            "amharic-xtts" => models::write_xtts(&models("xtts-v2")),
            _ => models::write_vits(&models("mms-tts-guj")),
        }
        project.printed(&["check", template]);
        let plan = project.printed(&["plan", template]);
        assert!(plan.contains("stages have work"), "{plan}");
        project.printed(&["run", template, "clips"]);
        let arguments = ["items", "clips", "-m", template, "--format", "jsonl"];
        let text = |line: &str| {
            let item: Value = serde_json::from_str(line).unwrap();
            item["text"].to_string()
        };
        let found: BTreeSet<String> = project.printed(&arguments).lines().map(text).collect();
        assert_eq!(found, clips, "{template}");
    }
}
