//! `submit`: a run that goes on without the person who submitted it.

use nix::sys::signal::Signal;
use serde_json::Value;
use throstle_tests::send;

use super::fake::FakeSlurm;
use super::places::{OTHER_MACHINE, Place, WORDS, wait_until};

const EXECUTOR: &str = "use = \"slurm\"\npartition = \"gpu\"\ntime = \"1h\"\ngres = \"gpu:1\"\n\
                        submit_flags = [\"--partition=small\"]\ncache = \"FOLDER/node\"\n";

fn slow() -> String {
    format!("sleep 0.5; echo {{text}} >> FOLDER/done; {WORDS}")
}

/// The JSON of a successful `submit`, or of `status`.
fn told(place: &Place, slurm: &FakeSlurm, command: &str) -> Value {
    let output = place.with_slurm(slurm, &[command, "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn code(place: &Place, slurm: &FakeSlurm, arguments: &[&str]) -> (Option<i32>, String) {
    let output = place.with_slurm(slurm, arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn wait_for_the_end(place: &Place, slurm: &FakeSlurm) {
    wait_until(|| told(place, slurm, "status")["submitted"]["life"]["state"] == "ended");
}

#[test]
fn a_submitted_run_needs_nobody_and_its_own_job_takes_no_gpu() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, WORDS));
    let submitted = told(&place, &slurm, "submit");
    assert_eq!(submitted["submitted"], true);
    wait_for_the_end(&place, &slurm);
    place.assert_as_alone();
    let lines = slurm.submitted();
    assert_eq!(lines.len(), 3, "the run, and two arrays: {lines:?}");
    assert!(lines[0].contains("--partition=small") && !lines[0].contains("--gres"), "{lines:?}");
    assert!(lines[1].contains("--gres=gpu:1"), "{lines:?}");
    // Nothing is left to do, so nothing is submitted.
    assert_eq!(told(&place, &slurm, "submit")["submitted"], false);
    assert_eq!(slurm.submitted().len(), 3);
}

#[test]
fn a_submission_is_not_repeated_and_a_run_beside_it_starts_no_job_twice() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slow()));
    assert_eq!(told(&place, &slurm, "submit")["submitted"], true);
    wait_until(|| slurm.submitted().len() == 3);
    let again = told(&place, &slurm, "submit");
    assert_eq!((&again["submitted"], &again["life"]["state"]), (&false.into(), &"running".into()));
    let ran = place.with_slurm(&slurm, &["run", "."]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    wait_for_the_end(&place, &slurm);
    assert_eq!(slurm.submitted().len(), 3, "{:?}", slurm.submitted());
    assert_eq!(place.lines("done").len(), 6);
    place.assert_as_alone();
}

#[test]
fn a_submitted_run_that_has_to_stop_is_started_again_by_slurm() {
    let slower = slow().replace("0.5", "2");
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slower));
    place.project.edit("pipeline.toml", |text| format!("{text}\n[session]\nstop_after = \"1s\"\n"));
    assert_eq!(told(&place, &slurm, "submit")["submitted"], true);
    wait_for_the_end(&place, &slurm);
    assert!(!slurm.requeued().is_empty());
    // The jobs of the stages were left to the next start, which took their results.
    place.project.replace("pipeline.toml", "stop_after = \"1s\"", "stop_after = \"1h\"");
    assert_eq!(place.lines("done").len(), 6);
    place.assert_as_alone();
}

#[test]
fn with_another_program_the_run_is_a_process_of_its_own() {
    let slurm = FakeSlurm::new();
    let executor = format!("use = \"command\"\ncommand = '''{OTHER_MACHINE}'''");
    // Even on a busy machine, its work lasts until the second submission has been refused.
    let held = "echo {text} >> FOLDER/done; until [ -e FOLDER/go ]; do sleep 0.1; done";
    let place = Place::with(&executor, &format!("{held}; {WORDS}"));
    assert_eq!(told(&place, &slurm, "submit")["submitted"], true);
    wait_until(|| !place.lines("done").is_empty());
    let again = told(&place, &slurm, "submit");
    assert_eq!((&again["submitted"], &again["life"]["state"]), (&false.into(), &"running".into()));
    std::fs::write(place.folder().join("go"), "").unwrap();
    wait_for_the_end(&place, &slurm);
    assert_eq!((place.lines("done").len(), slurm.asked().len()), (6, 0));
    place.assert_as_alone();
}

