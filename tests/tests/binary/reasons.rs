//! The reasons that `why` gives for one item.

use throstle_tests::{Project, RanProgram, command, voice};

use crate::small::done;

fn small_world(project: &Project, arguments: &[&str]) -> String {
    let output = command("small_world", project.path(), arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn run(project: &Project) {
    let output = command("small_world", project.path(), &["run", ".", "--json"]).output().unwrap();
    assert_eq!(RanProgram::of(output).code, Some(0));
}

#[test]
fn a_new_model_is_why_an_item_was_done_again() {
    let project = voice::project(4);
    run(&project);
    project.replace("pipeline.toml", "steps = 60", "steps = 50");
    run(&project);
    let why = small_world(&project, &["why", "again", "clip00001"]);
    let model = "`weights` of the artifact on `model` changed from tensor ";
    assert!(why.starts_with(model) && why.contains(" since the run before run 2"), "{why}");
    assert!(!why.contains("nothing"), "{why}");
}

#[test]
fn a_changed_parameter_is_why_an_item_is_done_again() {
    let project = done();
    project.replace("pipeline.toml", "| wc -w >", "| wc -c >");
    for (before, since) in [(true, "run 1"), (false, "the run before run 2")] {
        if !before {
            assert_eq!(project.run().executed()["words"], 5);
        }
        let why = project.why(&["words", "a"]);
        assert!(why.starts_with("parameter `command` changed from "), "{why}");
        assert!(why.trim_end().ends_with(&format!(" since {since}")), "{why}");
    }
}

#[test]
fn without_its_stat_index_a_source_still_says_that_files_changed() {
    let project = done();
    let index = project.names(".throstle").into_iter().find(|name| name.contains("stat"));
    project.remove(&format!(".throstle/{}", index.unwrap()));
    project.replace("data/metadata.csv", "Sana a.", "Toinen sana a.");
    let why = project.why(&["clips"]);
    assert!(why.contains("its files changed; the record of the earlier files is gone"), "{why}");
    assert!(!why.contains("no longer in the cache"), "{why}");
}

#[test]
fn an_item_that_changed_together_with_a_parameter_has_both_reasons() {
    let project = done();
    project.replace("pipeline.toml", "| wc -w >", "| wc -c >");
    project.replace("data/metadata.csv", "Sana a.", "Toinen sana a.");
    assert_eq!(project.run().executed()["words"], 5);
    let why = project.why(&["words", "a"]);
    assert!(why.contains("field `text` of `a` changed since the run before run 2"), "{why}");
    assert!(why.contains("parameter `command` changed"), "{why}");
    let why = project.why(&["words", "b"]);
    assert!(!why.contains("field") && why.contains("parameter `command` changed"), "{why}");
}

#[test]
fn an_input_that_is_no_longer_there_is_a_reason() {
    let project = voice::project(4);
    run(&project);
    project.replace("pipeline.toml", "base = \"assets.base\"\n", "");
    let why = small_world(&project, &["why", "model"]);
    assert!(why.contains("the number of references on `base` changed from 1 to 0"), "{why}");
}

#[test]
fn the_name_of_a_matrix_asks_for_all_its_instances() {
    let project = done();
    project.edit("pipeline.toml", |text| {
        let text = text.replace(
            "\nexport = \"out/{id}.txt\"",
            "\nmatrix = { on_failure = [\"reject\", \"fail\"] }",
        );
        text.replace("[\"clips\", \"words\"]", "\"clips\"")
    });
    let why = project.why(&["words"]);
    assert!(
        why.contains("words[on_failure=reject]") && why.contains("words[on_failure=fail]"),
        "{why}"
    );
    assert_eq!(project.output(&["why", "word"]).status.code(), Some(2));
}

#[test]
fn what_was_collected_is_unknown_and_not_new() {
    let project = done();
    project.replace("data/metadata.csv", "Sana a.", "Toinen sana a.");
    assert_eq!(project.run().executed()["words"], 1);
    assert!(project.why(&["words", "b"]).contains("nothing that the stage reads"));
    project.printed(&["cache", "gc", "--keep-runs", "1", "--yes"]);
    let why = project.why(&["words", "b"]);
    assert!(why.contains("is unknown, since `throstle cache gc` has removed"), "{why}");
    let told = project.printed(&["why", "words", "b", "--json"]);
    assert!(told.contains("\"state\":\"unknown\""), "{told}");
}
