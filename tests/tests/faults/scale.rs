//! Many items under tight limits, in a separate process.

use std::process::Command;

use engine::event::{Event, Status};
use throstle_tests::Lab;
use throstle_tests::processes::{Ended, start, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lab_run");

/// No export of the items, since that would test the file system.
const JOINED: &str = r#"
[pipeline]
name = "many"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"

[stage.joined]
use = "test.join"
input = "loud"
export = "out/all.txt"
"#;

fn runs_with_few_files(items: usize) {
    let lab = Lab::new();
    lab.write("pipeline.toml", JOINED);
    for number in 0..items {
        lab.write(&format!("data/clip{number:06}.txt"), &number.to_string());
    }
    let child = start(PROGRAM, &lab.base(), &["--files", "64"]);
    let Ended::Itself(Event::Finished { status, stages, .. }) = wait(child) else { panic!() };
    assert_eq!((status, stages["loud"].executed), (Status::Done, items as u64));
    let all = lab.read("out/all.txt").unwrap();
    assert_eq!(all.lines().count(), items);
    assert!(all.starts_with("clip000000: 0!\nclip000001: 1!\n"));
}

#[test]
fn ten_thousand_files_need_no_more_than_sixty_four_open_ones() {
    runs_with_few_files(10_000);
}

#[test]
#[ignore = "soak: make soak runs it"]
fn soak_a_hundred_thousand_files_need_no_more_than_sixty_four_open_ones() {
    runs_with_few_files(100_000);
}

/// Peak kilobytes of planning this number of items.
fn memory_of_planning(items: u64) -> u64 {
    let lab = Lab::new();
    let source = format!("use = \"test.many\"\ncount = {items}");
    lab.write("pipeline.toml", &JOINED.replace("use = \"test.lines\"\nfolder = \"data\"", &source));
    let output = Command::new(PROGRAM).arg(lab.base()).arg("--memory").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(numbers[0], 1 + items + 1, "the source, its items, and what joins them");
    numbers[1]
}

#[test]
fn a_million_items_are_planned_in_less_than_a_gigabyte() {
    let peak = memory_of_planning(1_000_000);
    assert!(peak < 1_000_000, "{peak} kB");
}
