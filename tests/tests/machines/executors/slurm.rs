//! The adapter to Slurm, with a Slurm of shell scripts.

use std::time::Instant;

use nix::sys::signal::Signal;
use throstle_tests::{RanProgram, Running, send};

use super::fake::FakeSlurm;
use super::places::{Place, WORDS, is_reproducible, notes, wait_until};

const EXECUTOR: &str = "use = \"slurm\"\npartition = \"gpu\"\ntime = \"1h\"\n\
                        flags = [\"--mem=1G\"]\ncache = \"FOLDER/node\"\n";

fn start(place: &Place, slurm: &FakeSlurm) -> Running {
    Running::start(place.with_slurm(slurm, &["run", ".", "--json"]))
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

#[test]
fn one_array_for_each_stage_gives_the_results_of_one_machine() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, WORDS));
    let ran = run(&place, &slurm);
    assert_eq!((ran.executed()["words"], ran.executed()["voice"]), (6, 6), "{:?}", notes(&ran));
    let submitted = slurm.submitted();
    assert_eq!(submitted.len(), 2, "{submitted:?}");
    let words = submitted.iter().find(|line| line.contains("--array=0,1,2")).unwrap();
    for expected in ["--job-name=", "--partition=gpu", "--time=60:00", "--mem=1G", "--requeue"] {
        assert!(words.contains(expected), "{submitted:?}");
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
    wait_until(|| !slurm.processes().is_empty());
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
    place.repair();
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

/// Four stages of three jobs each, which are all at work at once.
#[test]
fn slurm_is_asked_once_for_all_batches_of_a_run() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slow()));
    let manifest = place.project.text("pipeline.toml");
    let from = manifest.find("[stage.words]").unwrap();
    let words = &manifest[from..manifest.find("[stage.voice]").unwrap()];
    let mut more = manifest.clone();
    for (name, pause) in [("second", "0.6"), ("third", "0.7"), ("fourth", "0.8")] {
        // Other commands, since equal work is done once.
        let copy = words.replace("stage.words", &format!("stage.{name}"));
        let copy = copy.replace("sleep 0.5", &format!("sleep {pause}"));
        more.push_str(&copy.replace("out/{id}", &format!("{name}/{{id}}")));
    }
    place.project.write("pipeline.toml", more.replace("poll = \"100ms\"", "poll = \"300ms\""));
    let begun = Instant::now();
    let ran = run(&place, &slurm);
    let intervals = begun.elapsed().as_millis() as usize / 300 + 1;
    assert_eq!(ran.last()["status"], "done", "{:?} {}", notes(&ran), ran.errors);
    let (asked, batches) = (slurm.asked(), slurm.submitted().len());
    assert_eq!(batches, 5);
    // A submission outdates the last answer; so does a new batch.
    assert!(asked.len() <= intervals + 2 * batches, "{} in {intervals}", asked.len());
    let names = |line: &String| line.matches(',').count() + 1;
    assert!(asked.iter().map(names).max() >= Some(4), "{asked:?}");
}
