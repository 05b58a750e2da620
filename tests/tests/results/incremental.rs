//! After a change, only the affected work is repeated.

use engine::engine::RunOptions;
use engine::event::Status;
use engine::history;
use throstle_tests::{Lab, MANIFEST};

fn lab() -> Lab {
    let lab = Lab::new();
    for (name, text) in [("anna1", "hello"), ("anna2", "good day"), ("ben1", "moin")] {
        lab.write(&format!("data/{name}.txt"), text);
    }
    lab
}

#[test]
fn a_first_run_does_everything_and_exports_it() {
    let lab = lab();
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done);
    assert_eq!(ran.all_executed(), [("joined", 1), ("lines", 1), ("loud", 3), ("twice", 3)]);
    assert_eq!(lab.read("out/ben1.txt").unwrap(), "MOIN! MOIN!");
    let all = "anna1: HELLO! HELLO!\nanna2: GOOD DAY! GOOD DAY!\nben1: MOIN! MOIN!\n";
    assert_eq!(lab.read("out/all.txt").unwrap(), all);
}

#[test]
fn a_stage_on_two_outputs_of_another_waits_for_it_once() {
    let lab = lab();
    let split = "[stage.shares]\nuse = \"dataset.split\"\ninput = \"lines\"\n";
    let merged = "[stage.all]\nuse = \"dataset.merge\"\n\
                  input = [\"shares.training\", \"shares.validation\"]\n";
    lab.write("pipeline.toml", &[MANIFEST, split, merged].join("\n"));
    assert_eq!(lab.reasons("all"), ["waits for shares"]);
}

#[test]
fn a_second_run_does_nothing() {
    let lab = lab();
    lab.run();
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done);
    assert!(ran.nothing_executed(), "{ran:?}");
    assert_eq!(ran.stages["loud"].reused, 3);
    assert_eq!(ran.stages["joined"].reused, 1);
}

#[test]
fn one_changed_item_is_one_item_in_every_item_stage() {
    let lab = lab();
    lab.run();
    lab.write("data/ben1.txt", "servus");
    let reasons = lab.reasons("lines");
    assert!(reasons[0].starts_with("file `data/ben1.txt` changed from "), "{reasons:?}");
    let ran = lab.run();
    assert_eq!(ran.all_executed(), [("joined", 1), ("lines", 1), ("loud", 1), ("twice", 1)]);
    assert_eq!(lab.read("out/ben1.txt").unwrap(), "SERVUS! SERVUS!");
}

#[test]
fn a_stage_whose_items_were_all_known_has_an_outcome_like_any_other() {
    let lab = lab();
    lab.run();
    lab.remove("data/ben1.txt");
    assert_eq!(lab.run().executed("twice"), 0);
    let last = history::last(&lab.cache(), "words", "twice").unwrap().unwrap();
    let outcome = history::outcome(&lab.cache(), &last).unwrap().unwrap();
    assert_eq!((last.run, outcome.items), (2, 2));
}

/// The result of the pipeline for these texts on a first run.
fn afresh(texts: [(&str, &str); 3]) -> String {
    let lab = Lab::new();
    for (name, text) in texts {
        lab.write(&format!("data/{name}.txt"), text);
    }
    lab.run();
    lab.read("out/all.txt").unwrap()
}

#[test]
fn files_that_change_places_are_passed_on_without_item_work() {
    let lab = lab();
    lab.run();
    lab.write("data/anna1.txt", "moin");
    lab.write("data/ben1.txt", "hello");
    let ran = lab.run();
    assert_eq!(ran.all_executed(), [("joined", 1), ("lines", 1), ("loud", 0), ("twice", 0)]);
    let expected = afresh([("anna1", "moin"), ("anna2", "good day"), ("ben1", "hello")]);
    assert_eq!(lab.read("out/all.txt").unwrap(), expected);
}

#[test]
fn one_of_two_files_with_one_content_may_change() {
    let lab = lab();
    lab.write("data/anna2.txt", "hello");
    lab.run();
    lab.write("data/anna1.txt", "moin moin");
    lab.run();
    let expected = afresh([("anna1", "moin moin"), ("anna2", "hello"), ("ben1", "moin")]);
    assert_eq!(lab.read("out/all.txt").unwrap(), expected);
}

#[test]
fn equal_output_stops_the_wave() {
    let lab = lab();
    lab.run();
    lab.write("data/ben1.txt", "MOIN");
    let ran = lab.run();
    assert_eq!(ran.all_executed(), [("joined", 0), ("lines", 1), ("loud", 1), ("twice", 0)]);
}

#[test]
fn added_items_are_the_only_work() {
    let lab = lab();
    lab.run();
    for number in 0..5 {
        lab.write(&format!("data/cleo{number}.txt"), &format!("text {number}"));
    }
    let ran = lab.run();
    assert_eq!((ran.executed("loud"), ran.executed("twice")), (5, 5));
}

#[test]
fn removed_and_renamed_and_returned_items_are_no_item_work() {
    let lab = lab();
    lab.run();
    lab.remove("data/ben1.txt");
    let ran = lab.run();
    assert_eq!((ran.executed("loud"), ran.executed("twice"), ran.executed("joined")), (0, 0, 1));
    assert_eq!(lab.read("out/ben1.txt"), None, "the export of a removed item goes");
    lab.write("data/carl9.txt", "moin");
    let ran = lab.run();
    assert_eq!((ran.executed("loud"), ran.executed("twice")), (0, 0));
    lab.remove("data/carl9.txt");
    lab.write("data/ben1.txt", "moin");
    let ran = lab.run();
    assert_eq!((ran.executed("loud"), ran.executed("joined")), (0, 0));
}

