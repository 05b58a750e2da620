//! `retry` forgets verdicts, and nothing else.

use serde_json::{Value, json};
use throstle_tests::{Project, write_clips};

/// Clips `b` and `d` are refused as long as there is no server.
const MANIFEST: &str = r#"
[pipeline]
name = "served"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"
quarantine = 1.0

[stage.words]
use = "command"
input = "clips"
fields = ["text"]
command = "case {text} in *b.|*d.) [ -e {base}/server ] || exit 3;; esac; echo {text} > {out.words}"
outputs = { words = "words.txt" }
quarantine = 1.0
export = "out/{id}.txt"

[stage.summary]
use = "report.summary"
input = "words"
export = "out/summary.json"
"#;

fn project() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b", "c", "d"]);
    assert_eq!(project.run().quarantined("words"), 2);
    project.run().assert_nothing_done();
    project.write("server", "");
    project.run().assert_nothing_done();
    project
}

#[test]
fn all_verdicts_of_a_stage_are_forgotten_and_its_results_stay() {
    let project = project();
    let said = project.printed(&["retry", "words"]);
    assert_eq!(said, "words: the next run tries 2 quarantined items again\n");
    let ran = project.run();
    assert_eq!(ran.executed(), [("words", 2), ("summary", 1)].into());
    assert_eq!((ran.reused("words"), ran.quarantined("words")), (2, 0));
    assert_eq!(project.names("out"), ["a.txt", "b.txt", "c.txt", "d.txt", "summary.json"]);
    project.run().assert_nothing_done();
    assert_eq!(project.printed(&["retry", "words"]), "words: no quarantined items\n");
}

#[test]
fn the_verdict_on_one_item_is_forgotten_alone() {
    let project = project();
    let said: Value =
        serde_json::from_str(&project.printed(&["retry", "words", "b", "--json"])).unwrap();
    assert_eq!(said, json!({ "forgotten": { "words": ["b"] } }));
    let ran = project.run();
    assert_eq!(ran.executed(), [("words", 1), ("summary", 1)].into());
    assert_eq!(ran.quarantined("words"), 1);
    let listed = project.printed(&["items", "words", "--quarantined", "--format", "csv"]);
    assert!(listed.contains("d,") && !listed.contains("b,"), "{listed}");
}

#[test]
fn an_item_without_a_verdict_is_told() {
    let project = project();
    let output = project.output(&["retry", "words", "a"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.contains("`words` has not quarantined an item `a`"), "{told}");
    project.run().assert_nothing_done();
}

/// A verdict of the last run would be reused for an unchanged item.
#[test]
fn verdicts_are_forgotten_though_other_items_changed_meanwhile() {
    let project = project();
    project.replace("data/metadata.csv", "Sana a.", "Toinen a.");
    project.printed(&["retry", "words"]);
    let ran = project.run();
    assert_eq!((ran.executed()["words"], ran.quarantined("words")), (3, 0));
}

#[test]
fn a_source_that_refused_a_file_is_read_again() {
    let project = project();
    project.edit("data/metadata.csv", |rows| format!("{rows}gone.wav|Sana e.|aino\n"));
    assert_eq!(project.run().quarantined("clips"), 1);
    project.run().assert_nothing_done();
    let said: Value =
        serde_json::from_str(&project.printed(&["retry", "clips", "--json"])).unwrap();
    assert_eq!(said["forgotten"]["clips"].as_array().unwrap().len(), 1);
    assert_eq!(project.run().executed_in_any_case().get("clips"), Some(&1));
}
