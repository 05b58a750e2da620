//! `run` and `plan`: selected stages, places, and results.

use serde_json::Value;
use throstle_tests::{Project, RanProgram, write_clips};

use crate::small::{done, project};

#[test]
fn a_run_ends_with_0_and_its_last_line_counts_every_stage() {
    let project = project();
    let output = project.output(&["run", ".", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let ran = RanProgram::of(output);
    let last = ran.last().as_object().unwrap();
    let keys: Vec<&str> = last.keys().map(String::as_str).collect();
    assert_eq!(keys, ["event", "status", "stages", "seconds"]);
    assert_eq!((&last["event"], &last["status"]), (&"finished".into(), &"done".into()));
    let stages: Vec<&str> =
        last["stages"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(stages, ["clips", "summary", "words"]);
    for counts in last["stages"].as_object().unwrap().values() {
        let keys: Vec<&str> = counts.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["executed", "reused", "quarantined", "seconds"]);
    }
    assert_eq!(project.text("out/a.txt").trim(), "2");
}

/// Items that wait for a thread do not count: with one thread, a stage took no longer than the run.
#[test]
fn the_seconds_of_a_stage_are_those_of_its_threads() {
    let project = project();
    project.replace("pipeline.toml", "printf %s {text}", "sleep 0.2; printf %s {text}");
    let ran = RanProgram::of(project.output(&["run", ".", "--json", "--threads", "1"]));
    let seconds = |value: &Value| value["seconds"].as_f64().unwrap();
    let stage = seconds(&ran.last()["stages"]["words"]);
    assert!((1.0..=seconds(ran.last())).contains(&stage), "{stage} {}", ran.last());
}

#[test]
fn for_people_a_run_writes_to_standard_error_alone() {
    let project = project();
    let output = project.output(&["run"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert!(told.contains("words: done, 5 executed") && told.contains("\ndone in "), "{told}");
    assert!(!told.contains('\u{1b}'), "no colours where nobody looks: {told:?}");
    let again = String::from_utf8(project.output(&["run"]).stderr).unwrap();
    assert!(again.starts_with("nothing to do: 7 reused"), "{again}");
}

#[test]
fn a_plan_is_one_json_object_and_executes_nothing() {
    let project = project();
    let plan: Value = serde_json::from_str(&project.printed(&["plan", "--json"])).unwrap();
    assert_eq!(plan["event"], "plan");
    assert!(plan["seconds"].is_number());
    let words = &plan["stages"]["words"];
    assert_eq!((&words["verdict"], &words["executed"]), (&"dirty".into(), &5.into()));
    assert_eq!(words["reasons"], serde_json::json!(["never finished before"]));
    assert_eq!(plan["stages"]["summary"]["verdict"], "unknown");
    assert!(!project.file("out").exists());
    assert_eq!(project.run().executed()["words"], 5);
}

#[test]
fn a_manifest_may_be_named_and_lie_elsewhere() {
    let project = project();
    std::fs::rename(project.file("pipeline.toml"), project.file("other.toml")).unwrap();
    let output = project.output(&["run", "other.toml", "--json"]);
    assert_eq!(RanProgram::of(output).executed()["words"], 5);
    let elsewhere = tempfile::tempdir().unwrap();
    let file = project.file("other.toml").into_os_string().into_string().unwrap();
    let arguments = ["run", &file, "--json"];
    let output = throstle_tests::command("throstle", elsewhere.path(), &arguments).output();
    RanProgram::of(output.unwrap()).assert_nothing_done();
    assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0, "nothing is left where it began");
}

#[test]
fn the_cache_may_lie_elsewhere() {
    let project = project();
    let elsewhere = tempfile::tempdir().unwrap();
    let cache = elsewhere.path().join("cache").into_os_string().into_string().unwrap();
    let run = || RanProgram::of(project.output(&["run", ".", "--json", "--cache", &cache]));
    assert_eq!(run().executed()["words"], 5);
    assert!(!project.file(".throstle").exists());
    run().assert_nothing_done();
}

#[test]
fn named_stages_run_with_what_they_need_and_nothing_else() {
    let project = project();
    let ran = RanProgram::of(project.output(&["run", ".", "words", "--json"]));
    assert_eq!(ran.executed(), [("clips", 1), ("words", 5)].into());
    assert!(!project.file("out/summary.json").exists());
    assert_eq!(project.run().executed(), [("summary", 1)].into());
}

#[test]
fn a_value_set_on_the_command_line_is_a_change_like_any_other() {
    let project = done();
    let set = ["run", ".", "--json", "--set", "stage.words.command=echo {text} > {out.words}"];
    assert_eq!(RanProgram::of(project.output(&set)).executed()["words"], 5);
    assert_eq!(project.text("out/a.txt"), "Sana a.\n");
    assert_eq!(project.run().executed(), [].into(), "what it was before is still known");
    assert_eq!(project.text("out/a.txt").trim(), "2");
}

/// One stage that fails, and two in a row that do not depend on it.
const FAILING: &str = r#"
[pipeline]
name = "failing"

[stage.bad]
use = "command.once"
command = "echo broken pieces >&2; exit 3"
outputs = { never = "never.txt" }

[stage.below]
use = "report.summary"
input = "listed"
artifacts = ["bad"]
export = "out/below.json"

[stage.listed]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.counted]
use = "command.once"
input = "listed"
fields = ["text"]
command = "wc -l < {items} > {out.lines}"
outputs = { lines = "lines.txt" }
export = "out/lines.txt"
"#;

fn failing() -> Project {
    let project = Project::new(FAILING);
    write_clips(&project, &["a", "b"]);
    project
}

#[test]
fn a_failed_stage_ends_the_run_with_1_and_says_why() {
    let project = failing();
    let output = project.output(&["run"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    assert!(told.contains("bad: failed: the command ended with status 3; it said: broken pieces"));
    assert!(told.contains("failed in bad after "), "{told}");
    let ran = project.run();
    assert_eq!((ran.code, &ran.last()["status"]), (Some(1), &"failed".into()));
}

#[test]
fn with_keep_going_what_does_not_depend_on_a_failed_stage_is_done() {
    let project = failing();
    let ran = RanProgram::of(project.output(&["run", ".", "--keep-going", "--json"]));
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.executed_in_any_case(), [("listed", 1), ("counted", 1)].into());
    assert_eq!(project.text("out/lines.txt").trim(), "2");
    assert!(!project.file("out/below.json").exists());
    project.replace("pipeline.toml", "exit 3", "echo whole > {out.never}");
    assert_eq!(project.run().executed(), [("bad", 1), ("below", 1)].into());
}

#[test]
fn a_wrong_manifest_or_argument_is_2_and_leaves_nothing_behind() {
    let project = project();
    project.replace("pipeline.toml", "report.summary", "report.sumary");
    let cases: [&[&str]; 5] =
        [&["run", ".", "--json"], &["plan"], &["check"], &["run", "nowhere"], &["fly"]];
    for arguments in cases {
        let output = project.output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    assert!(!project.file(".throstle").exists() && !project.file("out").exists());
    project.replace("pipeline.toml", "report.sumary", "report.summary");
    let errors = project.output(&["run", ".", "wrds"]);
    assert_eq!(errors.status.code(), Some(2));
    let errors = String::from_utf8(errors.stderr).unwrap();
    assert!(errors.contains("no stage `wrds`") && errors.contains("`words`"), "{errors}");
}

#[test]
fn an_export_folder_that_cannot_be_written_fails_once_a_stage_and_costs_no_work() {
    let project = project();
    project.write("out", "a file where a folder should be");
    let ran = project.run();
    assert_eq!((ran.code, &ran.last()["status"]), (Some(1), &"failed".into()));
    let failed = ran.all("stage-failed");
    let stages: Vec<&Value> = failed.iter().map(|event| &event["stage"]).collect();
    assert_eq!(stages, ["words", "summary"]);
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.starts_with("cannot export to `out/a.txt`: "), "{message}");
    assert!(message.ends_with("; 4 more of its files cannot be written"), "{message}");
    project.remove("out");
    assert_eq!(project.run().executed(), [].into());
    assert_eq!(project.names("out").len(), 6);
}

const JOINED: &str = r#"
[pipeline]
name = "joined"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.joined]
use = "command.once"
input = "clips"
fields = ["audio"]
command = "sed 's/.*\"audio\":\"//; s/\".*//' {items} | xargs cat > {out.all}"
outputs = { all = "all.bin" }
export = "out/all.bin"

[stage.speakers]
use = "speaker.stats"
input = "clips"
export = { report = "out/speakers.json" }
"#;

#[test]
fn a_command_reads_every_item_of_many_under_its_own_name() {
    let project = Project::new(JOINED);
    let names: Vec<String> = (0..100).map(|number| format!("clip{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    write_clips(&project, &names);
    let all = || -> Vec<u8> {
        names.iter().flat_map(|name| project.read(&format!("data/wavs/{name}.wav"))).collect()
    };
    assert_eq!(project.run().executed()["joined"], 1);
    assert!(project.read("out/all.bin") == all(), "the clips in their order");
    project.write("data/wavs/clip050.wav", throstle_tests::wav(77));
    assert_eq!(project.run().executed()["joined"], 1);
    assert!(project.read("out/all.bin") == all(), "the changed clip among them");
}

#[test]
fn a_sum_over_a_changed_data_set_is_what_a_run_from_nothing_gives() {
    let project = Project::new(JOINED);
    write_clips(&project, &["a", "b", "c", "d"]);
    project.run();
    let first = project.text("out/speakers.json");
    project.replace("data/metadata.csv", "Sana c.|aino", "Sana joka on uusi.|eero");
    assert_eq!(project.run().executed(), [("clips", 1), ("speakers", 1)].into());
    let changed = project.text("out/speakers.json");
    assert_ne!(first, changed);
    std::fs::remove_dir_all(project.file(".throstle")).unwrap();
    project.run();
    assert_eq!(project.text("out/speakers.json"), changed);
}

#[test]
fn a_run_too_short_to_do_anything_says_so() {
    let project = project();
    // The source is read even if the time limit is over.
    project.printed(&["run", ".", "clips"]);
    let output = project.output(&["run", "--stop-after", "1ms"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(75), "{told}");
    assert!(told.contains("no work finished within the time limit"), "{told}");
    let output = project.output(&["run", "--stop-after", "1h"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !told.contains("no work finished"), "{told}");
}
