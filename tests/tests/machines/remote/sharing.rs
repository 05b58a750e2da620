//! Results of one machine are not computed again on another.

use std::collections::BTreeMap;

use throstle_tests::{Project, wav};

use super::machines::{MANIFEST, Shared, another, first, json, machine, run, run_with, warnings};

/// Large objects that are in the cache of a machine.
fn large_objects(project: &Project) -> usize {
    if !project.file(".throstle/objects").is_dir() {
        return 0;
    }
    project.files(".throstle/objects").len()
}

#[test]
fn a_second_machine_executes_nothing_and_exports_the_same_bytes() {
    let shared = Shared::new();
    let one = first(&shared);
    let other = another(&one);
    let ran = run(&other, &shared);
    assert_eq!(ran.executed(), BTreeMap::new());
    assert_eq!(warnings(&ran), Vec::<String>::new());
    assert_eq!(other.files("out"), one.files("out"));
    assert_eq!((ran.reused("words"), ran.reused("voice")), (5, 5));
}

#[test]
fn one_changed_clip_on_the_second_machine_is_all_of_its_work() {
    let shared = Shared::new();
    let one = first(&shared);
    let other = another(&one);
    other.write("data/wavs/c.wav", wav(9_000));
    let ran = run(&other, &shared);
    let expected = [("clips", 1), ("large", 1), ("words", 1), ("voice", 1), ("summary", 1)];
    assert_eq!(ran.executed().get("voice"), Some(&1));
    for (stage, count) in ran.executed() {
        assert!(expected.contains(&(stage, count)), "{stage}: {count}");
    }
    // Both machines end with what one alone would have made.
    let alone = another(&other);
    run_with(&alone, &[]);
    assert_eq!(other.files("out"), alone.files("out"));
    // The first machine gets the changed results.
    one.write("data/wavs/c.wav", wav(9_000));
    assert_eq!(run(&one, &shared).executed(), BTreeMap::new());
    assert_eq!(one.files("out"), alone.files("out"));
}

#[test]
fn with_nothing_to_do_no_request_is_made() {
    let shared = Shared::new();
    let one = first(&shared);
    let other = another(&one);
    run(&other, &shared);
    let address = shared.url();
    let gone = shared.path().with_extension("gone");
    std::fs::rename(shared.path(), &gone).unwrap();
    for project in [&one, &other] {
        let ran = run_with(project, &["--remote", &address]);
        ran.assert_nothing_done();
        assert_eq!(warnings(&ran), Vec::<String>::new());
    }
    std::fs::rename(&gone, shared.path()).unwrap();
}

#[test]
fn only_what_is_read_comes_and_a_pull_brings_the_rest() {
    let shared = Shared::new();
    let one = first(&shared);
    let other = another(&one);
    run(&other, &shared);
    assert_eq!(large_objects(&other), 0);
    let pulled = json(&other, &["pull", ".", "large", "--remote", &shared.url()]);
    assert_eq!((&pulled["objects"], &pulled["bytes"]), (&5.into(), &10_000_000.into()));
    assert_eq!(large_objects(&other), 5);
    // What is left of the other stages.
    json(&other, &["pull", "--remote", &shared.url()]);
    let again = json(&other, &["pull", "--remote", &shared.url()]);
    assert_eq!(again["objects"], 0, "{again}");
    assert!(other.printed(&["cache", "verify"]).contains("nothing is damaged"));
}

#[test]
fn a_pull_before_any_run_is_enough_to_work_without_the_remote() {
    let shared = Shared::new();
    let one = first(&shared);
    let other = another(&one);
    let pulled = json(&other, &["pull", "--remote", &shared.url()]);
    assert_eq!(pulled["open"], serde_json::json!([]), "{pulled}");
    let ran = run_with(&other, &[]);
    assert_eq!(ran.executed(), BTreeMap::new());
    assert_eq!(other.files("out"), one.files("out"));
}

#[test]
fn without_the_remote_objects_that_never_came_are_planned_and_made_again() {
    let shared = Shared::new();
    let one = first(&shared);
    let other = another(&one);
    run(&other, &shared);
    let output = "outputs = { large = \"large.bin\" }\n";
    let export = format!("{output}export = \"out/{{id}}.bin\"\n");
    other.write("pipeline.toml", MANIFEST.replace(output, &export));
    // Of their objects, only those that were read are here.
    let plan = json(&other, &["plan", "--remote", "none"]);
    assert_eq!(plan["stages"]["large"]["executed"], 5, "{plan}");
    let reasons = plan["stages"]["large"]["reasons"].to_string();
    assert!(reasons.contains("is missing or damaged"), "{plan}");
    let ran = run_with(&other, &["--remote", "none"]);
    assert_eq!(ran.executed()["large"], 5);
    assert_eq!(ran.all("damaged").len(), 0, "{:?}", ran.events);
    assert_eq!(other.files("out").len(), one.files("out").len() + 5);
}

#[test]
fn a_push_changes_nothing_for_other_folders_on_the_same_cache() {
    let shared = Shared::new();
    let project = first(&shared);
    let other = another(&project);
    let cache = project.file(".throstle");
    let arguments = ["--cache", cache.to_str().unwrap(), "--remote", "none"];
    assert_eq!(run_with(&other, &arguments).executed(), BTreeMap::new());
}

