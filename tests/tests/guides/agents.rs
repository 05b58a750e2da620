//! The pages for coding agents: their examples are valid, and the JSON that they describe is that of
//! the program.

use std::collections::BTreeSet;
use std::path::Path;

use engine::estimate::{Figure, StageEstimate};
use engine::event::{Event, PlannedStage, StageCounts, Status, Verdict};
use serde_json::Value;
use stage_core::course::Course;
use stage_core::device::{DeviceId, DeviceName};
use throstle_tests::guide::{document, root};
use throstle_tests::{Project, copy_folder};

const PAGE: &str = "docs/llms.txt";

fn blocks(page: &str, kind: &str) -> Vec<String> {
    let start = format!("```{kind}\n");
    let behind = page.split(&start).skip(1);
    behind.map(|rest| rest.split_once("```").unwrap().0.to_owned()).collect()
}

/// The paths of data, models and programs in a manifest, which are not part of it.
fn paths(manifest: &str) -> BTreeSet<&str> {
    let folders = ["data/", "models/", "tools/"];
    let quoted = manifest.split('"').skip(1).step_by(2);
    quoted.filter(|text| folders.iter().any(|folder| text.starts_with(folder))).collect()
}

fn contents(path: &str) -> &'static str {
    match Path::new(path).extension().and_then(|end| end.to_str()) {
        Some("csv") => "a.wav|Hei.|anna\n",
        Some("jsonl") => "{\"audio\": \"a.wav\", \"text\": \"Hei.\"}\n",
        _ => "Hei.\n",
    }
}