/// Its jobs find a full disk until there is room: then the run pauses.
fn without_room() -> Place {
    let command = format!(
        "if [ -e FOLDER/room ]; then {OTHER_MACHINE}; else echo No space left on device; exit 1; fi"
    );
    Place::with(&format!("use = \"command\"\ncommand = '''{command}'''"), WORDS)
}

/// The number of times that the process has started its run again.
fn started_again(submitted: &Value) -> usize {
    let log = std::fs::read_to_string(submitted["log"].as_str().unwrap()).unwrap();
    log.matches("the run has paused, and starts again in 0.8 s").count()
}

#[test]
fn a_submitted_process_starts_its_run_again_until_that_does_not_pause() {
    let (slurm, place) = (FakeSlurm::new(), without_room());
    let submitted = told(&place, &slurm, "submit");
    wait_until(|| started_again(&submitted) >= 2);
    let again = told(&place, &slurm, "submit");
    assert_eq!((&again["submitted"], &again["life"]["state"]), (&false.into(), &"running".into()));
    assert_eq!(again["job"], submitted["job"]);
    std::fs::write(place.folder().join("room"), "").unwrap();
    wait_for_the_end(&place, &slurm);
    place.assert_as_alone();
    assert_eq!(told(&place, &slurm, "submit")["life"], Value::Null, "nothing is left to do");
}

#[test]
fn a_submitted_process_that_is_asked_to_stop_starts_no_run_again() {
    let (slurm, place) = (FakeSlurm::new(), without_room());
    let submitted = told(&place, &slurm, "submit");
    wait_until(|| started_again(&submitted) >= 1);
    send(submitted["job"].as_str().unwrap().parse().unwrap(), Signal::SIGTERM);
    wait_for_the_end(&place, &slurm);
    std::fs::write(place.folder().join("room"), "").unwrap();
    assert_eq!(told(&place, &slurm, "submit")["submitted"], true);
    wait_for_the_end(&place, &slurm);
    place.assert_as_alone();
}

#[test]
fn a_pipe_in_the_place_of_a_process_id_is_refused_and_nothing_waits() {
    let slurm = FakeSlurm::new();
    let place = Place::with(&format!("use = \"command\"\ncommand = '''{OTHER_MACHINE}'''"), WORDS);
    let submitted = told(&place, &slurm, "submit");
    wait_for_the_end(&place, &slurm);
    place.project.write("data/wavs/c.wav", throstle_tests::wav(9_000));
    let log = std::path::PathBuf::from(submitted["log"].as_str().unwrap());
    let file = log.with_extension("pid");
    std::fs::remove_file(&file).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    let (found, why) = code(&place, &slurm, &["submit"]);
    assert!(found == Some(1) && why.contains("it is a named pipe"), "{found:?} {why}");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(told(&place, &slurm, "submit")["submitted"], true);
    wait_for_the_end(&place, &slurm);
    place.assert_as_alone();
}

#[test]
fn what_cannot_be_submitted_is_refused_with_the_code_of_its_cause() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, WORDS));
    let (found, why) = code(&place, &slurm, &["submit", "--remote", "none"]);
    assert_eq!(found, Some(2), "{why}");
    let (found, why) = code(&place, &slurm, &["submit", "--on", "other"]);
    assert!(found == Some(2) && why.contains("no executor `other`"), "{found:?} {why}");
    std::fs::write(slurm.path().join("away"), "").unwrap();
    let (found, why) = code(&place, &slurm, &["submit"]);
    assert!(found == Some(1) && why.contains("earlier submission"), "{found:?} {why}");
    std::fs::remove_file(slurm.path().join("away")).unwrap();
    std::fs::remove_dir(place.folder().join("remote")).unwrap();
    let (found, why) = code(&place, &slurm, &["submit"]);
    assert!(found == Some(2) && why.contains("does not exist"), "{found:?} {why}");
    assert!(!why.contains("goes on without"), "{why}");
    assert_eq!(slurm.submitted().len(), 0);
}
