//! A stage that has set aside more than it may.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

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
        assert!(message.starts_with("1 of 4 items were quarantined, more than 20 %"), "{message}");
        assert!(!project.file("out/summary.json").exists());
    }
    let why = command("small_world", project.path(), &["why", "words"]).output().unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("1 of 4 items are quarantined, more than the stage may"), "{why}");
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
