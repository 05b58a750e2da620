//! `replay`: one item of a stage, or a whole stage, again and alone in a folder that is kept.

use std::process::Output;

use throstle_tests::{Project, command, write_clips};

/// The clip `bad` is quarantined, and the command's output about it is longer than a reason.
const MANIFEST: &str = r#"
[pipeline]
name = "replayed"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text", "audio"]
command = "echo heard; seq 1 3000 >&2; case {text} in *bad*) echo no such word >&2; exit 3;; esac; wc -c < {audio} > {out.words}"
outputs = { words = "words.txt" }
quarantine = 0.9
export = "out/{id}.txt"

[stage.counted]
use = "command.once"
input = "words"
fields = ["text"]
command = "wc -l < {items} > {out.lines}"
outputs = { lines = "lines.txt" }
export = "out/lines.txt"

[stage.summary]
use = "report.summary"
input = ["clips", "words"]
export = "out/summary.json"
"#;

fn fresh() -> Project {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "bad", "c"]);
    project
}

fn done() -> Project {
    let project = fresh();
    assert_eq!(throstle(&project, &["run"]).status.code(), Some(0));
    project
}

fn throstle(project: &Project, arguments: &[&str]) -> Output {
    command("small_world", project.path(), arguments).output().unwrap()
}

/// The exit code and the output on both streams.
fn replay(project: &Project, arguments: &[&str]) -> (Option<i32>, String) {
    let output = throstle(project, &[&["replay"], arguments].concat());
    let told = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(told).unwrap())
}

