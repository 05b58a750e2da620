//! The weekly limit of GPU hours: counted in the index, enforced, and reported.

use std::sync::Arc;

use cache::Archiving;
use camino::Utf8PathBuf;
use engine::archive;
use engine::engine::WorkerCommand;
use engine::event::Status;
use engine::gc::GcLimits;
use engine::gpu_hours::{Usage, UsageRecord, seconds};
use engine::record::{USAGE, encode};
use throstle_tests::Lab;
use throstle_tests::train::Remote;
use throstle_tests::training::{MANIFEST, STEPS, checkpoint, lab, steps};

const HOUR: f64 = 3600.0;

/// A pipeline that trains on this device with 30 hours a week, the training's own settings added.
fn lab_on(device: &str, training: &str) -> Lab {
    let mut lab = lab();
    let remote = MANIFEST.replace("test.train", "test.remote-train");
    let settings = format!("device = \"{device}\"\n{training}");
    let manifest = remote.replace("retries = 2", &settings);
    lab.write("pipeline.toml", &format!("{manifest}\n[session]\ngpu_hours_per_week = 30\n"));
    lab.stages.push(Arc::new(Remote));
    lab.worker = WorkerCommand {
        program: Some(Utf8PathBuf::from(env!("CARGO_BIN_EXE_fake_worker"))),
        ..WorkerCommand::default()
    };
    lab
}

/// Records this number of GPU hours, that long ago.
fn use_gpus(lab: &Lab, hours_ago: f64, hours: f64) {
    let cache = lab.cache();
    let started = cache.fs().now() - (hours_ago * HOUR * 1e9) as i64;
    let (pipeline, run) = ("another".to_owned(), 1);
    let record = UsageRecord { pipeline, run, started, seconds: hours * HOUR };
    cache.record(USAGE, &record.key(), encode(&record)).unwrap();
    cache.commit().unwrap();
}

fn used(lab: &Lab) -> f64 {
    let cache = lab.cache();
    Usage::read(&cache).unwrap().seconds(seconds(cache.fs().now()))
}

#[test]
fn the_time_of_gpus_is_counted_and_that_of_the_processor_is_not() {
    let lab = lab_on("cpu", "");
    assert_eq!((lab.run().status, used(&lab)), (Status::Done, 0.0));
    let lab = lab_on("cuda:0", "");
    assert_eq!(lab.run().status, Status::Done);
    assert!(used(&lab) > 0.0);
    let before = used(&lab);
    assert!(lab.run().nothing_executed());
    assert_eq!(used(&lab), before);
}

#[test]
fn when_the_hours_are_used_up_only_what_needs_no_gpu_is_done() {
    let lab = lab_on("cuda:0", "");
    use_gpus(&lab, 100.0, 31.0);
    let ran = lab.run();
    assert_eq!((ran.status, steps(&ran)), (Status::Paused, vec![]), "{:?}", ran.events);
    assert!(ran.executed("loud") > 0);
    let told = ran.stopping();
    assert_eq!(told.len(), 1, "{told:?}");
    let sentence = "GPUs used 31h00m of their 30h00m weekly limit: 24h00m more available";
    assert!(told[0].starts_with(sentence), "{told:?}");
}

#[test]
fn hours_of_more_than_a_week_ago_count_no_longer() {
    let lab = lab_on("cuda:0", "");
    use_gpus(&lab, 200.0, 31.0);
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    assert_eq!(steps(&ran).last(), Some(&STEPS));
}

#[test]
fn training_saves_and_stops_when_the_limit_is_reached() {
    let lab = lab_on("cuda:0", "steps = 100000\nevery = 50000\npause = \"20ms\"");
    // Time enough for the worker to start and a few steps.
    use_gpus(&lab, 100.0, 30.0 - 6.0 / HOUR);
    let ran = lab.run();
    assert_eq!(ran.status, Status::Paused, "{:?}", ran.failures());
    assert_eq!(ran.stopping().len(), 1, "{:?}", ran.stopping());
    assert_eq!(Some(&checkpoint(&lab)), steps(&ran).last());
}

#[test]
fn the_hours_go_with_the_archive() {
    let (lab, other) = (lab_on("cuda:0", ""), lab_on("cuda:0", ""));
    use_gpus(&lab, 100.0, 31.0);
    let folder = lab.base().join("archive");
    let limits = GcLimits { keep_runs: 1, kept_since: None, most_bytes: None };
    let how =
        Archiving { folder: &folder, bases: &[], volume_bytes: 1 << 30, progress: &|_, _| {} };
    archive::pack(&lab.cache(), &limits, &how).unwrap();
    archive::unpack(&other.cache(), &[folder], &|_, _| {}).unwrap();
    assert_eq!((other.run().status, used(&other)), (Status::Paused, 31.0 * HOUR));
}
