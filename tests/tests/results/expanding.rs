//! Stages that make several items of one: each item is worked on once, its children are known for
//! as long as it stays the same, and the stages behind work on the children that are new.

use std::collections::BTreeSet;

use cache::Digest;
use engine::event::{Event, Status};
use throstle_tests::{Lab, Project, SPLIT_MANIFEST, command};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("pipeline.toml", SPLIT_MANIFEST);
    for (name, text) in [("anna1", "hello"), ("anna2", "good day"), ("ben1", "moin moin moin")] {
        lab.write(&format!("data/{name}.txt"), text);
    }
    lab
}

/// The id of the child that is this word.
fn id(parent: &str, word: &str) -> String {
    format!("{parent}/{}", Digest::of(word.as_bytes()).short())
}

#[test]
fn an_item_becomes_several_with_ids_by_content() {
    let lab = lab();
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done);
    // Three words of `ben1` are two different ones.
    let counts = [("joined", 1), ("lines", 1), ("loud", 3), ("split", 3), ("twice", 5)];
    assert_eq!(ran.all_executed(), counts);
    let twin = format!("{}-2", id("ben1", "MOIN"));
    let mut lines = [
        format!("{}: HELLO! HELLO!", id("anna1", "HELLO!")),
        format!("{}: GOOD GOOD", id("anna2", "GOOD")),
        format!("{}: DAY! DAY!", id("anna2", "DAY!")),
        format!("{}: MOIN MOIN", id("ben1", "MOIN")),
        format!("{twin}: MOIN MOIN"),
        format!("{}: MOIN! MOIN!", id("ben1", "MOIN!")),
    ];
    lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
    assert_eq!(lab.read("out/all.txt").unwrap(), format!("{}\n", lines.join("\n")));
    assert_eq!(lab.read(&format!("out/{twin}.txt")).unwrap(), "MOIN MOIN");
    assert_eq!(lab.read(&format!("out/words/{twin}")).unwrap(), "MOIN");
    assert!(lab.run().nothing_executed());
    assert!(lab.verify().is_clean());
}

#[test]
fn of_a_changed_item_only_the_new_children_are_worked_on() {
    let lab = lab();
    lab.run();
    lab.write("data/anna2.txt", "good long day");
    let ran = lab.run();
    let counts = [("joined", 1), ("lines", 1), ("loud", 1), ("split", 1), ("twice", 1)];
    assert_eq!(ran.all_executed(), counts);
    assert_eq!(ran.stages["twice"].reused, 6);
    assert!(lab.read("out/all.txt").unwrap().contains("LONG LONG"));
}

#[test]
fn children_of_unchanged_items_are_known_to_the_plan() {
    let lab = lab();
    lab.run();
    lab.write("data/cleo1.txt", "salut");
    let pipeline = lab.pipeline();
    let plan = lab.plan();
    let planned = |name: &str| {
        let stage = plan.stage(pipeline.find(name).unwrap().id);
        (stage.executed, stage.pending, stage.reused)
    };
    // What the stages before make of the new text is not known.
    assert_eq!(planned("split"), (0, 1, 3));
    assert_eq!(planned("twice"), (0, 1, 6));
    assert_eq!(lab.run().executed("twice"), 1);
}

#[test]
fn the_number_of_children_to_come_is_estimated_by_the_size() {
    let lab = lab();
    lab.write("data/dora1.txt", "one two three four five six seven eight");
    let pipeline = lab.pipeline();
    let pending = |name: &str| {
        let plan = lab.plan();
        let stage = plan.stage(pipeline.find(name).unwrap().id);
        stage.executed + stage.pending
    };
    assert_eq!((pending("loud"), pending("split")), (4, 4));
    // 5 bytes, 8 bytes, 14 bytes and 39 bytes, at 5 a word.
    assert_eq!(pending("twice"), 1 + 2 + 3 + 8);
}

#[test]
fn a_renamed_item_is_no_work_except_what_reads_names() {
    let lab = lab();
    lab.run();
    lab.rename("data/ben1.txt", "data/zoe1.txt");
    let ran = lab.run();
    let counts = [("joined", 1), ("lines", 1), ("loud", 0), ("split", 0), ("twice", 0)];
    assert_eq!(ran.all_executed(), counts);
    assert!(lab.read("out/all.txt").unwrap().contains(&id("zoe1", "MOIN!")));
    assert_eq!(lab.read(&format!("out/{}.txt", id("ben1", "MOIN!"))), None);
}

#[test]
fn equal_children_stop_the_wave() {
    let lab = lab();
    lab.run();
    lab.write("data/anna2.txt", "good   day");
    let ran = lab.run();
    let counts = [("joined", 0), ("lines", 1), ("loud", 1), ("split", 1), ("twice", 0)];
    assert_eq!(ran.all_executed(), counts);
}

