//! Time, memory, disk and money in `plan`, `run` and `status`.

use serde_json::Value;
use throstle_tests::Project;

use super::small::{MANIFEST, done, project};

const SESSION: &str = "[session]\nprice_per_hour = 1.2\nstop_after = \"1h\"\n";

fn plan(project: &Project, more: &[&str]) -> Value {
    let arguments = [&["plan", ".", "--json"], more].concat();
    serde_json::from_str(&project.printed(&arguments)).unwrap()
}

#[test]
fn a_plan_can_do_without_the_recordings_and_a_run_cannot() {
    let project = Project::new(MANIFEST);
    let plan = plan(&project, &[]);
    let reasons = plan["stages"]["clips"]["reasons"].to_string();
    assert!(reasons.contains("metadata.csv`"), "{reasons}");
    assert_eq!(plan["estimate"]["stages"]["clips"]["basis"], "formula");
    let assumed = plan["estimate"]["assumptions"].to_string();
    assert!(assumed.contains("`clips` gives 1000 clips of 6.0 s each"), "{assumed}");
    let output = project.output(&["run", "."]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_finished_run_leaves_nothing_to_estimate_and_says_how_near_it_came() {
    let project = done();
    assert_eq!(plan(&project, &[])["estimate"]["stages"], serde_json::json!({}));
    // No stage had run before, so nothing was expected of the whole run.
    let status = project.printed(&["status", "."]);
    assert!(!status.contains("expected ") && status.contains("took "), "{status}");
    project.printed(&["run", ".", "--set", "stage.words.salt=again"]);
    let status = project.printed(&["status", "."]);
    assert!(status.contains("expected ") && status.contains(", took "), "{status}");
}

#[test]
fn a_probe_measures_and_leaves_the_work_to_the_run() {
    let project = project();
    let plan = plan(&project, &["--probe"]);
    assert_eq!(plan["estimate"]["stages"]["words"]["basis"], "probe");
    assert_eq!(project.run().executed(), [("clips", 1), ("words", 5), ("summary", 1)].into());
}

#[test]
fn the_cost_of_a_change_is_told_before_it_is_made() {
    let project = done();
    project.edit("pipeline.toml", |text| format!("{text}\n{SESSION}"));
    let printed = project.printed(&["plan", ".", "--set", "stage.words.salt=again"]);
    assert!(printed.contains("compared with the unchanged manifest: time +"), "{printed}");
    let plan = plan(&project, &["--set", "stage.words.salt=again"]);
    let seconds = |total: &Value| total["seconds"]["likely"].as_f64().unwrap();
    assert_eq!(seconds(&plan["estimate"]["without_set"]), 0.0);
    assert!(seconds(&plan["estimate"]["total"]) > 0.0);
    assert_eq!(plan["estimate"]["fitted"]["left_out"], serde_json::json!([]));
    assert!(plan["estimate"]["stages"]["words"]["money"]["likely"].as_f64().is_some());
}

#[test]
fn the_size_of_resampled_sound_follows_its_rate() {
    let stages = "\n[stage.voice]\nuse = \"audio.resample\"\ninput = \"clips\"\n\
                  [stage.even]\nuse = \"audio.loudness\"\ninput = \"voice\"\n";
    let project = Project::of_clips(&["a", "b"], stages);
    let bytes = |stage: &str, rate: u32| {
        let plan = plan(&project, &["--set", &format!("stage.voice.rate={rate}")]);
        plan["estimate"]["stages"][stage]["disk_bytes"]["likely"].as_f64().unwrap()
    };
    for stage in ["voice", "even"] {
        let ratio = bytes(stage, 48_000) / bytes(stage, 8_000);
        assert!((ratio - 6.0).abs() < 0.01, "{stage}: {ratio}");
    }
}
