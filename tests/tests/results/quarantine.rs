//! A stage that has quarantined more than it may.

use std::collections::BTreeSet;

use camino::Utf8Path;
use engine::manifest::{FileKind, LoadOptions, load};
use engine::pipeline::Tolerance;
use serde_json::Value;
use throstle_tests::{Project, RanProgram, command, write_clips};

const MANIFEST: &str = r#"
[pipeline]
name = "strict"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text"]
command = "case {text} in *bad*) exit 3;; esac; echo {text} > {out.words}"
outputs = { words = "words.txt" }
quarantine = 0.2

[stage.summary]
use = "report.summary"
input = "words"
export = "out/summary.json"
"#;

/// One of four is bad, where one of five may be.
fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "bad", "c", "d"]);
    project
}

fn throstle(project: &Project, arguments: &[&str]) -> RanProgram {
    RanProgram::of(command("small_world", project.path(), arguments).output().unwrap())
}

#[test]
fn it_fails_again_although_every_item_is_known() {
    let project = project();
    for executed in [4, 0] {
        let ran = throstle(&project, &["run", ".", "--json"]);
        assert_eq!(ran.code, Some(1), "{:?}", ran.last());
        assert_eq!(ran.executed_in_any_case().get("words").copied().unwrap_or(0), executed);
        let failed = ran.all("stage-failed");
        let message = failed[0]["message"].as_str().unwrap();
        assert!(
            message.starts_with("1 of 4 items of `clips` were quarantined, more than 20 %"),
            "{message}"
        );
        let help = failed[0]["help"].as_str().unwrap();
        assert!(help.contains("allow them with `quarantine = \"25%\"`"), "{help}");
        assert!(!project.file("out/summary.json").exists());
    }
    let why = command("small_world", project.path(), &["why", "words"]).output().unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("1 of 4 items are quarantined, more than the stage allows"), "{why}");
}

#[test]
fn with_a_wider_limit_it_is_done_without_work_and_with_a_narrower_it_fails() {
    let project = project();
    assert_eq!(throstle(&project, &["run", ".", "--json"]).code, Some(1));
    project.replace("pipeline.toml", "quarantine = 0.2", "quarantine = 0.25");
    assert_eq!(throstle(&project, &["run", ".", "--json"]).executed(), [("summary", 1)].into());
    throstle(&project, &["run", ".", "--json"]).assert_nothing_done();
    project.replace("pipeline.toml", "quarantine = 0.25", "quarantine = 0.2");
    assert_eq!(throstle(&project, &["run", ".", "--json"]).code, Some(1));
}

/// Clips `0` to `count`, those below `bad` bad, and `limit` as a line of the stage.
fn clips(count: usize, bad: usize, limit: &str) -> Project {
    let project = Project::new(&MANIFEST.replace("quarantine = 0.2", limit));
    let name = |number| format!("{}{number:02}", if number < bad { "bad" } else { "good" });
    let names: Vec<String> = (0..count).map(name).collect();
    write_clips(&project, &names.iter().map(String::as_str).collect::<Vec<_>>());
    project
}

fn failure(ran: &RanProgram) -> String {
    assert_eq!(ran.code, Some(1), "{:?}", ran.last());
    ran.all("stage-failed")[0]["message"].as_str().unwrap().to_owned()
}

#[test]
fn a_minority_of_a_few_items_stops_nothing() {
    for (count, bad) in [(19, 1), (2, 1), (5, 2)] {
        let ran = throstle(&clips(count, bad, ""), &["run", ".", "--json"]);
        assert_eq!(ran.executed()["summary"], 1, "{bad} of {count}");
        assert_eq!(ran.quarantined("words"), bad as u64);
    }
}

#[test]
fn more_than_the_share_and_more_than_a_few_fail_and_so_do_more_than_half() {
    let run = |count, bad| throstle(&clips(count, bad, ""), &["run", ".", "--json"]);
    let both = "4 of 19 items of `clips` were quarantined, more than 5 % and more than 3 items; the first is";
    let message = failure(&run(19, 4));
    assert!(message.starts_with(both), "{message}");
    let message = failure(&run(5, 3));
    let half = "3 of 5 items of `clips` were quarantined, more than half; the first is";
    assert!(message.starts_with(half), "{message}");
    let message = failure(&run(2, 2));
    assert!(
        message.starts_with("all 2 items of `clips` were quarantined; the first is"),
        "{message}"
    );
}

#[test]
fn a_share_that_is_written_is_the_limit_for_one_item_too() {
    let ran = throstle(&clips(19, 1, "quarantine = 0.05"), &["run", ".", "--json"]);
    let message = failure(&ran);
    assert!(
        message.starts_with("1 of 19 items of `clips` were quarantined, more than 5 %;"),
        "{message}"
    );
}

