//! A training as a job: it saves when it is warned, and the next job goes on to the same bits.

use std::path::Path;

use serde_json::Value;
use throstle_tests::{Project, RanProgram, Running, command};

use super::places::notes;

const MANIFEST: &str = r#"
[pipeline]
name = "voice"

[remote]
url = "file://FOLDER/remote"

[executor.boxes]
use = "command"
command = '''COMMAND'''
poll = "100ms"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"

[stage.model]
use = "test.train"
input = "loud"
steps = 60
every = 20
pause = "50ms"
executor = "boxes"
export = "out/model"
"#;

/// Starts the worker on a machine of its own for each attempt, and sends a signal to the first one
/// when it has logged a step.
const SIGNALLED: &str = r#"
n=1; while ! mkdir FOLDER/machine-$n 2>/dev/null; do n=$((n + 1)); done
$THROSTLE_WORK --cache FOLDER/machine-$n/cache & worker=$!
if [ $n = 1 ]; then
  until grep -q metrics FOLDER/machine-1/cache/runs/*.jsonl; do kill -0 $worker || exit 1; sleep 0.05; done
  kill -SIGNAL $worker
fi
wait $worker
"#;

fn project(shared: &Path, signal: &str) -> Project {
    std::fs::create_dir(shared.join("remote")).unwrap();
    let manifest = MANIFEST.replace("COMMAND", &SIGNALLED.replace("SIGNAL", signal));
    let project = Project::new(&manifest.replace("FOLDER", shared.to_str().unwrap()));
    for name in ["a", "b", "c"] {
        project.write(&format!("data/{name}.txt"), format!("text of {name}"));
    }
    project
}

fn run(project: &Project, arguments: &[&str]) -> RanProgram {
    let arguments = [&["run", ".", "--json"], arguments].concat();
    Running::start(command("small_world", project.path(), &arguments)).ended()
}

/// The steps in the logs of all machines, sorted.
fn steps(shared: &Path) -> Vec<u64> {
    let logs = std::fs::read_dir(shared.join("remote/logs")).unwrap();
    let mut steps = Vec::new();
    for log in logs {
        let text = std::fs::read_to_string(log.unwrap().path()).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let metrics = events.filter(|event| event["event"] == "metrics");
        steps.extend(metrics.map(|event| event["step"].as_u64().unwrap()));
    }
    steps.sort_unstable();
    steps
}

fn weights_of_one_machine(project: &Project) -> Vec<u8> {
    let alone = Project::copy_of(project.path(), &[".throstle", "out"]);
    alone.replace("pipeline.toml", "executor = \"boxes\"\n", "");
    assert_eq!(run(&alone, &["--remote", "none"]).code, Some(0));
    alone.read("out/model/weights")
}

#[test]
fn a_warned_training_saves_and_the_next_job_goes_on_to_the_same_bits() {
    let shared = tempfile::tempdir().unwrap();
    let project = project(shared.path(), "USR1");
    let ran = run(&project, &[]);
    assert_eq!(ran.executed()["model"], 1, "{:?}", notes(&ran));
    assert!(notes(&ran).iter().any(|note| note.contains("attempt 2")), "{:?}", notes(&ran));
    assert_eq!(steps(shared.path()), (1..=60).collect::<Vec<_>>(), "each step is made once");
    assert_eq!(project.read("out/model/weights"), weights_of_one_machine(&project));
    run(&project, &[]).assert_nothing_done();
}

#[test]
fn a_killed_training_is_made_by_another_job_with_the_same_bits() {
    let shared = tempfile::tempdir().unwrap();
    let project = project(shared.path(), "KILL");
    let ran = run(&project, &[]);
    assert_eq!(ran.executed()["model"], 1, "{:?}", notes(&ran));
    assert_eq!(project.read("out/model/weights"), weights_of_one_machine(&project));
}
