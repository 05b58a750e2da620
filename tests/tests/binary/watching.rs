//! `throstle watch` runs again after a change, and only then.

use nix::sys::signal::Signal;
use serde_json::Value;
use throstle_tests::{Project, Running, wav, write_clips};

const MANIFEST: &str = r#"
[pipeline]
name = "watched"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.voice]
use = "audio.resample"
input = "clips"
rate = 8000
export = "out/{id}.wav"
"#;

fn started() -> (Project, Running) {
    let project = Project::new(MANIFEST);
    write_clips(&project, &["a", "b", "c"]);
    let mut watch = Running::start(project.throstle(&["watch", ".", "--json"]));
    watch.read_until(|event| executed(event) == 3);
    (project, watch)
}

/// Replaces a clip atomically, since a write could be seen half-finished.
fn put(project: &Project, clip: &str, level: i16) {
    project.write(".throstle/new.wav", wav(level));
    std::fs::rename(project.file(".throstle/new.wav"), project.file(clip)).unwrap();
}

/// The number of clips that a finished run has resampled.
fn executed(event: &Value) -> u64 {
    let is_end = event["event"] == "finished";
    is_end.then(|| event["stages"]["voice"]["executed"].as_u64()).flatten().unwrap_or(0)
}

#[test]
fn a_clip_that_changes_is_run_again_alone() {
    let (project, mut watch) = started();
    put(&project, "data/wavs/b.wav", 30_000);
    watch.read_until(|event| executed(event) == 1);
    watch.send(Signal::SIGINT);
    assert_eq!(watch.code(), Some(0));
}

#[test]
fn a_manifest_may_be_broken_for_a_while() {
    let (project, mut watch) = started();
    project.replace("pipeline.toml", "rate = 8000", "rate = ");
    project.replace("pipeline.toml", "rate = ", "rate = 11025");
    watch.read_until(|event| executed(event) == 3);
    watch.send(Signal::SIGTERM);
    assert_eq!(watch.code(), Some(0));
}

/// The runs write their exports and the cache into the watched folder.
#[test]
fn what_a_run_writes_itself_makes_no_other_run() {
    let (project, mut watch) = started();
    put(&project, "data/wavs/a.wav", 20_000);
    watch.read_until(|event| executed(event) == 1);
    put(&project, "data/wavs/a.wav", 10_000);
    watch.read_until(|event| executed(event) == 1);
    watch.send(Signal::SIGINT);
    let runs = watch.ended().events.into_iter().filter(|event| event["event"] == "finished");
    assert_eq!(runs.map(|event| executed(&event)).collect::<Vec<_>>(), [3, 1, 1]);
}
