//! `sweep`, `compare` and `promote` as programs: trials are run, shown in every form, read by
//! TensorBoard, and written into the manifest.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use throstle_tests::browser::Browser;
use throstle_tests::worlds::TEXTS;
use throstle_tests::{Project, RanProgram, command};

const MANIFEST: &str = r#"
[pipeline]
name = "voice"

[stage.lines]
use = "test.lines"
folder = "data"

# What is tuned.
[stage.model]
use = "test.train"   # our own
input = "lines"
rate = 0.5           # a guess
steps = 9

[stage.heard]
use = "test.judge"
input = "model"

[sweep.rate]
stage = "model"
over = { rate = { from = 0.1, to = 0.9 } }
of = "heard"
score = "mean(score)"
trials = 9
rungs = 3
"#;

fn project() -> Project {
    let project = Project::new(MANIFEST);
    for (name, text) in TEXTS {
        project.write(&format!("data/{name}.txt"), text);
    }
    project
}

fn throstle(project: &Project, arguments: &[&str]) -> Output {
    command("small_world", project.path(), arguments).output().unwrap()
}

fn printed(project: &Project, arguments: &[&str]) -> String {
    let output = throstle(project, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn compared(project: &Project) -> Value {
    compared_with(project, "none")
}

/// Results that only the remote has are looked up there.
fn compared_with(project: &Project, remote: &str) -> Value {
    let arguments = ["compare", "rate", "--format", "json", "--remote", remote];
    serde_json::from_str(&printed(project, &arguments)).unwrap()
}

#[test]
fn a_sweep_is_run_shown_and_promoted() {
    let project = project();
    let plan = printed(&project, &["plan", "."]);
    assert!(plan.contains("waits for scores of rung 1 of sweep `rate`"), "{plan}");
    assert!(plan.contains("    rate = 0.5\n"), "the values of trials are listed: {plan}");
    let before = printed(&project, &["status"]);
    assert!(before.contains("9 trials, not decided yet, at most 26 % of the steps"), "{before}");

    let shown = printed(&project, &["sweep", "rate"]);
    let result = compared(&project);
    let rows = result["rows"].as_array().unwrap();
    let winner = &rows[0];
    assert_eq!((rows.len(), &winner["state"]), (9, &Value::from("winner")));
    let (trial, rate) = (winner["trial"].as_str().unwrap(), winner["rate"].as_str().unwrap());
    assert!(shown.contains(&format!("trial {trial} of 9 is best by mean(score)")), "{shown}");
    assert_eq!(rows.iter().filter(|row| row["rung 2"].is_number()).count(), 3);
    assert_eq!(rows.iter().filter(|row| row["rung 3"].is_number()).count(), 1);
    let status = printed(&project, &["status"]);
    assert!(status.contains(&format!("trial {trial} is best")), "{status}");
    assert!(status.contains(" 11.1% ") && !status.contains("11.11"), "{status}");
    let state: Value = serde_json::from_str(&printed(&project, &["status", "--json"])).unwrap();
    assert_eq!(state["sweeps"][0]["winner"], trial);

    // The trials stay what they are, and so do their results.
    let output = throstle(&project, &["promote", "best"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = match rate {
        "0.5" => panic!("nothing is promoted: choose another range"),
        rate => MANIFEST
            .replace("rate = 0.5  ", &format!("rate = {rate}  "))
            .replace("stage = \"model\"\n", "stage = \"model\"\ninitial = { rate = 0.5 }\n"),
    };
    assert_eq!(project.text("pipeline.toml"), expected);
    assert_eq!(compared(&project), result);
    run(&project).assert_nothing_done();
    // Another one, and the first one again.
    for trial in ["3", "0", trial] {
        printed(&project, &["promote", trial]);
        assert_eq!(compared(&project), result);
    }
    assert_eq!(project.text("pipeline.toml"), expected);
    // Without the sweep, the stage itself has the result of the winner.
    project.edit("pipeline.toml", |text| text.split("[sweep.rate]").next().unwrap().to_owned());
    run(&project).assert_nothing_done();
}

fn run(project: &Project) -> RanProgram {
    RanProgram::of(throstle(project, &["run", ".", "--json"]))
}

/// The events of a run with a folder as its remote.
fn run_with(project: &Project, remote: &str) -> RanProgram {
    RanProgram::of(throstle(project, &["run", ".", "--json", "--remote", remote]))
}

/// The trials of stages with at least one training step.
fn trained(ran: &RanProgram) -> BTreeSet<&str> {
    ran.all("metrics").into_iter().filter_map(|event| event["stage"].as_str()).collect()
}

fn is_failed(row: &Value) -> bool {
    row["state"].as_str().unwrap().starts_with("failed")
}

#[test]
fn another_machine_takes_over_a_failure_of_the_trial_and_not_one_of_the_machine() {
    let remote = tempfile::tempdir().unwrap();
    let url = format!("file://{}", remote.path().to_str().unwrap());
    let project = project();
    project.replace("pipeline.toml", "trials = 9\nrungs = 3", "draw = \"grid\"");
    project.replace(
        "pipeline.toml",
        "{ rate = { from = 0.1, to = 0.9 } }",
        "{ fails_at = [3, 100] }",
    );
    let ran = run_with(&project, &url);
    assert_eq!((ran.code, trained(&ran).len()), (Some(0), 3), "{}", ran.errors);
    let failed = compared(&project)["rows"][2].clone();
    let why = &failed["state"];
    assert_eq!((&failed["fails_at"], why), (&"3".into(), &"failed: the loss is no number".into()));
    let other = Project::copy_of(project.path(), &[".throstle"]);
    let ran = run_with(&other, &url);
    assert_eq!((ran.code, trained(&ran)), (Some(0), BTreeSet::new()), "{}", ran.errors);
    assert_eq!(compared_with(&other, &url)["rows"], compared(&project)["rows"]);

    // A slow machine runs into the time limit; another one has to find that out itself.
    let slow = Project::copy_of(project.path(), &[".throstle"]);
    slow.replace("pipeline.toml", "fails_at = [3, 100]", "steps = [300, 10]");
    slow.replace(
        "pipeline.toml",
        "steps = 9",
        "steps = 9\nevery = 100\npause = \"50ms\"\ntimeout = \"4s\"",
    );
    let ran = run_with(&slow, &url);
    assert_eq!(ran.code, Some(0), "{}", ran.errors);
    let late = compared(&slow)["rows"][2].clone();
    assert!(late["steps"] == "300" && is_failed(&late), "{late}");
    let again = run_with(&slow, &url);
    assert_eq!((again.code, trained(&again)), (Some(0), BTreeSet::new()));
    let other = Project::copy_of(slow.path(), &[".throstle"]);
    other.replace("pipeline.toml", "pause = \"50ms\"", "pause = \"0s\"");
    let ran = run_with(&other, &url);
    assert_eq!((ran.code, trained(&ran).len()), (Some(0), 1), "{}", ran.errors);
    assert!(
        compared(&other)["rows"].as_array().unwrap().iter().all(|row| row["state"] != "failed")
    );
}

#[test]
fn a_comparison_is_written_in_every_form() {
    let project = project();
    printed(&project, &["sweep", "rate"]);
    let of = |format: &str| printed(&project, &["compare", "rate", "--format", format]);
    let markdown = of("markdown");
    let lines: Vec<&str> = markdown.lines().collect();
    assert_eq!(lines[0], "| trial | rate | rung 1 | rung 2 | rung 3 | state |");
    assert_eq!(lines[1], "| --- | --- | ---: | ---: | ---: | --- |");
    assert!(lines.len() == 11 && lines[2].ends_with("| winner |"), "{markdown}");
    let csv = of("csv");
    let best: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    let exact = compared(&project)["rows"][0]["rung 3"].as_f64().unwrap();
    assert_eq!(best[4].parse::<f64>().unwrap(), exact, "numbers have all their digits");
    let output = throstle(&project, &["compare", "rate", "--format", "html"]);
    assert_eq!(output.status.code(), Some(0));
    let page = project.text("compare.html");
    assert!(page.contains("<table class=\"sortable\"") && page.contains("Sweep rate"));
    assert_page_is_sorted_and_drawn(&project.file("compare.html"));
    for (file, told) in [(".throstle/x", "is in the cache"), ("pipeline.toml", "is a file of the")]
    {
        for format in ["csv", "html", "tensorboard"] {
            let arguments = ["compare", "rate", "--format", format, "-o", file];
            let output = throstle(&project, &arguments);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
            assert!(errors.contains(told), "{errors}");
        }
    }
    let to_output = ["compare", "rate", "--format", "tensorboard", "-o", "-"];
    let output = throstle(&project, &to_output);
    assert!(output.status.code() == Some(2) && !project.file("-").exists(), "{output:?}");
    for (arguments, told) in [
        (["compare", "rite"], "rite"),
        (["sweep", "rite"], "did you mean `rate`?"),
        (["promote", "77"], "has no trial `77`"),
        (["compare", "lines"], "no finished training in lines"),
    ] {
        let output = throstle(&project, &arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() != Some(0) && errors.contains(told),
            "{arguments:?}: {errors}"
        );
    }
}

/// In a real browser: a heading sorts the trials, and the curves of several are in one chart.
fn assert_page_is_sorted_and_drawn(page: &Path) {
    let mut browser = Browser::open(page);
    let mut sorted = |column: usize| -> Vec<Option<f64>> {
        let rows = browser.evaluate(&format!(
            "(() => {{
                const table = document.querySelector('table.sortable');
                table.querySelectorAll('th button')[{column}].click();
                return [...table.tBodies[0].rows].map(row => {{
                    const {{ order }} = row.cells[{column}].dataset;
                    const shown = order ?? row.cells[{column}].textContent;
                    return shown === '' ? null : Number(shown);
                }});
            }})()"
        ));
        serde_json::from_value(rows).unwrap()
    };
    let trials = sorted(0);
    assert_eq!(trials, (0..9).map(|trial| Some(f64::from(trial))).collect::<Vec<_>>());
    // Three trials have a second rung; those without are last in both directions.
    let (rising, falling) = (sorted(3), sorted(3));
    let of = |rung: &[Option<f64>]| rung[..3].iter().flatten().copied().collect::<Vec<_>>();
    let (mut up, down) = (of(&rising), of(&falling));
    assert!(up.len() == 3 && up.is_sorted() && rising[3..] == [None; 6], "{rising:?}");
    up.reverse();
    assert!(up == down && falling[3..] == [None; 6], "{falling:?}");
    let chart = browser.evaluate(
        "(() => {
            const chart = document.querySelector('.charts svg');
            const lines = [...chart.querySelectorAll('polyline')].filter(line => line.points.length > 1);
            return new Set(lines.map(line => getComputedStyle(line).stroke)).size;
        })()",
    );
    assert!(chart.as_u64().unwrap() >= 2, "{chart} curves");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_sweep_without_money_ends_with_75_promotes_nobody_and_goes_on_with_more() {
    let manifest = |budget: f64| {
        let slow = MANIFEST.replace("steps = 9", "steps = 9\npause = \"200ms\"");
        format!("{slow}\n[session]\nprice_per_hour = 3600\nbudget = {budget}\n")
    };
    let whole = project();
    whole.write("pipeline.toml", manifest(1e6));
    printed(&whole, &["sweep", "rate"]);
    let project = project();
    // A second costs 1, and the last rung alone takes longer.
    let (mut budget, mut pauses) = (1.0, 0);
    loop {
        project.write("pipeline.toml", manifest(budget));
        let output = throstle(&project, &["sweep", "rate"]);
        let errors = String::from_utf8(output.stderr).unwrap();
        if output.status.code() == Some(0) {
            break;
        }
        assert_eq!(output.status.code(), Some(75), "{errors}");
        assert!(errors.contains("budget: ") && errors.contains("raise `budget`"), "{errors}");
        let rows = compared(&project)["rows"].clone();
        assert!(rows.as_array().unwrap().iter().all(|row| row["state"] != "winner"), "{rows}");
        (budget, pauses) = (budget * 2.0, pauses + 1);
    }
    assert!(pauses > 0);
    assert_eq!(compared(&project), compared(&whole));
    run(&project).assert_nothing_done();
}

