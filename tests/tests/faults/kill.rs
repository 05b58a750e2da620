//! The process is killed at every event. The next run does the work that was not durable and
//! nothing else.

use engine::event::Status;
use throstle_tests::processes::{Ended, start, wait};
use throstle_tests::worlds::TEXTS;
use throstle_tests::{Lab, MANIFEST, SPLIT_MANIFEST};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lab_run");

fn fresh() -> Lab {
    let lab = Lab::new();
    for (name, text) in TEXTS {
        lab.write(&format!("data/{name}.txt"), text);
    }
    lab
}

/// With changes that a run has not seen.
fn edited() -> Lab {
    let lab = fresh();
    assert_eq!(lab.run().status, Status::Done);
    lab.write("data/ben1.txt", "moin moin");
    lab.write("data/dora1.txt", "hej");
    lab.remove("data/anna2.txt");
    lab.write("pipeline.toml", &MANIFEST.replace("mark = \"!\"", "mark = \"?\""));
    lab
}

fn killed_at_every_event(make: fn() -> Lab, arguments: &[&str]) {
    killed_and_edited(make, arguments, |_| {});
}

/// The same with changes before the next run.
fn killed_and_edited(make: fn() -> Lab, arguments: &[&str], edit: fn(&Lab)) {
    let expected = make();
    edit(&expected);
    expected.run();
    for number in 1.. {
        let lab = make();
        let number_text = number.to_string();
        let mut all = vec!["--kill-at", &number_text];
        all.extend(arguments);
        if let Ended::Itself(_) = wait(start(PROGRAM, &lab.base(), &all)) {
            assert!(number > 8, "only {number} events were seen");
            return;
        }
        edit(&lab);
        let before = lab.item_records();
        let ran = lab.run();
        assert_eq!(ran.status, Status::Done, "event {number}: {:?}", ran.events);
        assert_eq!(lab.exports(), expected.exports(), "event {number}");
        assert_eq!(ran.items_executed(), lab.item_records() - before, "event {number}");
        assert!(lab.files(".throstle/staging").is_empty(), "event {number}");
        assert!(lab.run().nothing_executed(), "event {number}");
        assert!(lab.verify().is_clean(), "event {number}");
    }
}

#[test]
fn a_first_run_may_be_killed_at_every_event() {
    killed_at_every_event(fresh, &[]);
}

#[test]
fn files_that_a_killed_run_has_exported_are_nobodys_edits() {
    killed_and_edited(fresh, &[], |lab| {
        for (name, text) in TEXTS {
            lab.write(&format!("data/{name}.txt"), &format!("{text}, again"));
        }
    });
}

fn split() -> Lab {
    let lab = fresh();
    lab.write("pipeline.toml", SPLIT_MANIFEST);
    lab
}

#[test]
fn a_run_that_makes_several_items_of_one_may_be_killed_at_every_event() {
    killed_at_every_event(split, &["--eager"]);
}

#[test]
fn a_run_that_commits_all_the_time_may_be_killed_at_every_event() {
    killed_at_every_event(fresh, &["--eager"]);
}

#[test]
fn a_run_after_an_edit_may_be_killed_at_every_event() {
    killed_at_every_event(edited, &["--eager"]);
}

/// Kills at moments of the clock instead, between any two operations.
fn killed_again_and_again(kills: u32) {
    let lab = fresh();
    let slow: Vec<(String, String)> =
        (0..30).map(|n| (format!("data/slow{n}.txt"), format!("slow {n}"))).collect();
    slow.iter().for_each(|(path, text)| lab.write(path, text));
    let expected = fresh();
    slow.iter().for_each(|(path, text)| expected.write(path, text));
    expected.run();
    for kill in 0..kills {
        let mut child = start(PROGRAM, &lab.base(), &["--eager"]);
        std::thread::sleep(std::time::Duration::from_millis(u64::from(5 + kill * 7 % 90)));
        child.kill().unwrap();
        child.wait().unwrap();
        if kill % 5 == 0 {
            lab.write("pipeline.toml", &format!("{MANIFEST}salt = \"{kill}\"\n"));
        }
    }
    let before = lab.item_records();
    let ran = lab.run();
    assert_eq!((ran.status, lab.exports()), (Status::Done, expected.exports()));
    assert_eq!(ran.items_executed(), lab.item_records() - before);
    assert!(lab.verify().is_clean());
}

#[test]
fn a_run_may_be_killed_again_and_again() {
    killed_again_and_again(30);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_thousand_kills() {
    killed_again_and_again(1000);
}
