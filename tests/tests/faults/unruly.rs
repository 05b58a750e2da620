//! Stages that print, end their process or overflow its stack: finished work is kept, half-finished
//! work is never seen, and such a run never counts as done.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use serde_json::Value;
use throstle_tests::{Project, RanProgram, command};

const MANIFEST: &str = r#"
[pipeline]
name = "unruly"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.before]
use = "test.twice"
input = "lines"
export = "out/before/{id}.txt"

[stage.unruly]
use = "test.unruly"
input = "lines"
quarantine = 0.9
export = "out/{id}.txt"

[stage.join]
use = "test.join"
input = "unruly"
export = "out/all.txt"
"#;

/// Four good items and, as the last one, an item with this text.
fn project(text: &str) -> Project {
    let project = Project::new(MANIFEST);
    for name in ["a", "b", "c", "d"] {
        project.write(&format!("data/{name}.txt"), format!("a long text of {name}"));
    }
    project.write("data/e.txt", text);
    project
}

fn run(project: &Project) -> Output {
    let arguments = ["run", ".", "--json", "--threads", "1"];
    command("small_world", project.path(), &arguments).output().unwrap()
}

/// Every printed line is an event, and none is `finished`.
fn assert_unfinished(output: &Output) {
    let told = String::from_utf8(output.stdout.clone()).unwrap();
    for line in told.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_ne!(event["event"], "finished", "{told}");
    }
}

/// The next run, with the item repaired, ends like an undisturbed one.
fn assert_goes_on(project: &Project) {
    project.write("data/e.txt", "mended");
    let ran = RanProgram::of(run(project));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let other = self::project("mended");
    assert_eq!(RanProgram::of(run(&other)).code, Some(0));
    assert_eq!(project.names("out"), other.names("out"));
    assert_eq!(project.files("out/before"), other.files("out/before"));
    assert_eq!(project.text("out/all.txt"), other.text("out/all.txt"));
    let verify = command("small_world", project.path(), &["cache", "verify"]).output().unwrap();
    assert_eq!(verify.status.code(), Some(0), "{verify:?}");
}

#[test]
fn what_a_stage_prints_comes_out_on_standard_error() {
    let project = project("print");
    let ran = RanProgram::of(run(&project));
    assert_eq!(ran.executed()["unruly"], 5);
    assert_eq!(ran.all("finished").len(), 1);
    assert!(ran.errors.contains("and no end of line"), "{ran:?}");
    assert!(ran.errors.contains("printed while a stage was opened"), "{ran:?}");
    assert_eq!(project.text("out/e.txt"), "print");
}

#[test]
fn a_panic_costs_its_item_and_nothing_of_it_is_printed() {
    let project = project("panic");
    let ran = RanProgram::of(run(&project));
    assert_eq!((ran.executed()["unruly"], ran.quarantined("unruly")), (5, 1), "{ran:?}");
    let set_aside = ran.all("item-quarantined");
    assert_eq!(set_aside[0]["reason"], "the stage panicked: told to \\u{1b}[2J");
    assert!(!ran.errors.contains("panicked"), "{ran:?}");
    assert_goes_on(&project);
}

#[test]
fn a_stage_that_calls_exit_does_not_look_like_success() {
    let project = project("exit");
    let output = run(&project);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("a stage ended the program by calling `exit`"), "{told}");
    assert_unfinished(&output);
    assert_goes_on(&project);
}

#[test]
fn an_abort_ends_the_run_by_a_signal_and_the_next_one_goes_on() {
    for text in ["abort", "overflow"] {
        let project = project(text);
        let output = run(&project);
        assert_eq!(output.status.code(), None, "{text}: {output:?}");
        assert_eq!(output.status.signal(), Some(nix::libc::SIGABRT), "{text}");
        assert_unfinished(&output);
        assert_goes_on(&project);
    }
}