#[test]
fn values_are_promoted_through_a_link_and_in_lines_of_windows() {
    let project = project();
    let text = MANIFEST.replace("rate = 0.5           # a guess\n", "").replace('\n', "\r\n");
    project.write("shared/voice.toml", &text);
    std::fs::remove_file(project.file("pipeline.toml")).unwrap();
    std::os::unix::fs::symlink("shared/voice.toml", project.file("pipeline.toml")).unwrap();
    let output = throstle(&project, &["promote", "3"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("`initial` of `[sweep.rate]` keeps the values of trial 0"), "{errors}");
    let link = std::fs::symlink_metadata(project.file("pipeline.toml")).unwrap();
    let promoted = project.text("shared/voice.toml");
    assert!(link.is_symlink() && promoted.contains("\r\nrate = "), "{promoted:?}");
    assert_eq!(promoted.matches('\n').count(), promoted.matches("\r\n").count());
}

#[test]
fn a_trial_that_is_not_known_yet_cannot_be_promoted_and_no_value_is_written() {
    let project = project();
    let output = throstle(&project, &["promote", "best"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && errors.contains("no best trial yet"), "{errors}");
    let dry = printed(&project, &["promote", "3", "--dry-run"]);
    assert!(dry.contains("# a guess") && dry != MANIFEST);
    assert_eq!(project.text("pipeline.toml"), MANIFEST);
}

/// Prints the session groups as the view of hyperparameters has them. Made for tensorboard 2.20.0;
/// `tools/reference.sh` installs it.
const READER: &str = r#"
import json, sys
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

multiplexer = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
multiplexer.Reload()
provider = data_provider.MultiplexerDataProvider(multiplexer, sys.argv[1])
context = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir=sys.argv[1]))
request = api_pb2.ListSessionGroupsRequest(
    start_index=0, slice_size=100, allowed_statuses=[api_pb2.STATUS_SUCCESS, api_pb2.STATUS_UNKNOWN])