#[test]
fn a_stage_and_an_item_are_taken_in_either_order() {
    let project = done();
    let told = |arguments: &[&str]| {
        let output = throstle(&project, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for [first, second] in [["bad", "words"], ["words", "bad"]] {
        assert!(told(&["replay", first, second]).contains("replayed `bad` of `words`"));
        assert!(told(&["why", first, second]).contains("`bad`"));
    }
    assert!(
        told(&["retry", "bad", "words"])
            .contains("words: the next run tries 1 quarantined item again")
    );
    // Neither is a stage: the message is about the place where a stage is expected.
    let output = throstle(&project, &["replay", "bad", "wrods"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("no stage `wrods`") && errors.contains("did you mean `words`?"));
    let output = throstle(&project, &["why", "wrods", "bad"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("no stage `wrods`"));
}

#[test]
fn an_error_in_the_arguments_ends_with_a_line_break() {
    for line in [&["run", "--no-such-flag"][..], &["run", "--threads", "0"], &["items"]] {
        let errors = throstle(&fresh(), line).stderr;
        let errors = String::from_utf8(errors).unwrap();
        assert!(errors.ends_with("'--help'.\n"), "{errors:?}");
    }
}

#[test]
fn a_quarantined_item_shows_the_command_and_all_that_it_said() {
    let project = done();
    let (code, told) = replay(&project, &["bad", "words"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("it is quarantined (command-failed): "), "{told}");
    assert!(told.contains("the cache has the same result"), "{told}");
    let folder = ".throstle/replay/words/bad";
    let line = project.text(&format!("{folder}/command/line.sh"));
    assert!(line.starts_with("throstle_text='Sana bad.'\n"), "{line}");
    assert!(line.contains("case \"${throstle_text}\" in *bad*)"), "{line}");
    let said = project.text(&format!("{folder}/command/stderr.txt"));
    assert!(said.starts_with("1\n2\n") && said.ends_with("3000\nno such word\n"), "{}", said.len());
    assert_eq!(project.text(&format!("{folder}/command/stdout.txt")), "heard\n");
    let clip = project.read("data/wavs/bad.wav");
    assert_eq!(project.read(&format!("{folder}/in/audio.wav")), clip);
    assert!(project.text(&format!("{folder}/stage.txt")).contains("item = \"bad\""));
    assert!(project.text(&format!("{folder}/log.txt")).contains("no such word"));
}

#[test]
fn the_line_that_is_kept_can_be_run_by_hand() {
    let project = done();
    replay(&project, &["a", "words"]);
    let folder = project.file(".throstle/replay/words/a");
    std::fs::remove_file(folder.join("command/out/words.txt")).unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.arg("line.sh").current_dir(folder.join("command"));
    assert!(shell.output().unwrap().status.success());
    let made = std::fs::read_to_string(folder.join("command/out/words.txt")).unwrap();
    assert_eq!(made, project.text("out/a.txt"));
}

#[test]
fn an_item_gives_what_the_cache_holds() {
    let project = done();
    let (code, told) = replay(&project, &["a", "words"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("it made `words` "), "{told}");
    assert!(told.contains("the cache has the same result"), "{told}");
    let folder = ".throstle/replay/words/a";
    assert_eq!(project.text(&format!("{folder}/out/words.txt")), project.text("out/a.txt"));
}

#[test]
fn stages_that_work_on_all_items_are_replayed_whole() {
    let project = done();
    for (stage, made) in
        [("counted", "out/output/lines.txt"), ("summary", "out/output/summary.json")]
    {
        let (code, told) = replay(&project, &[stage]);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("the cache has the same result"), "{told}");
        let exported = made.replace("out/output", "out");
        let folder = format!(".throstle/replay/{stage}/whole");
        assert_eq!(project.text(&format!("{folder}/{made}")), project.text(&exported));
    }
    let folder = ".throstle/replay/counted/whole";
    assert_eq!(project.text(&format!("{folder}/in/input-words.jsonl")).lines().count(), 2);
    assert_eq!(project.text(&format!("{folder}/command/items.jsonl")).lines().count(), 2);
}

#[test]
fn what_is_never_the_same_is_told_and_changes_nothing() {
    let project = fresh();
    project.replace("pipeline.toml", "wc -c < {audio} >", "date +%s%N >");
    assert_eq!(throstle(&project, &["run"]).status.code(), Some(0));
    let (code, told) = replay(&project, &["a", "words"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("the result in the cache differs: another value of `words`"), "{told}");
    let before = project.text("out/a.txt");
    let again = throstle(&project, &["run"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("nothing to do"), "{again:?}");
    assert_eq!(project.text("out/a.txt"), before);
}

#[test]
fn work_that_was_never_done_is_done_in_the_folder_alone() {
    let project = done();
    let set = ["a", "words", "--set", "stage.words.command=echo new > {out.words}"];
    let (code, told) = replay(&project, &set);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("the cache has no result"), "{told}");
    let plan = throstle(&project, &[&["plan", ".", "words"][..], &set[2..]].concat());
    let plan = String::from_utf8(plan.stdout).unwrap();
    assert!(plan.contains("words") && plan.contains("dirty"), "it is still to do: {plan}");
}

#[test]
fn a_folder_that_was_asked_for_is_never_emptied() {
    let project = done();
    let arguments = ["a", "words", "--to", "look"];
    assert_eq!(replay(&project, &arguments).0, Some(0));
    assert_eq!(project.text("look/out/words.txt"), project.text("out/a.txt"));
    let (code, told) = replay(&project, &arguments);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("the folder `look` is not empty"), "{told}");
    assert_eq!(replay(&project, &arguments[..2]).0, replay(&project, &arguments[..2]).0);
}

#[test]
fn what_cannot_be_replayed_is_a_mistake_in_the_arguments() {
    let project = done();
    for (arguments, said) in [
        (&["nobody", "words"][..], "no item `nobody` arrives at `words`"),
        (&["words"], "`words` works on single items"),
        (&["a", "counted"], "`counted` works on all items together"),
        (&["clips"], "`clips` is a source"),
        (&["a", "wrds"], "has no stage `wrds`"),
    ] {
        let (code, told) = replay(&project, arguments);
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(said), "{told}");
    }
    let (code, told) = replay(&fresh(), &["a", "words"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("nothing has run here yet"), "{told}");
}

#[test]
fn a_stage_that_fails_ends_with_1_and_leaves_its_folder() {
    let project = done();
    let set = ["counted", "--set", "stage.counted.command=echo broken >&2; exit 4"];
    let (code, told) = replay(&project, &set);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("failed: the command ended with status 4"), "{told}");
    assert_eq!(project.text(".throstle/replay/counted/whole/command/stderr.txt"), "broken\n");
}

#[test]
fn an_item_that_has_not_arrived_yet_is_told_with_the_stage_above() {
    let project = fresh();
    project.edit("pipeline.toml", |text| {
        let above = "[stage.first]\nuse = \"command\"\ninput = \"clips\"\nfields = [\"text\"]\n\
                     command = \"[ {text} != 'Sana c.' ] && echo {text} > {out.first}\"\n\
                     outputs = { first = \"first.txt\" }\non_failure = \"fail\"\n\n[stage.words]";
        let text = text.replace("[stage.words]", above);
        text.replacen(
            "input = \"clips\"\nfields = [\"text\", \"audio\"]",
            "input = \"first\"\nfields = [\"text\", \"audio\"]",
            1,
        )
    });
    assert_eq!(throstle(&project, &["run"]).status.code(), Some(1));
    let (code, told) = replay(&project, &["c", "words"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("arrives at `words` yet: its upstream stages are not finished"),
        "{told}"
    );
}
