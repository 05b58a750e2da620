//! Clips that a training cannot use: they are named, listed and limited like the items of other
//! stages, for any end of the run.

use std::sync::Arc;

use cache::Archiving;
use camino::Utf8PathBuf;
use engine::archive;
use engine::engine::{RunOptions, StopFlag, WorkerCommand};
use engine::event::{Event, Status};
use engine::gc::GcLimits;
use throstle_tests::train::Remote;
use throstle_tests::training::{MANIFEST, STEPS, lab, steps, weights};
use throstle_tests::{Lab, RanProgram, command};

/// Two of eight clips are odd, and half of them may be.
fn lab_with_odd() -> Lab {
    let lab = lab();
    lab.write("data/odd1.txt", "odd one");
    lab.write("data/odd2.txt", "odd other");
    allow(&lab, "0.5");
    lab
}

fn allow(lab: &Lab, share: &str) {
    let line = format!("retries = 2\nquarantine = {share}");
    lab.write("pipeline.toml", &MANIFEST.replace("retries = 2", &line));
}

/// The events of a run about single items.
fn told(events: &[Event]) -> Vec<(&str, &str)> {
    let mut told = Vec::new();
    for event in events {
        if let Event::ItemQuarantined { item, code, .. } = event {
            told.push((item.as_str(), code.as_str()));
        }
    }
    told.sort_unstable();
    told
}

/// The ids that `items model --quarantined` lists.
fn listed(lab: &Lab) -> Vec<String> {
    let arguments = ["items", "model", "--quarantined", "--format", "jsonl"];
    let base = lab.base();
    let output = command("small_world", base.as_std_path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let id = |line: &str| {
        let item: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(item["code"], "odd");
        item["id"].as_str().unwrap().to_owned()
    };
    let mut ids: Vec<String> = lines.lines().map(id).collect();
    ids.sort();
    ids
}

const BOTH: [(&str, &str); 2] = [("odd1", "odd"), ("odd2", "odd")];

#[test]
fn they_are_named_counted_and_listed_and_a_reused_training_still_lists_them() {
    let lab = lab_with_odd();
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    assert_eq!(told(&ran.events), BOTH);
    assert_eq!(ran.stages["model"].quarantined, 2);
    assert_eq!(listed(&lab), ["odd1", "odd2"]);
    let again = lab.run();
    assert!(again.nothing_executed());
    assert_eq!(again.stages["model"].quarantined, 2);
    assert_eq!(listed(&lab), ["odd1", "odd2"]);
}

#[test]
fn a_worker_names_them_as_well_and_once_although_it_dies_and_tries_again() {
    for dies in [false, true] {
        let mut lab = lab_with_odd();
        let lives = lab.base().join("lives").into_string();
        let arguments =
            if dies { vec!["die-at".to_owned(), "40".to_owned(), lives] } else { vec![] };
        let manifest = lab.read("pipeline.toml").unwrap();
        lab.write("pipeline.toml", &manifest.replace("test.train", "test.remote-train"));
        lab.stages.push(Arc::new(Remote));
        lab.worker = WorkerCommand {
            program: Some(Utf8PathBuf::from(env!("CARGO_BIN_EXE_fake_worker"))),
            arguments,
            environment: Vec::new(),
            lacks: None,
        };
        let ran = lab.run();
        assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
        let died = ran.events.iter().any(|event| matches!(event, Event::WorkerDied { .. }));
        assert_eq!(died, dies);
        assert_eq!(told(&ran.events), BOTH);
        assert_eq!(ran.stages["model"].quarantined, 2);
    }
}

#[test]
fn too_many_fail_the_stage_before_its_first_step() {
    let lab = lab_with_odd();
    allow(&lab, "0.2");
    let ran = lab.run();
    assert_eq!((ran.status, steps(&ran)), (Status::Failed, vec![]));
    let failures = ran.failures();
    assert!(failures[0].starts_with("2 of 8 items of `loud` were quarantined"), "{failures:?}");
    assert_eq!(told(&ran.events), BOTH);
    assert_eq!(listed(&lab), ["odd1", "odd2"], "although the stage has given nothing");
    allow(&lab, "0.5");
    assert_eq!(lab.run().status, Status::Done);
}

#[test]
fn clips_that_a_person_drops_do_not_count_towards_the_limit() {
    let lab = lab_with_odd();
    lab.write("data/dropped1.txt", "dropped cough");
    lab.write("data/dropped2.txt", "dropped laugh");
    allow(&lab, "0.25");
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    assert_eq!(ran.stages["model"].quarantined, 4);
    assert!(lab.run().nothing_executed());
    allow(&lab, "0.2");
    let failures = lab.run().failures();
    assert!(failures[0].starts_with("2 of 8 items of `loud` were quarantined"), "{failures:?}");
}

#[test]
fn a_training_that_was_done_does_not_count_under_a_narrower_limit() {
    let lab = lab_with_odd();
    lab.run();
    allow(&lab, "0.2");
    let reasons = lab.reasons("model").join("; ");
    assert!(
        reasons.contains("2 of 8 items are quarantined, more than the stage allows"),
        "{reasons}"
    );
    let ran = lab.run();
    assert_eq!((ran.status, steps(&ran)), (Status::Failed, vec![]));
    allow(&lab, "0.5");
    assert!(lab.run().nothing_executed());
}

#[test]
fn a_training_that_was_stopped_names_them_again_and_keeps_them() {
    let lab = lab_with_odd();
    let stop = StopFlag::default();
    let options = RunOptions { stop: stop.clone(), ..RunOptions::default() };
    let mut sink = |event: Event| {
        if matches!(event, Event::Metrics { step: 3, .. }) {
            stop.request();
        }
    };
    let cache = lab.cache();
    let status = lab.engine().run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
    assert_eq!(status, Status::Paused);
    drop(cache);
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done);
    let done = steps(&ran);
    assert!(!done.is_empty() && done.len() < STEPS as usize, "{done:?}");
    assert_eq!(told(&ran.events), BOTH);
    assert_eq!(listed(&lab), ["odd1", "odd2"]);
}

