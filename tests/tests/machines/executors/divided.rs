//! Stages that split items, and sweeps, on an executor: the results of one machine.

use std::path::Path;

use throstle_tests::train::score;
use throstle_tests::{Project, RanProgram, SPLIT_MANIFEST, command};

use super::places::{OTHER_MACHINE, notes};

const EXECUTOR: &str = r#"
[remote]
url = "file://FOLDER/remote"

[executor.boxes]
use = "command"
command = '''COMMAND'''
shard = "20s"
max_jobs = 3
poll = "100ms"
"#;

const SWEEP: &str = r#"
[pipeline]
name = "voice"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"

[stage.model]
use = "test.train"
input = "loud"
steps = 9
every = 3
executor = "boxes"
export = "out/{matrix}/model"

[stage.heard]
use = "test.judge"
input = "model"

[sweep.rate]
stage = "model"
over = { rate = { from = 0.1, to = 0.9 } }
of = "heard"
score = "mean(score)"
trials = 3
rungs = [3]
"#;

fn project(shared: &Path, manifest: &str, command: &str) -> Project {
    std::fs::create_dir(shared.join("remote")).unwrap();
    let executor = EXECUTOR.replace("COMMAND", command);
    let manifest = format!("{manifest}{executor}").replace("FOLDER", shared.to_str().unwrap());
    let project = Project::new(&manifest);
    let texts =
        [("anna1", "hello"), ("anna2", "good day"), ("ben1", "moin moin moin"), ("cleo1", "salut")];
    for (name, text) in texts {
        project.write(&format!("data/{name}.txt"), text);
    }
    project
}

fn run(project: &Project, arguments: &[&str]) -> RanProgram {
    let arguments = [&["run", ".", "--json"], arguments].concat();
    let ran = RanProgram::of(command("small_world", project.path(), &arguments).output().unwrap());
    assert_eq!(ran.last()["status"], "done", "{:?} {}", notes(&ran), ran.errors);
    ran
}

/// The same project without an executor and without a remote.
fn alone(project: &Project) -> Project {
    let alone = Project::copy_of(project.path(), &[".throstle", "out"]);
    alone.replace("pipeline.toml", "executor = \"boxes\"\n", "");
    run(&alone, &["--remote", "none"]);
    alone
}

/// The items of a stage with the digests of their fields.
fn items(project: &Project, stage: &str) -> String {
    let arguments = ["items", stage, "--format", "jsonl"];
    let output = command("small_world", project.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn children_of_split_items_are_those_of_one_machine_with_the_same_digests() {
    let shared = tempfile::tempdir().unwrap();
    let on_boxes =
        ["test.split", "test.twice"].iter().fold(SPLIT_MANIFEST.to_owned(), |text, kind| {
            text.replace(
                &format!("use = \"{kind}\"\n"),
                &format!("use = \"{kind}\"\nexecutor = \"boxes\"\n"),
            )
        });
    let project = project(shared.path(), &on_boxes, OTHER_MACHINE);
    let ran = run(&project, &[]);
    // Seven different children of four texts: two of the three words of `ben1` are the same.
    assert_eq!((ran.executed()["split"], ran.executed()["twice"]), (4, 6), "{:?}", notes(&ran));
    let started = |ran: &RanProgram| {
        let notes = notes(ran).into_iter();
        notes.filter(|note| note.starts_with("started ")).collect::<Vec<_>>()
    };
    assert_eq!(started(&ran).len(), 2, "a batch for each stage: {:?}", started(&ran));
    let here = alone(&project);
    assert_eq!(project.files("out"), here.files("out"));
    for stage in ["split", "twice"] {
        assert_eq!(items(&project, stage), items(&here, stage), "{stage}");
    }
    run(&project, &[]).assert_nothing_done();
    // A new word of one text is one job with one item in each of the two stages.
    project.write("data/anna2.txt", "good long day");
    let ran = run(&project, &[]);
    assert_eq!((ran.executed()["split"], ran.executed()["twice"]), (1, 1), "{:?}", notes(&ran));
    assert!(started(&ran).iter().all(|note| note.starts_with("started 1 job ")), "{ran:?}");
    let here = alone(&project);
    assert_eq!(project.files("out"), here.files("out"));
    assert_eq!(items(&project, "twice"), items(&here, "twice"));
}

#[test]
fn a_sweep_on_an_executor_has_the_models_and_the_winner_of_one_machine() {
    let shared = tempfile::tempdir().unwrap();
    let command = format!("echo $THROSTLE_BATCH >> FOLDER/jobs; {OTHER_MACHINE}-$THROSTLE_BATCH");
    let project = project(shared.path(), SWEEP, &command);
    run(&project, &[]);
    let here = alone(&project);
    let files = project.files("out");
    assert_eq!(files, here.files("out"));
    // One trial has made all steps, and the one with the best score has.
    let models: Vec<_> = files.iter().filter(|(name, _)| name.ends_with("weights")).collect();
    assert!(!models.is_empty(), "{:?}", files.keys());
    let scores: Vec<f64> = models.iter().map(|(_, weights)| score(weights)).collect();
    assert!(scores.iter().all(|score| score.is_finite()));
    // Three trials up to step 3, and the best one from there to the end.
    let jobs = std::fs::read_to_string(shared.path().join("jobs")).unwrap();
    assert_eq!(jobs.lines().count(), 4, "{jobs}");
    run(&project, &[]).assert_nothing_done();
}
