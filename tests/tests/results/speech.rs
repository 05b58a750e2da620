//! The stages in plain Rust inside a pipeline: texts, splits, filters and commands only repeat
//! affected work.

use engine::event::Event;
use throstle_tests::Lab;

const PIPELINE: &str = r#"
[pipeline]
name = "voices"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.texts]
use = "text.normalize"
input = "clips"
numbers = "fi"
case = "lower"

[stage.audit]
use = "text.audit"
input = "texts"
characters = "abcdefghijklmnopqrstuvwxyzäö .,"

[stage.said]
use = "command"
input = "clips"
fields = ["audio"]
command = "wc -c < {audio} > {out.size}"
outputs = { size = "size.txt" }
export = { size = "out/{id}.txt" }

[stage.split]
use = "dataset.split"
input = "texts"
fraction = 0.3

[stage.some]
use = "dataset.filter"
input = "texts"
where = [{ field = "speaker", any_of = ["anna"] }, { field = "text", min_length = 2, max_length = 90 }]

[stage.stats]
use = "speaker.stats"
input = "clips"

[stage.best]
use = "speaker.select"
input = "texts"

[stage.both]
use = "dataset.merge"
input = ["some", "best"]

[stage.listed]
use = "command.once"
input = "texts"
fields = ["text"]
command = "sort {items} > {out.list}"
outputs = { list = "list.jsonl" }
export = { list = "out/list.jsonl" }

[stage.summary]
use = "report.summary"
input = ["clips", "texts", "split.validation"]
artifacts = ["stats", "audit", "best.speakers"]
export = "out/summary.json"
"#;

fn clips(count: usize) -> String {
    let speaker = |number: usize| if number.is_multiple_of(3) { "olli" } else { "anna" };
    (0..count).map(|n| format!("c{n:02}.wav|Lause numero {n}.|{}\n", speaker(n))).collect()
}

fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.stages = stage_speech::stages();
    lab.write("pipeline.toml", PIPELINE);
    lab.write("data/metadata.csv", &clips(20));
    for number in 0..21 {
        lab.write(&format!("data/wavs/c{number:02}.wav"), &format!("sound {number}"));
    }
    lab
}

#[test]
fn a_second_run_executes_nothing_and_the_outputs_are_there() {
    let lab = lab();
    let first = lab.run();
    assert_eq!((first.executed("texts"), first.executed("said")), (20, 20), "{:?}", first.events);
    assert_eq!(lab.read("out/c07.txt").as_deref(), Some("7\n"));
    assert_eq!(lab.read("out/list.jsonl").unwrap().lines().count(), 20);
    let summary: serde_json::Value =
        serde_json::from_str(&lab.read("out/summary.json").unwrap()).unwrap();
    assert_eq!(summary["artifacts"]["best"]["names"], "anna");
    assert_eq!(summary["artifacts"]["audit"]["unknown"], 0.0);
    assert!(lab.run().nothing_executed());
}

#[test]
fn a_changed_transcript_leaves_what_reads_only_audio_alone() {
    let lab = lab();
    lab.run();
    lab.write("data/metadata.csv", &clips(20).replace("numero 7.", "uusi."));
    let again = lab.run();
    let executed = ["texts", "said", "split", "listed"].map(|stage| again.executed(stage));
    assert_eq!(executed, [1, 0, 1, 1], "{:?}", again.all_executed());
}

#[test]
fn a_text_that_normalises_to_the_same_stops_there() {
    let lab = lab();
    lab.run();
    lab.write(
        "data/metadata.csv",
        &clips(20).replace("Lause numero 7.", "LAUSE \u{200B}numero  7."),
    );
    let again = lab.run();
    let executed = ["texts", "said", "split", "audit", "listed"].map(|stage| again.executed(stage));
    assert_eq!(executed, [1, 0, 0, 0, 0], "{:?}", again.all_executed());
}

#[test]
fn one_more_row_costs_one_item_and_another_order_none() {
    let lab = lab();
    lab.run();
    lab.write("data/metadata.csv", &clips(21));
    let again = lab.run();
    assert_eq!((again.executed("texts"), again.executed("said")), (1, 1));
    let mut rows: Vec<String> = clips(21).lines().map(str::to_owned).collect();
    rows.reverse();
    lab.write("data/metadata.csv", &rows.join("\n"));
    let reordered = lab.run();
    assert_eq!(
        (reordered.executed("texts"), reordered.executed("said"), reordered.executed("split")),
        (0, 0, 0)
    );
}

#[test]
fn a_filter_that_keeps_nothing_says_at_once_what_left_everything_out() {
    let lab = lab();
    let notes = || {
        let told = |event| match event {
            Event::Note { stage: Some(stage), message } if stage == "some" => Some(message),
            _ => None,
        };
        lab.run().events.into_iter().filter_map(told).collect::<Vec<String>>()
    };
    assert_eq!(notes(), Vec::<String>::new());
    lab.write("pipeline.toml", &PIPELINE.replace("\"anna\"", "\"nobody\""));
    let told = "warning: no item is left of 20 (left out by `speaker`: 20); the stage has `where`";
    assert_eq!(notes(), [told]);
}