#[test]
fn every_example_passes_check_without_a_warning() {
    let manifests = blocks(&document(PAGE), "toml");
    assert_eq!(manifests.len(), 5);
    for manifest in manifests {
        let project = Project::new(&manifest);
        for path in paths(&manifest) {
            let is_file = Path::new(path).extension().is_some();
            let file = if is_file { path.to_owned() } else { format!("{path}/a.txt") };
            project.write(&file, contents(path));
        }
        let output = project.output(&["check"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // A machine without a GPU cannot run all of them.
        let told: Vec<&str> = told.lines().filter(|line| !line.contains("no NVIDIA GPU")).collect();
        assert_eq!((output.status.code(), told), (Some(0), vec![]), "{manifest}");
    }
}

#[test]
fn the_first_example_makes_a_corpus_of_the_clips_of_the_demo() {
    let project = Project::new(&blocks(&document(PAGE), "toml")[0]);
    copy_folder(&root().join("pipelines/demo/data"), &project.file("data"), &[]);
    let run = project.run();
    assert_eq!(run.code, Some(0), "{}", run.errors);
    assert_eq!(run.quarantined("checked"), 1);
    // Below the names of the columns.
    let rows = |table: &str| project.text(&format!("out/corpus/{table}")).lines().count() - 1;
    assert_eq!(rows("train.csv") + rows("valid.csv"), rows("metadata.csv"));
    assert!(rows("valid.csv") > 0, "no clip is held out");
}

#[test]
fn init_writes_the_page_with_the_instructions_and_both_lead_to_a_run() {
    let project = Project::default();
    let told = project.printed(&["init", "mine", "--agent", "--template", "folder"]);
    assert!(told.contains("wrote `mine/AGENTS.md` for coding agents\n"), "{told}");
    assert_eq!(project.text("mine/llms.txt"), document(PAGE));
    let instructions = project.text("mine/AGENTS.md");
    let named = instructions.split('`').skip(1).step_by(2);
    let named: BTreeSet<&str> =
        named.filter_map(|text| text.strip_prefix("throstle ")?.split(' ').next()).collect();
    let help = project.printed(&["--help"]);
    for command in named {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
    for page in ["AGENTS.md", "llms.txt"] {
        project.write(&format!("own/{page}"), "mine");
        let output = project.output(&["init", "own", "--agent"]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("`own/{page}` already exists")), "{told}");
        assert_eq!(project.text(&format!("own/{page}")), "mine");
        project.remove(&format!("own/{page}"));
        assert_eq!(project.names("own"), [""; 0]);
    }
}

/// The shapes on the page by name.
fn shapes() -> Value {
    let json = blocks(&document(PAGE), "json");
    serde_json::from_str(&json[0]).unwrap()
}

/// The places where a value is not as its shape says.
fn differences(place: &str, value: &Value, shape: &Value, shapes: &Value) -> Vec<String> {
    let unless = |fits: bool| {
        if fits { Vec::new() } else { vec![format!("{place}: {value} is not {shape}")] }
    };
    match shape {
        Value::Null => Vec::new(),
        Value::Number(_) => unless(value.is_number()),
        Value::Bool(_) => unless(value.is_boolean()),
        Value::String(text) => match text.as_str() {
            "" => unless(value.is_string()),
            "number?" => unless(value.is_null() || value.is_number()),
            "text?" => unless(value.is_null() || value.is_string()),
            name if name.starts_with(char::is_uppercase) => {
                let named = &shapes[name.trim_end_matches('?')];
                assert!(!named.is_null(), "there is no shape {name}");
                match value {
                    Value::Null if name.ends_with('?') => Vec::new(),
                    value => differences(place, value, named, shapes),
                }
            }
            words => unless(words.split(" | ").any(|word| value.as_str() == Some(word))),
        },
        Value::Array(of) => {
            let Some(values) = value.as_array() else { return unless(false) };
            values.iter().flat_map(|value| differences(place, value, &of[0], shapes)).collect()
        }
        Value::Object(keys) => {
            let Some(values) = value.as_object() else { return unless(false) };
            let any = keys.iter().find(|(key, _)| key.chars().all(char::is_uppercase));
            let own = |key: &str| {
                let optional = || keys.get(&format!("{key}?"));
                keys.get(key).or_else(optional).or(any.map(|(_, shape)| shape))
            };
            let is_missing = |key: &&String| {
                let is_needed = !key.ends_with('?') && any.is_none_or(|(any, _)| any != *key);
                is_needed && !values.contains_key(*key)
            };
            let missing = keys.keys().filter(is_missing);
            let missing = missing.map(|key| format!("{place}: `{key}` is missing in {value}"));
            let inside = values.iter().flat_map(|(key, value)| match own(key) {
                Some(shape) => differences(&format!("{place}.{key}"), value, shape, shapes),
                None => vec![format!("{place}: `{key}` is not on the page")],
            });
            missing.chain(inside).collect()
        }
    }
}

const EVENTS: &str = "run --json, watch --json, sweep NAME --json, log RUN --json";

fn assert_is_event(event: &Value) {
    let shapes = shapes();
    let all = [&shapes[EVENTS].as_array().unwrap()[..], &[shapes["plan --json"].clone()]].concat();
    let shape = all.iter().find(|shape| shape["event"] == event["event"]);
    let shape = shape.unwrap_or_else(|| panic!("{event} is not on the page"));
    assert_eq!(differences("event", event, shape, &shapes), [""; 0]);
}

/// One event of each variant, with everything that it can have.
fn events() -> Vec<Event> {
    let text = || "a".to_owned();
    let counts = StageCounts::default();
    let counted = || [(text(), counts)].into();
    let estimated = || [(text(), StageEstimate::unknown(1))].into();
    let device = DeviceId::FIRST_GPU;
    let estimate = Figure::exact(1.0);
    vec![
        Event::Started {
            run: 1,
            pipeline: text(),
            stages: vec![text()],
            time: Some(1),
            process: Some(1),
            machine: Some(text()),
        },
        Event::Estimated { stages: estimated(), seconds: estimate },
        Event::Session {
            seconds_left: Some(1.0),
            price_per_hour: None,
            spent: None,
            budget: Some(1.0),
        },
        Event::Measured {
            stage: text(),
            seconds: 1.0,
            disk_bytes: 1.0,
            ram_bytes: 1.0,
            vram_bytes: 1.0,
        },
        Event::Waiting { what: text() },
        Event::StageStarted { stage: text(), total: 1, reasons: vec![text()], trial: Some(text()) },
        Event::Progress { stage: text(), done: 1, total: 2, counts },
        Event::TrainingStarted { stage: text(), course: Course::default() },
        Event::Metrics {
            stage: text(),
            step: 1,
            values: [(text(), 1.0), ("b".to_owned(), f64::NAN)].into(),
        },
        Event::CheckpointKept { stage: text(), bytes: 1, seconds: 1.0 },
        Event::ItemQuarantined { stage: text(), item: text(), code: text(), reason: text() },
        Event::Retried { stage: text(), what: text(), attempt: 1 },
        Event::BatchHalved { stage: text(), bytes: Some(1), items: Some(1), message: text() },
        Event::WorkerStarted { device, process: 1 },
        Event::WorkerDied { device: DeviceName::One(device), message: text() },
        Event::Damaged { stage: text(), digest: text() },
        Event::Note { stage: Some(text()), message: text() },
        Event::StageFinished { stage: text(), counts, notes: [(text(), 1)].into() },
        Event::StageFailed { stage: text(), message: text(), help: Some(text()) },
        Event::Exported {
            stage: text(),
            written: 1,
            unchanged: 1,
            removed: 1,
            kept: 1,
            outdated: 1,
        },
        Event::Stopping { why: text() },
        Event::RunFailed { message: text(), help: Some(text()) },
        Event::Finished { status: Status::Done, stages: counted(), seconds: 1.0 },
    ]
}

#[test]
fn every_event_is_on_the_page() {
    let shapes = shapes();
    let on_page: BTreeSet<&str> = shapes[EVENTS]
        .as_array()
        .unwrap()
        .iter()
        .map(|shape| shape["event"].as_str().unwrap())
        .collect();
    let values: Vec<Value> =
        events().iter().map(|event| serde_json::to_value(event).unwrap()).collect();
    values.iter().for_each(assert_is_event);
    assert_eq!(
        values.iter().map(|event| event["event"].as_str().unwrap()).collect::<BTreeSet<_>>(),
        on_page
    );
    let stage = PlannedStage {
        verdict: Verdict::Dirty,
        reasons: vec!["never finished before".to_owned()],
        executed: 1,
        reused: 0,
        quarantined: 0,
        seconds: 1.0,
        trial: Some("rate=3".to_owned()),
    };
    let stage = serde_json::to_value(stage).unwrap();
    assert_eq!(differences("stage", &stage, &shapes["PlannedStage"], &shapes), [""; 0]);
}

/// Commands that need a cluster, or a training.
const NOT_TRIED: [&str; 2] = ["submit --json", "compare NAME --format json"];

#[test]
fn the_json_of_every_command_is_as_the_page_says() {
    let voice = "\n[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = 8000\n\
                 [session]\nstop_after = \"1h\"\nprice_per_hour = 1.0\nbudget = 5.0\n\
                 gpu_hours_per_week = 30\n[prices]\nt4 = { per_hour = 0.35, vram = \"15GB\" }\n";
    let project = Project::of_clips(&["a", "b"], voice);
    let table = project.text("data/metadata.csv");
    project.write("data/metadata.csv", format!("{table}missing.wav|Puuttuu.|aino\n"));
    let shapes = shapes();
    let mut tried = BTreeSet::new();
    let mut compare = |name: &'static str, arguments: &[&str]| {
        let printed = project.printed(arguments);
        let values: Vec<Value> =
            printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!values.is_empty(), "{arguments:?}");
        match name {
            EVENTS => values.iter().for_each(assert_is_event),
            name => {
                for value in &values {
                    assert_eq!(differences(name, value, &shapes[name], &shapes), [""; 0]);
                }
            }
        }
        tried.insert(name);
    };
    std::fs::create_dir(project.file("remote")).unwrap();
    let remote = format!("file://{}", project.file("remote").display());
    compare("plan --json", &["plan", ".", "--json", "--set", "voice.rate=16000"]);
    compare(EVENTS, &["run", ".", "--json"]);
    compare(EVENTS, &["run", ".", "--json", "--set", "voice.rate=16000"]);
    compare(EVENTS, &["log", "1", "--json"]);
    compare("status --json", &["status", ".", "--json"]);
    compare("log --json", &["log", "--json"]);
    compare("check --json", &["check", ".", "--json"]);
    compare("why STAGE --json", &["why", "voice", "--json"]);
    compare("why STAGE --json", &["why", "voice", "a", "--json"]);
    compare("diff OLD NEW --json", &["diff", "1", "2", "--json"]);
    compare("items STAGE --json", &["items", "voice", "--json"]);
    compare("items STAGE --json", &["items", "voice", "--format", "jsonl"]);
    compare("items STAGE --quarantined --json", &["items", "clips", "--quarantined", "--json"]);
    compare("push --json", &["push", ".", "--json", "--remote", &remote]);
    compare("pull --json", &["pull", ".", "--json", "--remote", &remote]);
    compare("remote stats --json", &["remote", "stats", "--json", "--remote", &remote]);
    compare("pack-cache --json", &["pack-cache", ".", "--to", "packed", "--json"]);
    compare(
        "unpack-cache --json",
        &["unpack-cache", ".", "--cache", "other", "--from", "packed", "--json"],
    );
    compare("cache stats --json", &["cache", "stats", "--json"]);
    compare("retry STAGE --json", &["retry", "clips", "--json"]);
    let commands = shapes.as_object().unwrap().keys().map(String::as_str);
    let commands = commands.filter(|name| !name.starts_with(char::is_uppercase));
    let left: Vec<&str> = commands.filter(|name| !tried.contains(name)).collect();
    assert_eq!(left, NOT_TRIED);
}