#[test]
fn they_are_listed_on_another_machine_that_has_the_archive() {
    let lab = lab_with_odd();
    lab.run();
    let folder = lab.base().join("archive");
    let limits = GcLimits { keep_runs: 1, kept_since: None, most_bytes: None };
    let how =
        Archiving { folder: &folder, bases: &[], volume_bytes: 1 << 30, progress: &|_, _| {} };
    archive::pack(&lab.cache(), &limits, &how).unwrap();
    let other = lab_with_odd();
    archive::unpack(&other.cache(), &[folder], &|_, _| {}).unwrap();
    let ran = other.run();
    assert_eq!((ran.executed("model"), ran.stages["model"].quarantined), (0, 2));
    assert_eq!(listed(&other), ["odd1", "odd2"]);
}

#[test]
fn a_clip_that_is_renamed_trains_nothing_and_is_listed_under_its_new_name() {
    let lab = lab_with_odd();
    lab.run();
    let before = weights(&lab);
    lab.rename("data/odd1.txt", "data/strange.txt");
    assert_eq!(listed(&lab), ["odd2", "strange"]);
    for _ in 0..2 {
        let ran = lab.run();
        assert_eq!((ran.status, ran.executed("model")), (Status::Done, 0));
        assert_eq!(listed(&lab), ["odd2", "strange"]);
    }
    assert_eq!(weights(&lab), before);
}

#[test]
fn of_two_equal_clips_both_are_named() {
    let lab = lab_with_odd();
    lab.write("data/odd3.txt", "odd one");
    let ran = lab.run();
    assert_eq!(told(&ran.events), [BOTH[0], BOTH[1], ("odd3", "odd")]);
    lab.rename("data/odd1.txt", "data/odd4.txt");
    lab.run();
    assert_eq!(listed(&lab), ["odd2", "odd3", "odd4"]);
}

#[test]
fn why_and_the_summary_name_them() {
    let lab = lab_with_odd();
    let base = lab.base();
    let throstle = |arguments: &[&str]| command("small_world", base.as_std_path(), arguments);
    let output = throstle(&["run", "."]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("model: quarantined `odd1`: there is nothing to learn"), "{said}");
    assert!(said.contains("quarantined: 2 items (model 2)"), "{said}");
    let ran = RanProgram::of(throstle(&["run", ".", "--json"]).output().unwrap());
    assert_eq!(ran.quarantined("model"), 2);
    let why = throstle(&["why", "model", "odd2"]).output().unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("it is quarantined (odd): there is nothing to learn from it"), "{why}");
}
