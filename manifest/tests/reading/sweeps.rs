//! Sweeps: trials of a stage, and the stages that follow them.

use manifest::pipeline::Pipeline;
use stage_core::ParameterValue;

use crate::support::pipeline;

const SWEPT: &str = r#"
[stage.voice]
use = "audio.resample"
input = "clips"
rate = 16000
[stage.loud]
use = "audio.loudness"
input = "voice"
target = -20
[stage.quiet]
use = "audio.loudness"
input = "loud"
[stage.all]
use = "dataset.merge"
input = ["loud"]
"#;

fn names(pipeline: &Pipeline) -> Vec<&str> {
    pipeline.stages.iter().map(|stage| stage.name.as_str()).collect()
}

fn target(pipeline: &Pipeline, name: &str) -> ParameterValue {
    pipeline.find(name).unwrap().parameters.get("target").clone()
}

#[test]
fn what_depends_on_the_swept_stage_follows_and_the_rest_exists_once() {
    let over =
        "[sweep.level]\nstage = \"loud\"\nover = { target = [-23, -20, -16] }\ndraw = \"grid\"\n";
    let pipeline = pipeline(&format!("{SWEPT}{over}"));
    // -20 is as written, which trial 0 has.
    assert_eq!(
        names(&pipeline),
        [
            "clips",
            "voice",
            "loud[trial=0]",
            "loud[trial=1]",
            "loud[trial=3]",
            "quiet[trial=0]",
            "quiet[trial=1]",
            "quiet[trial=3]",
            "all"
        ]
    );
    let found =
        ["loud[trial=0]", "loud[trial=1]", "loud[trial=3]"].map(|name| target(&pipeline, name));
    assert_eq!(found, [-20.0, -23.0, -16.0].map(ParameterValue::Number));
    let quiet = pipeline.find("quiet[trial=3]").unwrap();
    let upstream: Vec<&str> = quiet.upstream().map(|id| pipeline.stage(id).name.as_str()).collect();
    assert_eq!(upstream, ["loud[trial=3]"]);
}

#[test]
fn draws_that_repeat_values_are_drawn_again() {
    let drawn = |targets: &str, more: &str| {
        let over =
            format!("[sweep.level]\nstage = \"loud\"\nover = {{ target = {targets} }}\n{more}\n");
        let pipeline = pipeline(&format!("{SWEPT}{over}"));
        let loud = pipeline.stages.iter().filter(|stage| stage.name.starts_with("loud["));
        let mut values: Vec<String> =
            loud.map(|stage| stage.parameters.get("target").to_string()).collect();
        let count = values.len();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), count, "{values:?}");
        count
    };
    for draw in ["sobol", "random"] {
        let more = format!("trials = 4\ndraw = \"{draw}\"");
        assert_eq!(drawn("[-23, -18, -16]", &more), 4, "{draw}");
        // There are no more.
        assert_eq!(drawn("[-23, -20]", &more), 2, "{draw}");
    }
}

#[test]
fn more_trials_leave_those_before_as_they_are() {
    let sweep = |trials: usize| {
        let over = format!(
            "[sweep.level]\nstage = \"loud\"\ntrials = {trials}\nover = {{ target = {{ from = -30, to = -10 }} }}\n"
        );
        pipeline(&format!("{SWEPT}{over}"))
    };
    let (few, many) = (sweep(4), sweep(8));
    assert_eq!(names(&few).iter().filter(|name| name.starts_with("loud[")).count(), 4);
    for name in names(&few).into_iter().filter(|name| name.starts_with("loud[")) {
        assert_eq!(target(&few, name), target(&many, name), "{name}");
    }
    for trial in 1..8 {
        let ParameterValue::Number(value) = target(&many, &format!("loud[trial={trial}]")) else {
            panic!("no number");
        };
        assert!((-30.0..=-10.0).contains(&value));
    }
}

#[test]
fn initial_values_keep_the_trials_when_another_one_is_written_into_the_stage() {
    let swept = |target: i64, initial: &str| {
        let stages = SWEPT.replace("target = -20", &format!("target = {target}"));
        let over = "over = { target = { from = -30.0, to = -10.0 } }";
        pipeline(&format!("{stages}[sweep.level]\nstage = \"loud\"\n{initial}{over}\n"))
            .sweeps
            .remove(0)
    };
    let before = swept(-20, "");
    let after = swept(-16, "initial = { target = -20 }\n");
    assert_eq!(before.trials, after.trials);
    assert_eq!(after.written, [("target", ParameterValue::Number(-16.0))]);
    assert_ne!(before.trials, swept(-16, "").trials);
}