#[test]
fn check_lists_the_errors_of_a_manifest_as_json() {
    let project = Project::of_clips(&["a"], "\n[stage.voice]\nuse = \"audio.resampel\"\n");
    let output = project.output(&["check", ".", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(differences("check", &told, &shapes()["check --json"], &shapes()), [""; 0]);
    assert_eq!(told["valid"], false);
    let first = &told["problems"][0];
    let line = project.text("pipeline.toml").lines().position(|line| line.contains("resampel"));
    assert_eq!(first["line"].as_u64(), line.map(|line| line as u64 + 1), "{told}");
    assert_eq!(first["severity"], "error");
}

#[test]
fn why_tells_the_old_and_the_new_value_of_a_field_as_json() {
    let voice = "\n[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\nrate = 8000\n";
    let project = Project::of_clips(&["a", "b"], voice);
    assert_eq!(project.run().code, Some(0));
    project.write("data/wavs/a.wav", throstle_tests::wav(7));
    let told = |arguments: &[&str]| -> Value {
        serde_json::from_str(&project.printed(arguments)).unwrap()
    };
    assert_eq!(told(&["why", "clips", "--json"])["verdict"], "dirty");
    assert_eq!(project.run().code, Some(0));
    let voice = told(&["why", "voice", "a", "--json"]);
    assert_eq!((&voice["verdict"], &voice["item"]["state"]), (&"fresh".into(), &"changed".into()));
    let field = &voice["item"]["fields"][0];
    assert_eq!((&field["name"], &field["is_read"]), (&"audio".into(), &true.into()), "{voice}");
    assert_ne!(field["old"], field["new"]);
    assert_eq!(told(&["why", "voice", "b", "--json"])["item"]["state"], "same");
}
