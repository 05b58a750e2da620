//! Several processes at once on one cache: equal outputs, and almost no repeated work.

use std::process::Child;

use engine::event::{Event, Status};
use throstle_tests::processes::{Ended, start, wait};
use throstle_tests::{Lab, MANIFEST};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lab_run");
const ITEMS: u64 = 40;

fn slow(lab: &Lab) {
    for number in 0..ITEMS {
        lab.write(&format!("data/slow{number:02}.txt"), &format!("slow {number}"));
    }
}

/// Waits for all and returns the number of items they executed together, and the number of runs of
/// the gather.
fn executed(children: Vec<Child>) -> (u64, u64) {
    let count = |child| match wait(child) {
        Ended::Itself(Event::Finished { status: Status::Done, stages, .. }) => {
            (stages["loud"].executed, stages["joined"].executed)
        }
        Ended::Itself(other) => panic!("{other:?}"),
        Ended::Killed => panic!("killed"),
    };
    let counts: Vec<(u64, u64)> = children.into_iter().map(count).collect();
    counts.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn together(processes: usize) {
    let (lab, expected) = (Lab::new(), Lab::new());
    slow(&lab);
    slow(&expected);
    expected.run();
    let children = (0..processes).map(|_| start(PROGRAM, &lab.base(), &[])).collect();
    let (done, gathered) = executed(children);
    assert!(done <= ITEMS + ITEMS / 20, "{done} executions for {ITEMS} items");
    assert_eq!(gathered, 1, "who waited for the gather takes over its result");
    assert_eq!(lab.exports(), expected.exports());
    assert!(lab.run().nothing_executed());
    assert!(lab.verify().is_clean());
}

#[test]
fn two_processes_share_the_work() {
    together(2);
}

#[test]
fn eight_processes_share_the_work() {
    together(8);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_eight_processes_a_hundred_times() {
    for _ in 0..100 {
        together(8);
    }
}

#[test]
fn different_manifests_on_one_cache_do_not_disturb_each_other() {
    let (one, other) = (Lab::new(), Lab::new());
    slow(&one);
    slow(&other);
    other.write("pipeline.toml", &MANIFEST.replace("mark = \"!\"", "mark = \"?\""));
    let cache = one.base().join("shared");
    let start = |lab: &Lab| start(PROGRAM, &lab.base(), &["--cache", cache.as_str()]);
    let children = vec![start(&one), start(&other), start(&one), start(&other)];
    let (done, gathered) = executed(children);
    assert!(done <= 2 * (ITEMS + ITEMS / 20), "{done} executions");
    assert_eq!(gathered, 2, "once for each manifest");
    assert_eq!(one.read("out/slow07.txt").unwrap(), "SLOW 7! SLOW 7!");
    assert_eq!(other.read("out/slow07.txt").unwrap(), "SLOW 7? SLOW 7?");
}

#[test]
fn who_comes_later_waits_for_the_work_of_who_was_killed_no_longer() {
    let lab = Lab::new();
    slow(&lab);
    let mut first = start(PROGRAM, &lab.base(), &[]);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let second = start(PROGRAM, &lab.base(), &[]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(executed(vec![second]).0 <= ITEMS);
    assert_eq!(lab.read("out/slow07.txt").unwrap(), "SLOW 7! SLOW 7!");
}
