//! Where exported files may stand, and that those which nobody wants any more go.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use throstle_tests::{Project, RanProgram, write_clips};

const MANIFEST: &str = r#"
[pipeline]
name = "exports"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text"]
command = "printf %s {text} > {out.words}"
outputs = { words = "words.txt" }
export = "out/words/{id}.txt"

[stage.summary]
use = "report.summary"
input = ["clips", "words"]
export = "out/summary.json"
"#;

fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b"]);
    project
}

fn done() -> Project {
    let project = project();
    assert_eq!(project.run().code, Some(0));
    project
}

fn removed(ran: &RanProgram, stage: &str) -> u64 {
    let of_stage = |event: &&serde_json::Value| event["stage"] == stage;
    let events = ran.all("exported").into_iter().filter(of_stage);
    events.map(|event| event["removed"].as_u64().unwrap()).sum()
}

#[test]
fn files_of_another_path_go_when_the_new_ones_stand() {
    let project = done();
    project.replace("pipeline.toml", "out/words/{id}.txt", "out/{speaker}/{id}.txt");
    let ran = project.run();
    assert_eq!((ran.executed(), removed(&ran, "words")), ([].into(), 2));
    assert_eq!(project.names("out"), ["aino", "summary.json"]);
    project.run().assert_nothing_done();
}

#[test]
fn files_of_a_stage_that_is_gone_go_with_it() {
    let project = done();
    project.edit("pipeline.toml", |text| text.split("[stage.summary]").next().unwrap().to_owned());
    assert_eq!(removed(&project.run(), "summary"), 1);
    assert_eq!(project.names("out"), ["words"]);
    project.write("pipeline.toml", MANIFEST);
    assert_eq!(project.run().executed(), [].into(), "its result is still known");
    assert_eq!(project.names("out"), ["summary.json", "words"]);
}

#[test]
fn files_that_somebody_has_edited_or_another_export_writes_stay() {
    let project = done();
    project.remove("out/words/a.txt");
    project.write("out/words/a.txt", "my own");
    // The same path, spelt in another way.
    project.replace("pipeline.toml", "out/summary.json", "./out//summary.json");
    project.edit("pipeline.toml", |text| text.replace("export = \"out/words/{id}.txt\"", ""));
    assert_eq!(removed(&project.run(), "words"), 1);
    assert_eq!(project.names("out/words"), ["a.txt"]);
    assert_eq!(project.text("out/words/a.txt"), "my own");
    assert!(project.file("out/summary.json").exists());
}

#[test]
fn a_run_of_some_stages_takes_nothing_back() {
    let project = done();
    project.edit("pipeline.toml", |text| text.replace("export = \"out/summary.json\"", ""));
    let ran = RanProgram::of(project.output(&["run", ".", "words", "--json"]));
    ran.assert_nothing_done();
    assert!(project.file("out/summary.json").exists());
}

#[test]
fn a_link_that_leads_out_of_the_project_is_not_followed() {
    let project = project();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), project.file("out")).unwrap();
    let ran = project.run();
    let failed = ran.all("stage-failed");
    assert_eq!((ran.code, failed.len()), (Some(1), 2), "{ran:?}");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("a symbolic link on the way leads out"), "{message}");
    assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0);
}

#[test]
fn a_link_within_the_project_is_followed() {
    let project = project();
    std::fs::create_dir(project.file("made")).unwrap();
    std::os::unix::fs::symlink("made", project.file("out")).unwrap();
    assert_eq!(project.run().code, Some(0));
    assert_eq!(project.names("made"), ["summary.json", "words"]);
    project.run().assert_nothing_done();
}

#[test]
fn no_export_leads_into_the_cache_wherever_it_lies() {
    let project = project();
    let refused = project.output(&["run", ".", "--cache", "out"]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("would export into the cache folder"), "{told}");
    // What comes from the data is known only when it is exported.
    project.replace("pipeline.toml", "out/words/{id}.txt", "{speaker}/{id}/objects");
    project.replace("data/metadata.csv", "aino", "kept");
    let arguments = ["run", ".", "--json", "--cache", "kept"];
    let ran = RanProgram::of(project.output(&arguments));
    assert_eq!(ran.code, Some(1));
    let failed = ran.all("stage-failed");
    assert!(failed[0]["message"].as_str().unwrap().contains("it leads into the cache"), "{ran:?}");
    assert!(!project.file("kept/a").exists());
}
