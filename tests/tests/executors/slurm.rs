//! The adapter to Slurm, with a Slurm of shell scripts.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use throstle_tests::{RanProgram, Running, send};

use crate::fake::FakeSlurm;
use crate::places::{Place, WORDS, is_reproducible, notes};

const EXECUTOR: &str = "use = \"slurm\"\npartition = \"gpu\"\ntime = \"1h\"\n\
                        flags = [\"--mem=1G\"]\ncache = \"FOLDER/node\"\n";

fn start(place: &Place, slurm: &FakeSlurm) -> Running {
    let mut command = place.project.throstle(&["run", ".", "--json"]);
    command.env("PATH", slurm.search_path());
    Running::start(command)
}

fn run(place: &Place, slurm: &FakeSlurm) -> RanProgram {
    start(place, slurm).ended()
}

fn slow() -> String {
    format!("sleep 0.5; echo {{text}} >> FOLDER/done; {WORDS}")
}

fn read_to_begin(running: &mut Running) {
    running.read_until(|event| {
        event["message"].as_str().is_some_and(|message| message.contains("runs on `n"))
    });
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_array_for_each_stage_gives_the_results_of_one_machine() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, WORDS));
    let ran = run(&place, &slurm);
    assert_eq!((ran.executed()["words"], ran.executed()["voice"]), (6, 6), "{:?}", notes(&ran));
    let submitted = slurm.submitted();
    assert_eq!(submitted.len(), 2, "{submitted:?}");
    for expected in ["--array=0,1,2", "--partition=gpu", "--time=60:00", "--mem=1G", "--requeue"] {
        assert!(submitted[0].contains(expected), "{submitted:?}");
    }
    place.assert_as_alone();
}

#[test]
fn jobs_that_the_controller_has_forgotten_are_submitted_again() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slow()));
    let mut running = start(&place, &slurm);
    read_to_begin(&mut running);
    assert!(slurm.forget() > 0);
    let ran = running.ended();
    assert_eq!((ran.executed()["words"], ran.executed()["voice"]), (6, 6), "{:?}", notes(&ran));
    assert!(slurm.submitted().len() > 2);
    assert!(is_reproducible(&ran));
    place.assert_as_alone();
}

#[test]
fn a_controller_that_does_not_answer_starts_no_second_job() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slow()));
    let mut running = start(&place, &slurm);
    read_to_begin(&mut running);
    std::fs::write(slurm.path().join("away"), "").unwrap();
    let ran = running.ended();
    std::fs::remove_file(slurm.path().join("away")).unwrap();
    // The results were in the store, which is all that counts. A stage that had no job by then waits.
    assert!(notes(&ran).iter().any(|note| note.contains("does not answer")), "{:?}", notes(&ran));
    assert_eq!(slurm.submitted().len(), 2);
    assert_eq!(place.lines("done").len(), 6);
}

#[test]
fn a_killed_job_is_submitted_again_and_a_killed_run_picks_up_its_jobs() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slow()));
    let mut running = start(&place, &slurm);
    read_to_begin(&mut running);
    send(slurm.processes()[0], Signal::SIGKILL);
    running.send(Signal::SIGKILL);
    drop(running);
    let before = slurm.submitted().len();
    let ran = run(&place, &slurm);
    assert_eq!(ran.last()["status"], "done", "{:?} {}", notes(&ran), ran.errors);
    // Parts with a living job are not submitted again.
    for line in &slurm.submitted()[before..] {
        assert!(!line.contains("--array=0,1,2"), "{line}");
    }
    assert!(is_reproducible(&ran));
    place.assert_as_alone();
}

#[test]
fn a_stopped_run_cancels_its_jobs_only_if_it_is_asked_to() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slow()));
    let mut running = start(&place, &slurm);
    read_to_begin(&mut running);
    running.send(Signal::SIGINT);
    assert_eq!(running.ended().code, Some(75));
    assert_eq!(slurm.cancelled().len(), 0);
    place.project.replace("pipeline.toml", "max_jobs", "cancel = true\nmax_jobs");
    place.project.write("data/wavs/c.wav", throstle_tests::wav(9_000));
    wait_until(|| slurm.processes().is_empty());
    let mut running = start(&place, &slurm);
    read_to_begin(&mut running);
    running.send(Signal::SIGINT);
    let ran = running.ended();
    assert_eq!(ran.code, Some(75), "{:?}", notes(&ran));
    assert!(!slurm.cancelled().is_empty(), "{:?}", notes(&ran));
    wait_until(|| slurm.processes().is_empty());
    assert_eq!(run(&place, &slurm).last()["status"], "done");
    place.assert_as_alone();
}
