//! A training that continues on another machine.

use std::sync::Arc;
use std::time::Duration;

use cache::Cache;
use engine::engine::{Engine, RunOptions};
use engine::event::{Event, Status};
use engine::mirror;
use remote::{Remote, Settings};
use throstle_tests::Lab;
use throstle_tests::training::{MANIFEST, STEPS, checkpoint, lab, weights};

use super::store::{self, Memory};

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

/// A training of many steps, with a pause before each.
fn long(pause: &str) -> Lab {
    let lab = lab();
    let settings = format!("retries = 2\nsteps = 60\npause = \"{pause}\"");
    lab.write("pipeline.toml", &MANIFEST.replace("retries = 2", &settings));
    lab
}

/// A run with a remote in memory, which stops at a checkpoint as soon as this is true.
fn attempt(
    lab: &Lab,
    memory: &Arc<Memory>,
    is_slow: bool,
    stops: impl Fn() -> bool,
) -> (Status, Vec<u64>, Vec<String>) {
    let cache = lab.cache();
    let engine = Engine { remote: Some(store::remote(memory, is_slow, &cache)), ..lab.engine() };
    let options = RunOptions::default();
    let (mut steps, mut told) = (Vec::new(), Vec::new());
    let mut sink = |event: Event| match event {
        Event::CheckpointKept { .. } if stops() => options.stop.request(),
        Event::Metrics { step, .. } => steps.push(step),
        Event::Stopping { why } => told.push(why),
        Event::Note { message, .. } => told.push(message),
        _ => {}
    };
    let status = engine.run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
    (status, steps, told)
}

fn has_checkpoint(memory: &Memory, number: u64) -> bool {
    let end = format!("/{number:010}");
    memory.names("ckpt/").iter().any(|name| name.ends_with(&end))
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn of_two_attempts_at_a_training_the_older_one_stops_and_then_continues_from_the_newer_one() {
    let undisturbed = long("0s");
    undisturbed.run();
    let memory = Arc::new(Memory::default());
    // Requests of the first machine for the second number hang until the other has taken it.
    memory.hold("/0000000002");
    let (older, newer) = (long("200ms"), long("50ms"));
    let (old, new) = std::thread::scope(|scope| {
        let old = scope.spawn(|| attempt(&older, &memory, true, || false));
        until(|| has_checkpoint(&memory, 1));
        let new = attempt(&newer, &memory, false, || has_checkpoint(&memory, 2));
        memory.release();
        (old.join().unwrap(), new)
    });
    assert_eq!(new.0, Status::Paused, "{new:?}");
    assert!(new.1[0] > 1, "it continues from the first checkpoint: {new:?}");
    assert_eq!(old.0, Status::Paused, "{old:?}");
    let why = "stage `model`: another attempt at this training is further ahead in the remote";
    assert!(old.2.iter().any(|told| told.contains(why)), "{old:?}");
    let further = checkpoint(&newer);
    let (status, steps, told) = attempt(&older, &memory, false, || false);
    assert_eq!(status, Status::Done);
    assert_eq!(steps, (further + 1..=60).collect::<Vec<_>>(), "{told:?}");
    assert_eq!(weights(&older), weights(&undisturbed));
}

#[test]
fn a_machine_that_is_further_than_the_remote_loses_no_steps() {
    let memory = Arc::new(Memory::default());
    let (one, other) = (long("20ms"), long("20ms"));
    // The first one works without the remote, and gets further.
    let options = RunOptions::default();
    let mut sink = |event: Event| {
        if matches!(event, Event::CheckpointKept { .. }) && checkpoint(&one) >= 20 {
            options.stop.request();
        }
    };
    one.engine().run(&one.pipeline(), &one.cache(), &options, &mut sink).unwrap();
    let further = checkpoint(&one);
    attempt(&other, &memory, false, || has_checkpoint(&memory, 1));
    assert!(checkpoint(&other) < further);
    let (status, steps, _) = attempt(&one, &memory, false, || true);
    assert_eq!(status, Status::Paused);
    assert_eq!(steps[0], further + 1);
    // The other one continues from there.
    let saved = checkpoint(&one);
    let (_, steps, _) = attempt(&other, &memory, false, || true);
    assert_eq!(steps[0], saved + 1);
}

#[test]
fn a_pull_brings_the_checkpoint_of_an_unfinished_training() {
    let memory = Arc::new(Memory::default());
    let (one, other) = (long("20ms"), long("20ms"));
    attempt(&one, &memory, false, || has_checkpoint(&memory, 1));
    let saved = checkpoint(&one);
    let cache = other.cache();
    let remote = store::remote(&memory, false, &cache);
    let engine = Engine { remote: Some(Arc::clone(&remote)), ..other.engine() };
    let pipeline = other.pipeline();
    let plan = engine.plan(&pipeline, &cache, &[], &mut |_| {}).unwrap();
    let keys = plan.stages.iter().filter_map(|stage| Some(stage.known.keyed.as_ref()?.digest));
    let keys: Vec<_> = keys.collect();
    let wanted = mirror::wanted(&cache, &remote, keys.clone(), keys).unwrap();
    let before = remote.brought();
    remote.pull(&wanted, &|_, _| {}).unwrap();
    assert!(remote.brought() > before);
    drop((engine, remote, cache));
    // Without the remote.
    assert_eq!(throstle_tests::training::steps(&other.run())[0], saved + 1);
}

#[test]
fn a_push_lists_the_whole_remote_at_most_once() {
    let memory = Arc::new(Memory::default());
    let lab = Lab::new();
    throstle_tests::worlds::TEXTS.iter().for_each(|(name, text)| {
        lab.write(&format!("data/{name}.txt"), text);
    });
    attempt(&lab, &memory, false, || false);
    assert!(!memory.names("results/").is_empty());
    let whole = || memory.listed.lock().unwrap().iter().filter(|name| name.is_empty()).count();
    assert_eq!(whole(), 1, "{:?}", memory.listed.lock().unwrap());
    lab.write("data/another.txt", "another text");
    attempt(&lab, &memory, false, || false);
    assert_eq!(whole(), 1, "{:?}", memory.listed.lock().unwrap());
}
