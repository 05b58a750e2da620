//! `history` and `diff`: comparison of runs.

use serde_json::Value;
use throstle_tests::{Project, command};

use super::page::{done, run};

fn printed(project: &Project, arguments: &[&str]) -> String {
    let output = command("small_world", project.path(), arguments).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// A run, and another with one text and one parameter changed.
fn twice() -> Project {
    let project = done(4);
    project.replace("data/metadata.csv", "Lause numero 1,", "Lause numero yksi,");
    project.replace("pipeline.toml", "steps = 60", "steps = 80");
    run(&project);
    project
}

#[test]
fn the_history_names_what_each_run_executed() {
    let history = printed(&twice(), &["history"]);
    let lines: Vec<&str> = history.lines().collect();
    assert_eq!(lines.len(), 3, "{history}");
    for line in &lines[1..] {
        assert!(line.contains("voice") && line.contains("done") && line.contains("more"), "{line}");
    }
}

#[test]
fn two_runs_differ_in_what_was_changed_and_what_it_led_to() {
    let told = printed(&twice(), &["diff", "1", "2"]);
    for expected in [
        "\nclips\n",
        "\n  field `text` of item `clip00001` on `output` changed from \"Lause numero 1,",
        "items: 0 added, 0 removed, 1 changed, 4 the same",
        "parameter `steps` changed from 60 to 80",
        "best held-out loss: 2.5 -> 2.3 (-8.0 %)",
        "\nagain\n",
        "the same: 1 stage",
    ] {
        assert!(told.contains(expected), "nothing of `{expected}` in:\n{told}");
    }
    let back = printed(&twice(), &["diff", "2", "1"]);
    assert!(back.contains("parameter `steps` changed from 80 to 60"), "{back}");
}

#[test]
fn a_run_differs_in_nothing_from_itself() {
    let told = printed(&done(2), &["diff", "1", "1"]);
    assert!(told.ends_with("the same: 8 stages\n") && told.lines().count() == 3, "{told}");
}

#[test]
fn stages_that_only_one_run_had_are_named() {
    let project = done(2);
    project.replace("pipeline.toml", "again", "once_more");
    project.replace("pipeline.toml", "steps = 60", "steps = 80");
    run(&project);
    let told = printed(&project, &["diff", "1", "2", "--json"]);
    let differences = &serde_json::from_str::<Value>(&told).unwrap()["differences"];
    assert_eq!(differences["only_in_old"], serde_json::json!(["again"]));
    assert_eq!(differences["only_in_new"], serde_json::json!(["once_more"]));
    let changed = differences["changed"].as_array().unwrap();
    let changed: Vec<&Value> = changed.iter().map(|change| &change["stage"]).collect();
    assert_eq!(changed, ["model", "auditions", "auditioned"]);
    assert_eq!(differences["same"], 4);
}

#[test]
fn a_run_that_never_was_is_the_fault_of_the_arguments() {
    let project = done(1);
    for arguments in [["diff", "1", "7"], ["report", "--run", "7"]] {
        let output = command("small_world", project.path(), &arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("there is no run 7") && told.contains("throstle log"), "{told}");
    }
}

#[test]
fn a_run_that_failed_is_told_as_such() {
    let project = twice();
    project.replace("pipeline.toml", "quarantine = 0.5", "quarantine = 0");
    let output = command("small_world", project.path(), &["run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = printed(&project, &["diff", "2", "3"]);
    let heads: Vec<&str> = told.lines().take(2).collect();
    assert!(!heads[0].ends_with(", failed") && heads[1].ends_with(", failed"), "{told}");
}
