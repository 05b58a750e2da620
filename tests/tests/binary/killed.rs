//! The traces of a killed run: its number, its log, its cost.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use serde_json::Value;
use throstle_tests::{Project, Running};

/// A clip takes until there is a file `go`.
const HELD: &str = r#"
[session]
price_per_hour = 3600.0
budget = 1000.0

[stage.held]
use = "command"
input = "clips"
fields = ["text"]
command = """
while [ -e {base}/data ] && ! [ -e {base}/go ]; do sleep 0.02; done
echo {text} > {out.said}"""
outputs = { said = "said.txt" }
export = "out/{id}.txt"
"#;

fn project() -> Project {
    Project::of_clips(&["a"], HELD)
}

/// Kills a run that has begun to work; returns its number.
fn killed(project: &Project) -> u64 {
    let mut running = Running::start(project.throstle(&["run", ".", "--json"]));
    let number = running.read_to("started")["run"].as_u64().unwrap();
    running.read_to("stage-started");
    running.send(Signal::SIGKILL);
    assert_eq!(running.code(), None);
    number
}

fn history(project: &Project) -> Vec<(u64, String)> {
    let of = |line: &str| {
        let run: Value = serde_json::from_str(line).unwrap();
        (run["run"].as_u64().unwrap(), run["status"].as_str().unwrap().to_owned())
    };
    project.printed(&["history", "--json"]).lines().map(of).collect()
}

#[test]
fn every_run_has_a_number_and_a_log_of_its_own() {
    let project = project();
    let numbers: BTreeSet<u64> = (0..5).map(|_| killed(&project)).collect();
    assert_eq!(numbers, (1..=5).collect());
    project.write("go", "");
    assert_eq!(project.run().executed()["held"], 1);
    let ended: Vec<(u64, String)> = (1..=5).map(|run| (run, "killed".to_owned())).collect();
    assert_eq!(history(&project), [ended, vec![(6, "done".to_owned())]].concat());
    for run in 1..=5 {
        let log = project.printed(&["log", &run.to_string()]);
        assert!(log.contains(&format!("run {run} was killed")), "{log}");
    }
    assert!(!project.printed(&["log", "6"]).contains("killed"));
    let listed = project.printed(&["history"]);
    assert_eq!(listed.matches("killed").count(), 5, "{listed}");
}

#[test]
fn a_run_that_goes_on_is_no_killed_one() {
    let project = project();
    let mut running = Running::start(project.throstle(&["run", ".", "--json"]));
    running.read_to("stage-started");
    assert_eq!(history(&project), [(1, "running".to_owned())]);
    project.write("go", "");
    running.read_to("finished");
    assert_eq!(running.code(), Some(0));
    assert_eq!(history(&project), [(1, "done".to_owned())]);
}

#[test]
fn the_time_of_a_run_is_paid_for_from_its_start_to_its_end() {
    let project = project();
    let mut running = Running::start(project.throstle(&["run", ".", "--json"]));
    running.read_to("stage-started");
    // A unit of money is a second here.
    let spent = || {
        let status: Value = serde_json::from_str(&project.printed(&["status", "--json"])).unwrap();
        status["budget"]["spent"].as_f64().unwrap()
    };
    let start = std::time::Instant::now();
    let before_kill = loop {
        let spent = spent();
        if spent > 0.1 {
            break spent;
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "nothing is paid for");
    };
    running.send(Signal::SIGKILL);
    assert_eq!(running.code(), None);
    let after_kill = spent();
    assert!(after_kill >= before_kill, "{after_kill} of {before_kill}");
    // The last commit alone is not counted, since it makes the count durable.
    project.edit("pipeline.toml", |text| text.replace("echo {text}", "sleep 2; echo {text}"));
    project.write("go", "");
    let ran = project.run();
    let seconds = ran.last()["seconds"].as_f64().unwrap();
    let counted = spent() - after_kill;
    assert!(counted >= 2.0 && counted >= seconds / 2.0, "{counted} of {seconds}");
}