#[test]
fn an_item_may_have_no_children_and_another_one_may_be_quarantined() {
    let lab = lab();
    let free = SPLIT_MANIFEST.replace("mark = \"!\"", "mark = \" \"");
    let tolerant = free.replace("\"test.split\"", "\"test.split\"\nquarantine = 0.5");
    lab.write("pipeline.toml", &tolerant);
    lab.write("data/empty.txt", " ");
    lab.write("data/whole.txt", "the whole text");
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("split")), (Status::Done, 5));
    assert_eq!(ran.stages["split"].quarantined, 1);
    assert!(!lab.read("out/all.txt").unwrap().contains("WHOLE"));
    let again = lab.run();
    assert!(again.nothing_executed());
    assert_eq!(again.stages["split"].quarantined, 1);
    // The limit counts items that came in: one of five.
    lab.write("pipeline.toml", &free.replace("\"test.split\"", "\"test.split\"\nquarantine = 0.1"));
    assert_eq!(lab.run().status, Status::Failed);
    lab.write("data/whole.txt", "the other text");
    let mended = lab.run();
    assert_eq!(
        (mended.status, mended.executed("split"), mended.executed("twice")),
        (Status::Done, 1, 3)
    );
}

#[test]
fn a_failed_item_is_tried_again_and_its_neighbours_are_not() {
    let lab = lab();
    let text = SPLIT_MANIFEST.replace("\"test.split\"", "\"test.split\"\nquarantine = 0.5");
    lab.write("pipeline.toml", &text);
    lab.write("data/zed.txt", "unsplit this");
    let ran = lab.run();
    assert_eq!((ran.status, ran.set_aside().len()), (Status::Done, 1), "{:?}", ran.events);
    let again = lab.run();
    assert_eq!((again.executed("split"), again.executed("twice")), (1, 0));
}

#[test]
fn a_quarantined_item_before_has_no_children() {
    let lab = lab();
    let text = SPLIT_MANIFEST.replace("mark = \"!\"", "mark = \"!\"\nquarantine = 0.5");
    lab.write("pipeline.toml", &text);
    lab.write("data/zed.txt", "a bad text");
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("split"), ran.executed("twice")), (Status::Done, 3, 5));
    lab.write("data/zed.txt", "a better text");
    let ran = lab.run();
    assert_eq!((ran.executed("split"), ran.executed("twice")), (1, 3));
}

#[test]
fn children_may_be_expanded_again() {
    let lab = lab();
    let twice = SPLIT_MANIFEST.replace("input = \"split\"", "input = \"again\"");
    let again = "\n[stage.again]\nuse = \"test.split\"\ninput = \"split\"\n";
    lab.write("pipeline.toml", &format!("{twice}{again}"));
    let ran = lab.run();
    // One text is one word, which `split` has split already.
    assert_eq!((ran.status, ran.executed("again"), ran.executed("twice")), (Status::Done, 4, 5));
    let inner = format!("{}/{}", id("anna2", "DAY!"), Digest::of(b"DAY!").short());
    assert_eq!(lab.read(&format!("out/{inner}.txt")).unwrap(), "DAY! DAY!");
    lab.write("data/anna2.txt", "good morning");
    let ran = lab.run();
    assert_eq!((ran.executed("split"), ran.executed("again"), ran.executed("twice")), (1, 1, 1));
    assert!(lab.run().nothing_executed());
}

#[test]
fn children_go_on_before_their_siblings_are_made() {
    let lab = lab();
    for number in 0..40 {
        lab.write(&format!("data/slow{number}.txt"), &format!("slow {number}"));
    }
    let ran = lab.run();
    let progress = |name: &str| {
        let events = ran.events.iter().enumerate();
        let of = events.filter(move |(_, event)| {
            matches!(event, Event::Progress { stage, done, .. } if stage == name && *done > 0)
        });
        of.map(|(at, _)| at).collect::<Vec<usize>>()
    };
    let finished = ran
        .events
        .iter()
        .position(|event| matches!(event, Event::StageFinished { stage, .. } if stage == "split"));
    let first = progress("twice").first().copied();
    assert!(first.is_some() && first < finished, "{first:?} {finished:?}");
}

#[test]
fn items_of_many_buckets_are_expanded_in_them() {
    let lab = lab();
    for number in 0..1_500 {
        lab.write(&format!("data/clip{number}.txt"), &format!("word{number} second{number}"));
    }
    assert_eq!(lab.run().executed("twice"), 5 + 3_000);
    lab.write("data/clip77.txt", "word77 other");
    let ran = lab.run();
    assert_eq!((ran.executed("split"), ran.executed("twice")), (1, 1));
    lab.remove("data/clip78.txt");
    let ran = lab.run();
    assert_eq!((ran.executed("split"), ran.executed("twice")), (0, 0));
    assert!(lab.run().nothing_executed());
    let ids: BTreeSet<String> = lab.files("out/words").into_keys().collect();
    assert_eq!(ids.len(), 6 + 2 * 1_499);
    assert!(ids.contains(&id("clip77", "OTHER!")) && !ids.contains(&id("clip77", "SECOND77!")));
}

#[test]
fn a_child_leads_to_the_item_that_it_was_made_of() {
    let project = Project::new(SPLIT_MANIFEST);
    project.write("data/anna2.txt", "good day");
    let told = |arguments: &[&str]| {
        let output = command("small_world", project.path(), arguments).output().unwrap();
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
        told
    };
    told(&["run"]);
    let child = id("anna2", "DAY!");
    assert!(told(&["items", "split"]).contains(&child));
    assert!(told(&["why", "twice", &child]).contains(&child));
    assert!(told(&["why", "split", &child]).contains("`anna2`"));
    assert!(told(&["replay", "twice", &child]).contains("the cache has the same result"));
    for item in ["anna2", &child] {
        let told = told(&["replay", "split", item]);
        assert!(told.contains("the cache has the same result"), "{told}");
    }
}
