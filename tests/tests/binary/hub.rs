//! Models of `hf://`, which the program `hf` fetches. A script takes its place.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use throstle_tests::{Project, RanProgram, Running, command, voice};

const FIRST: &str = "1111111111111111111111111111111111111111";
const SECOND: &str = "2222222222222222222222222222222222222222";

/// Takes the place of `hf`: the commit of `main` is in the file `main`, a file `broken` makes it
/// fail, and with a file `slow` it downloads for ever, with a child of its own.
const FAKE: &str = r#"#!/bin/sh
echo "$@" >> "$FAKE_HUB/calls"
cat /proc/[0-9]*/stat 2>/dev/null | grep ") [A-Z] $PPID " | cut -d ' ' -f 1 > "$FAKE_HUB/siblings"
echo $$ > "$FAKE_HUB/own"
test ! -e "$FAKE_HUB/broken" || { echo "the network is down" >&2; exit 1; }
if test -e "$FAKE_HUB/slow"; then
    sleep 600 &
    echo "$$ $!" > "$FAKE_HUB/processes.new"
    mv "$FAKE_HUB/processes.new" "$FAKE_HUB/processes"
    wait
fi
revision=${3#--revision=}
test "$revision" != main || revision=$(cat "$FAKE_HUB/main")
folder=$FAKE_HUB/snapshots/$revision
mkdir -p "$folder"
printf 'the weights' > "$folder/model.bin"
echo "$folder"
"#;

fn project(path: &str) -> Project {
    let project = voice::project(3);
    project.replace("pipeline.toml", "path = \"base.bin\"", &format!("path = \"{path}\""));
    project.write("bin/hf", FAKE);
    std::fs::set_permissions(
        project.file("bin/hf"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    project.write("hub/main", FIRST);
    project
}

fn prepared(project: &Project, arguments: &[&str]) -> Command {
    let path = format!("{}:{}", project.file("bin").display(), std::env::var("PATH").unwrap());
    let mut command = command("small_world", project.path(), arguments);
    command.env("PATH", path).env("FAKE_HUB", project.file("hub"));
    command
}

fn throstle(project: &Project, arguments: &[&str]) -> Output {
    prepared(project, arguments).output().unwrap()
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// True while a process exists that is not dead and waiting for its parent.
fn is_alive(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until `hf` and its child are gone, and lets the next download end.
fn assert_ended(project: &Project) {
    let processes = project.text("hub/processes");
    wait_until(|| !processes.split_whitespace().any(is_alive));
    project.remove("hub/slow");
    project.remove("hub/processes");
    assert_eq!(run(project).code, Some(0), "the next run downloads the model");
}

/// A project with a slow `hf`, and a command in it that has begun to download.
fn downloading(arguments: &[&str]) -> (Project, Running) {
    let project = project("hf://some/model");
    project.write("hub/slow", "");
    let running = Running::start(prepared(&project, arguments));
    let file = project.file("hub/processes");
    wait_until(|| file.exists());
    (project, running)
}

fn run(project: &Project) -> RanProgram {
    RanProgram::of(throstle(project, &["run", ".", "--json"]))
}

fn calls(project: &Project) -> Vec<String> {
    let calls = std::fs::read_to_string(project.file("hub/calls")).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn a_model_comes_down_once_and_stays_at_its_commit() {
    let project = project("hf://some/model");
    let plan = told(&throstle(&project, &["plan", "."]));
    assert!(plan.contains("`hf` downloads `hf://some/model@main` (size unknown)"), "{plan}");
    assert_eq!(calls(&project), [""; 0], "a plan fetches nothing");
    let ran = run(&project);
    assert_eq!((ran.code, ran.executed()["model"]), (Some(0), 1));
    assert_eq!(calls(&project), ["download some/model --revision=main"]);
    project.write("hub/main", SECOND);
    run(&project).assert_nothing_done();
    let plan = told(&throstle(&project, &["plan", "."]));
    assert!(!plan.contains("`hf` downloads"), "{plan}");
    // Somebody has emptied the folder of `hf`: the same commit comes again.
    std::fs::remove_dir_all(project.file("hub/snapshots")).unwrap();
    let plan = told(&throstle(&project, &["plan", "."]));
    assert!(plan.contains("(11 B) before any stage runs"), "{plan}");
    run(&project).assert_nothing_done();
    let again = format!("download some/model --revision={FIRST}");
    assert_eq!(calls(&project), ["download some/model --revision=main", &again]);
}

#[test]
fn another_commit_is_another_model() {
    let project = project(&format!("hf://some/model@{FIRST}"));
    assert_eq!(run(&project).executed()["model"], 1);
    project.replace("pipeline.toml", FIRST, SECOND);
    assert_eq!(run(&project).executed()["model"], 1);
    project.replace("pipeline.toml", SECOND, FIRST);
    run(&project).assert_nothing_done();
}

#[test]
fn a_transfer_that_breaks_off_is_resumed_by_the_next_run() {
    let project = project("hf://some/model");
    project.write("hub/broken", "");
    let output = throstle(&project, &["run", "."]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let text = told(&output);
    assert!(
        text.contains("the network is down") && text.contains("the next run resumes"),
        "{text}"
    );
    project.remove("hub/broken");
    assert_eq!(run(&project).code, Some(0));
    assert_eq!(calls(&project).len(), 2);
}

#[test]
fn without_the_program_a_message_says_how_to_install_it() {
    let project = project("hf://some/model");
    project.remove("bin/hf");
    let mut command = command("small_world", project.path(), &["run", "."]);
    let output = command.env("PATH", project.file("bin")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("pip install -U huggingface_hub"), "{}", told(&output));
    assert!(!project.file(".throstle/hub").exists());
}

#[test]
fn a_name_that_is_none_is_a_mistake_in_the_manifest() {
    let project = project("hf://model");
    let output = throstle(&project, &["check", "."]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("hf://OWNER/NAME@REVISION"), "{}", told(&output));
    assert_eq!(calls(&project), [""; 0]);
}

#[test]
fn a_model_in_the_place_of_an_asset_is_told_where_it_belongs() {
    let project = project("hf://some/model");
    project.replace("pipeline.toml", "\"assets.base\"", "\"hf://some/model\"");
    let output = throstle(&project, &["check", "."]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("add `[assets.model]` with this `path`"), "{}", told(&output));
}

#[test]
fn a_signal_ends_a_download_with_all_its_processes_and_the_next_run_resumes() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (project, running) = downloading(&["run", ".", "--json"]);
        running.send(signal);
        let ran = running.ended();
        assert_eq!((ran.code, &ran.last()["status"]), (Some(75), &"paused".into()), "{signal}");
        let why = ran.all("stopping")[0]["why"].as_str().unwrap().to_owned();
        assert!(why.contains("the next run resumes it"), "{why}");
        assert_ended(&project);
    }
}

#[test]
fn a_time_limit_ends_a_download() {
    let (project, running) = downloading(&["run", ".", "--json", "--stop-after", "4s"]);
    let ran = running.ended();
    assert_eq!((ran.code, &ran.last()["status"]), (Some(75), &"paused".into()), "{}", ran.errors);
    assert_ended(&project);
}

#[test]
fn a_download_does_not_outlive_a_killed_run() {
    let (project, running) = downloading(&["run", ".", "--json"]);
    running.send(Signal::SIGKILL);
    assert_eq!(running.ended().code, None);
    assert_ended(&project);
}

#[test]
fn the_watcher_starts_before_the_first_program() {
    let project = project("hf://some/model");
    assert_eq!(run(&project).code, Some(0));
    let own: u32 = project.text("hub/own").trim().parse().unwrap();
    let siblings: Vec<u32> =
        project.text("hub/siblings").lines().map(|id| id.parse().unwrap()).collect();
    assert_eq!(siblings.len(), 2, "the watcher and `hf`");
    // Process ids grow.
    assert!(siblings.iter().all(|id| *id <= own), "{own} is not the last of {siblings:?}");
}

#[test]
fn a_signal_ends_the_download_of_a_submission() {
    let (project, running) = downloading(&["submit", "."]);
    running.send(Signal::SIGTERM);
    let ran = running.ended();
    assert_eq!(ran.code, Some(75), "{}", ran.errors);
    assert!(ran.errors.contains("the next `throstle submit` resumes it"), "{}", ran.errors);
    assert_ended(&project);
}