column = request.col_params.add()
column.metric.group, column.metric.tag = "", "score"
response = list_session_groups.Handler(RequestContext(), context, "", request).run()
groups = {}
for group in response.session_groups:
    values = {name: value.number_value for name, value in group.hparams.items()}
    scores = [metric.value for metric in group.metric_values if metric.name.tag == "score"]
    groups[group.name] = {"values": values, "scores": scores, "sessions": len(group.sessions)}
print(json.dumps(groups))
"#;

#[test]
fn tensorboard_reads_trials_with_their_values_and_scores() {
    let project = project();
    project.replace("pipeline.toml", "rungs = 3", "rungs = 2\nrepeat = 2");
    printed(&project, &["sweep", "rate"]);
    let output =
        throstle(&project, &["compare", "rate", "--format", "tensorboard", "-o", "runs/mine"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("runs/mine: 12 runs"), "{told}");
    assert_eq!(project.names("runs/mine").len(), 9 + 3);
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.reference/bin/python");
    let import = Command::new(&python).args(["-c", "import tensorboard"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: no TensorBoard in .reference");
        return;
    }
    let mut reader = Command::new(&python);
    let output = reader.args(["-c", READER]).arg(project.file("runs/mine")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let groups: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = compared(&project)["rows"].as_array().unwrap().clone();
    assert_eq!(groups.as_object().unwrap().len(), 9);
    for row in rows {
        let group = &groups[format!("trial-{}", row["trial"].as_str().unwrap())];
        let rate: f64 = row["rate"].as_str().unwrap().parse().unwrap();
        assert_eq!(group["values"]["rate"], rate, "{group}");
        let is_finalist = row["mean"].is_number();
        assert_eq!(group["sessions"], if is_finalist { 2 } else { 1 });
        let score = if is_finalist {
            row["mean"].as_f64().unwrap()
        } else {
            row["rung 1"].as_f64().unwrap()
        };
        let found = group["scores"][0].as_f64().unwrap();
        assert!((found - score).abs() < 1e-6, "{group} has not {score}");
    }
}
