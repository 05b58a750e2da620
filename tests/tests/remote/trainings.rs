//! A training that continues on another machine.

use std::sync::Arc;

use cache::Cache;
use engine::engine::{Engine, RunOptions};
use engine::mirror;
use remote::{Remote, Settings};
use stage_core::event::{Event, Status};
use throstle_tests::Lab;
use throstle_tests::training::{MANIFEST, STEPS, checkpoint, lab, weights};

fn engine(lab: &Lab, cache: &Cache, url: &str) -> Engine {
    let (address, settings) = (url.parse().unwrap(), Settings::default());
    let remote = Remote::open(address, settings, mirror::rules(), cache.clone()).unwrap();
    Engine { remote: Some(Arc::new(remote)), ..lab.engine() }
}

/// A run that stops after this many checkpoints; the status, and the steps that it has done.
fn run(lab: &Lab, url: &str, checkpoints: usize) -> (Status, Vec<u64>) {
    let cache = lab.cache();
    let options = RunOptions::default();
    let (mut kept, mut steps) = (0, Vec::new());
    let mut sink = |event: Event| match event {
        Event::CheckpointKept { .. } => {
            kept += 1;
            if kept == checkpoints {
                options.stop.request();
            }
        }
        Event::Metrics { step, .. } => steps.push(step),
        _ => {}
    };
    let engine = engine(lab, &cache, url);
    let status = engine.run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
    (status, steps)
}

#[test]
fn a_training_that_was_stopped_goes_on_from_its_checkpoint_on_another_machine() {
    let undisturbed = lab();
    undisturbed.run();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().to_str().unwrap());
    let one = lab();
    // So slow that it cannot finish before the stop arrives; its speed enters no key.
    one.write("pipeline.toml", &MANIFEST.replace("retries = 2", "pause = \"100ms\""));
    assert_eq!(run(&one, &url, 2).0, Status::Paused);
    let saved = checkpoint(&one);
    assert!((2..STEPS).contains(&saved), "{saved}");
    let other = lab();
    let (status, steps) = run(&other, &url, usize::MAX);
    assert_eq!(status, Status::Done);
    assert_eq!(steps, (saved + 1..=STEPS).collect::<Vec<_>>());
    assert_eq!(weights(&other), weights(&undisturbed));
}
