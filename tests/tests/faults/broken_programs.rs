//! Programs of `command` stages that fail on every item: the program is to blame.

use throstle_tests::{Project, RanProgram, command, write_clips};

/// The behaviour of the program comes from a file that is in no key, like a package that it needs.
const MANIFEST: &str = r#"
[pipeline]
name = "broken"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.words]
use = "command"
input = "clips"
fields = ["text", "audio"]
command = "text={text}; audio={audio}; out={out.words}; . {base}/program.sh"
outputs = { words = "words.txt" }
quarantine = 1.0
export = "out/{id}.txt"
"#;

const WORKS: &str = r#"echo "$text" > "$out""#;
/// Only the last line is the same for all, and the folder has another name each time.
const BROKEN: &str = r#"
echo "Traceback of $text:" >&2
echo "cannot load $audio: no module named x" >&2
exit 1
"#;

fn project(clips: usize, program: &str) -> Project {
    let project = Project::new(MANIFEST);
    let names: Vec<String> = (0..clips).map(|number| format!("{number:02}")).collect();
    write_clips(&project, &names.iter().map(String::as_str).collect::<Vec<_>>());
    project.write("program.sh", program);
    project
}

fn run(project: &Project, more: &[&str]) -> RanProgram {
    let arguments = [&["run", ".", "--json"], more].concat();
    RanProgram::of(command("small_world", project.path(), &arguments).output().unwrap())
}

#[test]
fn a_program_that_fails_alike_on_the_first_items_stops_and_leaves_no_verdict() {
    let project = project(40, BROKEN);
    let ran = run(&project, &[]);
    assert_eq!(ran.code, Some(1), "{:?}", ran.last());
    let failed = ran.all("stage-failed");
    assert_eq!(failed.len(), 1);
    assert_eq!(
        failed[0]["message"],
        "the first 20 items failed in the same way: the command ended with status 1; it said: \
         cannot load ./in/audio.wav: no module named x"
    );
    assert_eq!(ran.all("item-quarantined").len(), 0);
    assert!(ran.executed_in_any_case()["words"] < 40, "{:?}", ran.last());
    let listed = command("small_world", project.path(), &["items", "words", "--quarantined"]);
    let listed = { listed }.output().unwrap();
    assert_eq!(listed.status.code(), Some(1), "nothing was set aside: {listed:?}");

    project.write("program.sh", WORKS);
    let mended = run(&project, &[]);
    assert_eq!(mended.executed()["words"], 40);
    assert_eq!(project.names("out").len(), 40);
}

#[test]
fn with_as_many_items_as_could_fail_alike_by_chance_all_are_verdicts() {
    let project = project(20, BROKEN);
    let ran = run(&project, &[]);
    assert_eq!((ran.code, ran.quarantined("words")), (Some(0), 20), "{:?}", ran.errors);
    run(&project, &[]).assert_nothing_done();
}

#[test]
fn items_that_fail_each_in_its_own_way_are_set_aside() {
    let project = project(40, "echo \"cannot read $text\" >&2; exit 1");
    let ran = run(&project, &[]);
    assert_eq!((ran.code, ran.quarantined("words")), (Some(0), 40));
    run(&project, &[]).assert_nothing_done();
}

#[test]
fn items_that_succeed_show_that_the_others_are_to_blame() {
    let program = format!("case $text in *[05].) {WORKS}; exit 0;; esac\n{BROKEN}");
    let project = project(40, &program);
    let ran = run(&project, &[]);
    assert_eq!(ran.code, Some(0), "{:?}", ran.all("stage-failed"));
    assert_eq!((ran.quarantined("words"), project.names("out").len()), (32, 8));
    run(&project, &[]).assert_nothing_done();
}

#[test]
fn where_the_manifest_says_so_any_number_may_fail_alike() {
    let project = project(40, BROKEN);
    project.replace(
        "pipeline.toml",
        "quarantine = 1.0",
        "quarantine = 1.0\non_failure = \"reject-all\"",
    );
    let ran = run(&project, &[]);
    assert_eq!((ran.code, ran.quarantined("words")), (Some(0), 40));
}