#[test]
fn touching_everything_is_no_work() {
    let lab = lab();
    lab.run();
    for name in ["anna1", "anna2", "ben1"] {
        let path = lab.base().join(format!("data/{name}.txt"));
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    assert!(lab.run().nothing_executed());
}

#[test]
fn a_parameter_in_the_middle_reruns_it_and_what_follows() {
    let lab = lab();
    lab.run();
    lab.write("pipeline.toml", &throstle_tests::MANIFEST.replace("mark = \"!\"", "mark = \"?\""));
    assert_eq!(lab.reasons("loud"), ["parameter `mark` changed from \"!\" to \"?\""]);
    let ran = lab.run();
    assert_eq!(ran.all_executed(), [("joined", 1), ("lines", 0), ("loud", 3), ("twice", 3)]);
    lab.write("pipeline.toml", throstle_tests::MANIFEST);
    assert!(lab.run().nothing_executed(), "what was known before is still known");
    assert_eq!(lab.read("out/ben1.txt").unwrap(), "MOIN! MOIN!");
}

#[test]
fn formatting_and_comments_of_the_manifest_are_no_change() {
    let lab = lab();
    lab.run();
    let text = format!("# a comment\n{}", throstle_tests::MANIFEST.replace(" = ", "   =   "));
    lab.write("pipeline.toml", &text);
    assert!(lab.run().nothing_executed());
}

#[test]
fn a_moved_folder_is_no_change() {
    let lab = lab();
    lab.run();
    let moved = Lab::new();
    std::fs::remove_file(moved.base().join("pipeline.toml")).unwrap();
    for entry in std::fs::read_dir(lab.base()).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), moved.base().join(entry.file_name().to_str().unwrap()))
            .unwrap();
    }
    assert!(moved.run().nothing_executed());
}

#[test]
fn deleted_exports_come_back_without_work() {
    let lab = lab();
    lab.run();
    std::fs::remove_dir_all(lab.base().join("out")).unwrap();
    let ran = lab.run();
    assert!(ran.nothing_executed());
    assert_eq!(lab.read("out/ben1.txt").unwrap(), "MOIN! MOIN!");
    lab.write("out/all.txt", "edited by hand");
    lab.run();
    assert_eq!(lab.read("out/all.txt").unwrap(), "edited by hand");
    lab.run_with(&RunOptions { overwrite: true, ..RunOptions::default() });
    assert!(lab.read("out/all.txt").unwrap().starts_with("anna1: "));
}

#[test]
fn a_rejected_item_is_quarantined_with_its_reason_and_not_tried_again() {
    let lab = lab();
    for number in 0..30 {
        lab.write(&format!("data/good{number}.txt"), &format!("fine {number}"));
    }
    lab.write("data/zed.txt", "a bad text");
    let ran = lab.run();
    assert_eq!((ran.status, ran.stages["loud"].quarantined), (Status::Done, 1));
    assert_eq!(ran.executed("twice"), 33);
    let again = lab.run();
    assert!(again.nothing_executed());
    assert_eq!(again.stages["loud"].quarantined, 1);
    lab.write("data/zed.txt", "a better text");
    let mended = lab.run();
    assert_eq!((mended.executed("loud"), mended.stages["loud"].quarantined), (1, 0));
}

#[test]
fn too_many_rejected_items_fail_the_stage() {
    let lab = lab();
    for number in 0..4 {
        lab.write(&format!("data/zed{number}.txt"), &format!("bad text {number}"));
    }
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("joined")), (Status::Failed, 0));
}

#[test]
fn a_failing_item_is_tried_again_at_the_next_run() {
    let lab = lab();
    for number in 0..30 {
        lab.write(&format!("data/good{number}.txt"), &format!("fine {number}"));
    }
    lab.write("data/zed.txt", "panic");
    let ran = lab.run();
    assert_eq!((ran.status, ran.stages["loud"].quarantined), (Status::Done, 1));
    let again = lab.run();
    assert_eq!((again.executed("loud"), again.executed("twice")), (1, 0));
}

#[test]
fn items_with_the_same_content_are_done_once() {
    let lab = lab();
    lab.write("data/ben2.txt", "moin");
    let ran = lab.run();
    assert_eq!((ran.executed("loud"), ran.stages["loud"].reused), (3, 1));
}

#[test]
fn items_that_become_equal_on_the_way_are_worked_on_once_in_one_run() {
    let lab = lab();
    for number in 0..128_u32 {
        // Eight words, each in sixteen spellings.
        let letter = |(at, letter): (usize, char)| match number >> (at + 3) & 1 {
            0 => letter,
            _ => letter.to_ascii_uppercase(),
        };
        let word: String = "abcd".chars().enumerate().map(letter).collect();
        lab.write(&format!("data/word{number}.txt"), &format!("{}{word}", number % 8));
    }
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done);
    assert_eq!(ran.executed("loud"), 3 + 128);
    assert_eq!(ran.executed("twice"), 3 + 8);
}

#[test]
fn a_source_in_nested_folders_is_read_once() {
    let lab = lab();
    for path in ["b/c/x", "b-c/x", "b/z", "b/c-d/y", "a"] {
        lab.write(&format!("data/{path}.txt"), path);
    }
    lab.run();
    lab.age();
    assert!(lab.run().nothing_executed());
    assert!(lab.run().nothing_executed());
}