#[test]
fn the_manifest_or_the_environment_names_the_remote_and_none_switches_it_off() {
    let shared = Shared::new();
    first(&shared);
    let remote = format!("[remote]\nurl = \"{}\"\npush = \"never\"\n{MANIFEST}", shared.url());
    let other = machine(&remote);
    assert_eq!(run_with(&other, &[]).executed(), BTreeMap::new());
    let off = machine(&remote);
    assert_eq!(run_with(&off, &["--remote", "none"]).executed()["words"], 5);
    let by_variable = machine(MANIFEST);
    let mut command = by_variable.throstle(&["run", ".", "--json"]);
    let output = command.env("THROSTLE_REMOTE", shared.url()).output().unwrap();
    assert_eq!(throstle_tests::RanProgram::of(output).executed(), BTreeMap::new());
}

#[test]
fn a_machine_that_never_pushes_writes_nothing_until_it_is_told_to() {
    let shared = Shared::new();
    let written = format!("[remote]\nurl = \"{}\"\npush = \"never\"\n{MANIFEST}", shared.url());
    let one = machine(&written);
    run_with(&one, &[]);
    assert!(shared.files("").is_empty());
    let pushed = json(&one, &["push"]);
    assert_eq!((&pushed["outcomes"], &pushed["logs"]), (&5.into(), &1.into()), "{pushed}");
    assert!(one.printed(&["push"]).contains("is up to date"));
    // Results that were pushed alone are also found item by item.
    let other = machine(MANIFEST);
    other.write("data/wavs/c.wav", wav(9_000));
    assert_eq!(run(&other, &shared).executed()["voice"], 1);
}

#[test]
fn a_push_writes_nothing_that_a_copy_or_another_machine_has_brought() {
    let shared = Shared::new();
    let one = first(&shared);
    let copy = Shared::new();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([shared.path().join("."), copy.path().to_owned()])
        .status();
    assert!(copied.unwrap().success());
    let before = copy.files("");
    let told = one.printed(&["push", "--remote", &copy.url()]);
    assert!(told.contains("is up to date"), "{told}");
    assert_eq!(copy.files(""), before);
    // The same results, made on another machine.
    let other = machine(MANIFEST);
    run_with(&other, &[]);
    let pushed = json(&other, &["push", "--remote", &copy.url()]);
    let counts = ["objects", "records", "outcomes"].map(|what| pushed[what].clone());
    assert_eq!(counts, [0, 0, 0].map(serde_json::Value::from), "{pushed}");
    let is_log = |path: &std::path::PathBuf| path.starts_with(copy.path().join("logs"));
    let (logs, files): (Vec<_>, Vec<_>) = copy.files("").into_iter().partition(is_log);
    assert_eq!(files, before.iter().filter(|path| !is_log(path)).cloned().collect::<Vec<_>>());
    assert_eq!(logs.len(), 2);
    assert!(other.printed(&["push", "--remote", &copy.url()]).contains("is up to date"));
}

#[test]
fn many_small_objects_travel_in_few_files() {
    let shared = Shared::new();
    let names: Vec<String> = (0..300).map(|number| format!("clip{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let manifest = MANIFEST.split("[stage.large]").next().unwrap();
    let one = Project::new(manifest);
    throstle_tests::write_clips(&one, &names);
    assert_eq!(run(&one, &shared).executed()["words"], 300);
    let files = shared.files("");
    assert!(files.len() < 20, "{files:?}");
    let other = another(&one);
    assert_eq!(run(&other, &shared).executed(), BTreeMap::new());
    assert_eq!(other.files("out"), one.files("out"));
}

#[test]
fn another_result_under_the_same_key_is_told_and_the_first_stays() {
    let shared = Shared::new();
    let drawn =
        MANIFEST.replace("printf %s {text} | wc -w", "head -c 8 /dev/urandom | od -An -tx1");
    let (one, other) = (machine(&drawn), machine(&drawn));
    run(&one, &shared);
    run_with(&other, &[]);
    assert_ne!(one.files("out"), other.files("out"));
    let results = || {
        shared.files("results").iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    let before = results();
    let output = other.output(&["push", "--remote", &shared.url()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("stage `words` is not reproducible"), "{told}");
    assert_eq!(results().iter().filter(|result| before.contains(result)).count(), before.len());
    let third = machine(&drawn);
    assert_eq!(run(&third, &shared).executed(), BTreeMap::new());
    assert_eq!(third.files("out"), one.files("out"));
}

#[test]
fn machines_that_run_at_once_with_one_remote_end_alike() {
    let shared = Shared::new();
    let machines: Vec<Project> = (0..3).map(|_| machine(MANIFEST)).collect();
    let started: Vec<_> = machines
        .iter()
        .map(|project| {
            let mut command = project.throstle(&["run", ".", "--remote", &shared.url()]);
            command.stderr(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }
    let late = machine(MANIFEST);
    assert_eq!(run(&late, &shared).executed(), BTreeMap::new());
    for project in &machines {
        assert_eq!(project.files("out"), late.files("out"));
    }
}
