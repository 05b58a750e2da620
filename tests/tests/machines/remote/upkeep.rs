//! The commands about a remote, and a remote that is missing.

use std::time::{Duration, SystemTime};

use super::machines::{MANIFEST, Shared, another, first, json, machine, run, run_with, warnings};

#[test]
fn a_remote_that_is_away_costs_a_warning_and_not_the_run() {
    let shared = Shared::new();
    let url = format!("{}/not-mounted", shared.url());
    let project = machine(MANIFEST);
    let ran = run_with(&project, &["--remote", &url]);
    assert_eq!(ran.executed()["words"], 5);
    let told = warnings(&ran);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("cannot be used: there is no folder"), "{told:?}");
    assert!(!shared.path().join("not-mounted").exists());
    run_with(&project, &["--remote", &url]).assert_nothing_done();
}

#[test]
fn a_remote_that_is_required_and_away_fails_the_run() {
    let shared = Shared::new();
    let url = format!("{}/not-mounted", shared.url());
    let project = machine(&format!("[remote]\nurl = \"{url}\"\nrequire = true\n{MANIFEST}"));
    let output = project.output(&["run", "."]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("not-mounted") && told.contains("there is no folder"), "{told}");
}

#[test]
fn figures_checks_and_logs_are_shown() {
    let shared = Shared::new();
    let project = first(&shared);
    let remote = ["--remote", &shared.url()];
    let stats = json(&project, &[&["remote", "stats"][..], &remote].concat());
    assert_eq!((&stats["outcomes"], &stats["objects"]), (&5.into(), &5.into()), "{stats}");
    let checked = project.printed(&[&["remote", "verify"][..], &remote].concat());
    assert!(checked.contains("nothing is damaged"), "{checked}");
    let logs = project.printed(&[&["remote", "log"][..], &remote].concat());
    assert_eq!(logs.lines().count(), 1, "{logs}");
    let name = logs.split_whitespace().next().unwrap();
    let log = project.printed(&[&["remote", "log", name][..], &remote].concat());
    assert!(log.lines().last().unwrap().contains("\"finished\""), "{log}");
    let missing = project.output(&[&["remote", "log", "../../x.jsonl"][..], &remote].concat());
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

#[test]
fn commands_about_a_remote_need_one() {
    let project = machine(MANIFEST);
    for arguments in [&["push"][..], &["pull"], &["remote", "stats"]] {
        let output = project.output(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("has no remote"), "{told}");
    }
    let secret = project.output(&["push", "--remote", "https://me:hunter2@example.org/x"]);
    assert_eq!(secret.status.code(), Some(2));
    assert!(!String::from_utf8_lossy(&secret.stderr).contains("hunter2"), "{secret:?}");
}

#[test]
fn remains_of_a_push_that_broke_off_are_not_used_and_are_removed_when_they_are_old() {
    let shared = Shared::new();
    let project = first(&shared);
    let packs = shared.path().join("packs");
    let pack = std::fs::read_dir(&packs).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(pack.join("INDEX")).unwrap();
    let other = another(&project);
    let ran = run(&other, &shared);
    assert_eq!(ran.executed()["words"], 5);
    assert!(warnings(&ran)[0].contains("INDEX"), "{:?}", warnings(&ran));
    assert_eq!(other.files("out"), project.files("out"));
    let gc = ["remote", "gc", "--remote", &shared.url()];
    assert!(project.printed(&gc).contains("nothing to remove"));
    for file in shared.files("packs").iter().filter(|file| file.starts_with(&pack)) {
        let old = SystemTime::now() - Duration::from_secs(2 * 24 * 3_600);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    let listed = project.printed(&gc);
    assert!(listed.contains("volume-0001.pack") && listed.contains("--yes"), "{listed}");
    project.printed(&[&gc[..], &["--yes"]].concat());
    assert!(!pack.join("volume-0001.pack").exists());
    let third = another(&project);
    assert_eq!(run(&third, &shared).last()["status"], "done");
    assert_eq!(third.files("out"), project.files("out"));
}

#[test]
fn old_results_are_removed_with_what_only_they_need() {
    let shared = Shared::new();
    let project = first(&shared);
    for file in shared.files("") {
        let old = SystemTime::now() - Duration::from_secs(60 * 24 * 3_600);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    project.replace("data/metadata.csv", "Sana a", "Sana ja toinen a");
    run(&project, &shared);
    let before = shared.files("").len();
    let gc = ["remote", "gc", "--older-than", "720h", "--yes", "--remote", &shared.url()];
    project.printed(&gc);
    assert!(shared.files("").len() < before);
    let other = another(&project);
    let ran = run(&other, &shared);
    assert_eq!(warnings(&ran), Vec::<String>::new());
    assert_eq!(ran.reused("words"), 5, "{:?}", ran.last());
    assert_eq!(other.files("out"), project.files("out"));
}

#[test]
fn a_push_writes_again_what_somebody_has_removed() {
    let shared = Shared::new();
    let project = first(&shared);
    let push = ["push", "--remote", &shared.url()];
    assert!(project.printed(&push).contains("is up to date"));
    std::fs::remove_dir_all(shared.path()).unwrap();
    std::fs::create_dir(shared.path()).unwrap();
    assert!(project.printed(&push).contains("pushed to"));
    let verify = ["remote", "verify", "--remote", &shared.url()];
    assert!(project.printed(&verify).contains("nothing is damaged"));
    let other = another(&project);
    assert_eq!(run(&other, &shared).executed(), [].into());
    assert_eq!(other.files("out"), project.files("out"));
}

#[test]
fn a_pull_counts_what_it_brings() {
    let shared = Shared::new();
    let project = first(&shared);
    let other = another(&project);
    let pull = ["pull", "--remote", &shared.url()];
    let pulled = json(&other, &pull);
    let here = json(&other, &["cache", "stats"]);
    assert_eq!((&pulled["objects"], &pulled["bytes"]), (&here["objects"], &here["object_bytes"]));
    // Five large files, five texts, five clips, and the tables of four stages.
    assert!(pulled["objects"].as_u64().unwrap() > 15, "{pulled}");
    let again = json(&other, &pull);
    assert_eq!((&again["objects"], &again["bytes"]), (&0.into(), &0.into()));
}

#[test]
fn a_pull_from_a_remote_that_lost_packs_and_got_them_again_brings_everything_at_once() {
    let shared = Shared::new();
    let project = first(&shared);
    let other = another(&project);
    let url = shared.url();
    // It knows the packs from now on.
    other.printed(&["plan", "--remote", &url]);
    std::fs::remove_dir_all(shared.path().join("packs")).unwrap();
    project.printed(&["push", "--remote", &url]);
    for machine in [&other, &another(&project)] {
        let pulled = json(machine, &["pull", "--remote", &url]);
        assert_ne!(pulled["objects"], 0, "{pulled}");
        assert_eq!(pulled["open"], serde_json::Value::Array(Vec::new()));
        assert_eq!(json(machine, &["pull", "--remote", &url])["objects"], 0);
        assert_eq!(run_with(machine, &["--remote", "none"]).executed(), [].into());
        assert_eq!(machine.files("out"), project.files("out"));
    }
}

#[test]
fn an_outcome_refers_to_nothing_that_was_removed() {
    let shared = Shared::new();
    let project = first(&shared);
    std::fs::remove_dir_all(shared.path().join("packs")).unwrap();
    project.edit("data/metadata.csv", |table| table.replacen('|', "|X ", 1));
    run(&project, &shared);
    let verify = ["remote", "verify", "--remote", &shared.url()];
    project.printed(&[&["push"][..], &verify[2..]].concat());
    let other = another(&project);
    assert_eq!(run(&other, &shared).executed(), [].into());
}

#[test]
fn a_folder_of_others_is_not_taken_for_a_remote() {
    let shared = Shared::new();
    let project = machine(MANIFEST);
    let name = format!("objects/{}", "ab".repeat(32));
    for file in ["objects/mine.txt", "logs/my.log", &name] {
        let file = shared.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "x").unwrap();
        let old = SystemTime::now() - Duration::from_secs(9 * 24 * 3_600);
        std::fs::File::options().write(true).open(file).unwrap().set_modified(old).unwrap();
    }
    for command in [
        &["remote", "gc", "--yes"][..],
        &["remote", "gc", "--older-than", "1h", "--yes"],
        &["remote", "stats"],
        &["remote", "verify"],
        &["push"],
        &["pull"],
    ] {
        let output = project.output(&[command, &["--remote", &shared.url()]].concat());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{command:?} {told}");
        assert!(told.contains("is not a remote"), "{told}");
    }
    assert_eq!((shared.files("objects").len(), shared.files("logs").len()), (2, 1));
    assert!(!shared.path().join("THROSTLE").exists());
}

#[test]
fn gc_removes_what_an_interrupted_pull_has_left() {
    let shared = Shared::new();
    let project = first(&shared);
    let folder = project.file(".throstle/incoming");
    std::fs::create_dir_all(&folder).unwrap();
    let left = folder.join("ab".repeat(32));
    std::fs::write(&left, vec![1; 5_000]).unwrap();
    project.printed(&["cache", "gc", "--yes"]);
    assert!(left.exists(), "a pull may go on with it");
    let week = Duration::from_secs(8 * 24 * 3600);
    let file = std::fs::File::options().write(true).open(&left).unwrap();
    file.set_modified(SystemTime::now() - week).unwrap();
    let told = project.printed(&["cache", "gc", "--yes"]);
    assert!(told.contains("5.0 kB of objects that a `pull` did not finish"), "{told}");
    assert!(!left.exists());
}

#[test]
fn a_folder_in_the_place_of_the_mark_is_no_empty_file() {
    let shared = Shared::new();
    let project = machine(MANIFEST);
    std::fs::create_dir(shared.path().join("THROSTLE")).unwrap();
    let output = project.output(&["pull", "--remote", &shared.url()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("`THROSTLE`: it is not a file"), "{told}");
    assert_eq!(output.status.code(), Some(1));
}