fn listed(project: &Project, stage: &str) -> Vec<Value> {
    let arguments = ["items", stage, "--quarantined", "--format", "jsonl"];
    let output = command("small_world", project.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(rows: &[Value]) -> BTreeSet<&str> {
    rows.iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn a_stage_that_fails_by_its_limit_lists_what_it_set_aside() {
    let project = clips(19, 2, "quarantine = 0.05");
    // A second run quarantines nothing more.
    for _ in 0..2 {
        failure(&throstle(&project, &["run", ".", "--json"]));
        let rows = listed(&project, "words");
        assert_eq!(ids(&rows), ["bad00", "bad01"].into());
        assert_eq!(rows[0]["code"], "command-failed");
        let written = command("small_world", project.path(), &["report", "."]).output().unwrap();
        assert_eq!(written.status.code(), Some(0), "{written:?}");
        let page = project.text("report.html");
        assert!(page.contains("bad01") && page.contains("ended with status 3"), "{page}");
    }
    project.replace("pipeline.toml", "quarantine = 0.05", "quarantine = 0.5");
    assert_eq!(throstle(&project, &["run", ".", "--json"]).code, Some(0));
    assert_eq!(ids(&listed(&project, "words")), ["bad00", "bad01"].into());
}

#[test]
fn items_without_a_verdict_are_listed_as_well() {
    let project = clips(4, 0, "quarantine = 0\ntimeout = \"100ms\"");
    project.replace("pipeline.toml", "exit 3;; esac;", "exit 3;; *02.) sleep 60;; esac;");
    failure(&throstle(&project, &["run", ".", "--json"]));
    let rows = listed(&project, "words");
    let found = rows.iter().find(|row| row["id"] == "good02");
    assert_eq!(found.map(|row| &row["code"]), Some(&"timed-out".into()), "{rows:?}");
}

#[test]
fn a_source_that_fails_by_its_limit_lists_what_it_set_aside() {
    let project = clips(3, 0, "");
    for name in ["good00", "good01", "good02"] {
        project.remove(&format!("data/wavs/{name}.wav"));
    }
    let message = failure(&throstle(&project, &["run", ".", "--json"]));
    assert!(message.starts_with("all 3 items were quarantined"), "{message}");
    let rows = ["metadata.csv:1", "metadata.csv:2", "metadata.csv:3"];
    assert_eq!(ids(&listed(&project, "clips")), rows.into());
}

#[test]
fn a_sound_under_two_names_is_left_out_of_validation_by_name_and_is_no_fault() {
    let sides = "\n[stage.sides]\nuse = \"dataset.split\"\ninput = \"clips\"\nfraction = 0.5\n";
    let names: Vec<String> = (0..12).map(|at| format!("c{at:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let project = Project::of_clips(&names, sides);
    // Each sound under two names.
    for pair in names.chunks(2) {
        project.write(
            &format!("data/wavs/{}.wav", pair[1]),
            project.read(&format!("data/wavs/{}.wav", pair[0])),
        );
    }
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    let left_out = ran.all("item-quarantined");
    assert!(left_out.len() > 1, "more than the limit of faults: {:?}", ran.events);
    let listed =
        |port: &str| project.printed(&["items", port, "--format", "csv", "--fields", "id"]);
    let (training, validation) = (listed("sides.training"), listed("sides.validation"));
    for event in left_out {
        let (item, reason) = (event["item"].as_str().unwrap(), event["reason"].as_str().unwrap());
        let original = reason.split('`').nth(1).unwrap();
        assert!(
            reason.ends_with("which is in training") && training.contains(original),
            "{reason}"
        );
        assert!(!validation.contains(item) && !training.contains(item), "{item}");
    }
}

/// Sentences to speak, and texts of clips, through the same kinds of stages.
const SPEECH: &str = r#"
[pipeline]
name = "speech"

[assets.files]
path = "models/voice"

[stage.model]
use = "model.import"
asset = "assets.files"

[stage.lines]
use = "corpus.sentences"
sentences = ["a"]

[stage.read]
use = "text.normalize"
input = "lines"

[stage.spoken]
use = "vits.synthesize"
input = "read"
model = "model"
export = "out/{id}.wav"

[stage.each]
use = "model.audition"
input = "read"
models = ["model"]

[stage.compared]
use = "vits.synthesize"
input = "each"
export = "out/compared/{id}.wav"

[stage.clips]
use = "corpus.folder"
folder = "data/wavs"

[stage.texts]
use = "text.normalize"
input = "clips"

[stage.repeated]
use = "vits.synthesize"
input = "texts"
model = "model"
export = "out/repeated/{id}.wav"
"#;

#[test]
fn only_the_sentences_of_a_person_count_one_by_one() {
    let limits = |manifest: &str| {
        let files = |path: &Utf8Path| match path.extension() {
            Some(_) => FileKind::File,
            None => FileKind::Folder,
        };
        let (file, options) = (Utf8Path::new("home/speech.toml"), LoadOptions::default());
        let loaded = load(manifest, file, &stage_speech::catalogue(), &options, &files);
        let pipeline = loaded.unwrap().pipeline;
        let limit = |stage: &str| pipeline.find(stage).map(|spec| spec.policy.quarantine);
        ["lines", "read", "spoken", "compared", "texts", "repeated"].map(limit)
    };
    let (usual, each) = (Some(Tolerance::Usual), Some(Tolerance::Each));
    assert_eq!(limits(SPEECH), [usual, each, each, usual, usual, usual]);
    let accepted = SPEECH.replacen("model = \"model\"", "model = \"model\"\nquarantine = 0.4", 1);
    let share = Some(Tolerance::Share(0.4));
    assert_eq!(limits(&accepted), [usual, each, share, usual, usual, usual]);
}
