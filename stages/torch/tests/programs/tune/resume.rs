//! An interrupted training leaves the same bytes as one that was not.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

use camino::Utf8Path;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use stage_core::Fields;
use throstle_tests::training::states;
use throstle_tests::{Lab, Project, RanProgram, Running, send};

use super::project::{figures, outputs, with};

const STEPS: u64 = 60;
/// For two networks, with slower steps.
const FEWER_STEPS: u64 = 30;

/// With dropout, accumulation and held-out clips, so that an error in any of them would show.
const ADAPTED: &str = r#"
[stage.trained]
use = "fish.lora"
input = "tokens"
base = "base"
rank = 2
dropout = 0.2
max_length = 80
export = { adapters = "out/adapters", log = "out/log" }
"#;

const TRAINED: &str = r#"
[stage.trained]
use = "fish.finetune"
input = "tokens"
base = "base"
max_length = 80
export = { model = "out/model", log = "out/log" }
"#;

/// Two networks with an optimiser each, and samples of held-out clips.
const SPOKEN: &str = r#"
[stage.trained]
use = "vits.finetune"
input = "clips"
base = "voice_base"
segment = "100ms"
dropout = "original"
export = { model = "out/model", log = "out/log" }
"#;

const SETTINGS: &str = r#"
learning_rate = 1e-2
schedule = "cosine"
batch = 1
accumulation = 2
validate_every = 9
validation_fraction = 0.2
save_every = 5
"#;

/// The outputs of an uninterrupted training, and the loss of each of its steps.
struct Straight {
    outputs: BTreeMap<String, Vec<u8>>,
    losses: Vec<(u64, f64)>,
    /// The last checkpoint: weights, optimisers, scaler, position in the data.
    saved: Fields,
}

fn steps(stage: &str) -> u64 {
    if stage == SPOKEN { FEWER_STEPS } else { STEPS }
}

fn project(stage: &str) -> Project {
    let (head, export) = stage.split_once("export").unwrap();
    // The patience equals the validations before the last step: it may end the training, and does
    // not.
    let patience = (steps(stage) - 1) / 9;
    let steps = steps(stage);
    with(&format!("{head}steps = {steps}\npatience = {patience}\n{SETTINGS}export{export}"))
}

fn straight(stage: &'static str) -> &'static Straight {
    const STAGES: [&str; 3] = [TRAINED, ADAPTED, SPOKEN];
    static ALL: [OnceLock<Straight>; 3] = [const { OnceLock::new() }; 3];
    let at = STAGES.iter().position(|own| *own == stage).unwrap();
    ALL[at].get_or_init(|| {
        let project = project(stage);
        let ran = project.run();
        assert_eq!(ran.executed(), [("trained", 1)].into(), "{:?}", ran.all("stage-failed"));
        let losses = figures(&ran, "trained", "loss");
        let told: Vec<u64> = losses.iter().map(|(step, _)| *step).collect();
        assert_eq!(told, (1..=steps(stage)).collect::<Vec<_>>());
        Straight { outputs: outputs(&project), losses, saved: saved(&project) }
    })
}

fn saved(project: &Project) -> Fields {
    let folder = Utf8Path::from_path(project.path()).unwrap();
    states(&Lab::in_folder(folder)).remove(0)
}

fn start(project: &Project) -> Running {
    Running::start(project.throstle(&["run", ".", "--json"]))
}

/// A reported figure, and the number of checkpoints after which a run is ended.
type Moment = (&'static str, usize);

/// Before the first step, before the first checkpoint, and between checkpoints.
const MOMENTS: [Moment; 4] = [("preflight/loss", 0), ("loss", 0), ("loss", 2), ("loss", 1)];

fn read_to(running: &mut Running, (figure, checkpoints): Moment) {
    running.read_until(|event| event["values"][figure].is_number());
    (0..checkpoints).for_each(|_| drop(running.read_to("checkpoint-kept")));
}

/// Every reported step has the expected loss, in any run; those of a killed run may occur twice.
fn assert_same_order(runs: &[RanProgram], straight: &Straight) {
    let all: Vec<(u64, f64)> =
        runs.iter().flat_map(|ran| figures(ran, "trained", "loss")).collect();
    for step in &all {
        assert!(straight.losses.contains(step), "{step:?}");
    }
    let steps: Vec<u64> = all.iter().map(|(step, _)| *step).collect();
    assert!((1..=STEPS).all(|step| steps.contains(&step)), "{steps:?}");
}

fn assert_goes_on_to_the_same(project: &Project, mut runs: Vec<RanProgram>, straight: &Straight) {
    let ran = project.run();
    assert_eq!(ran.executed(), [("trained", 1)].into());
    let first = figures(&ran, "trained", "loss")[0].0;
    assert!(first > 1, "it began anew");
    runs.push(ran);
    assert_same_order(&runs, straight);
    assert!(outputs(project) == straight.outputs, "the outputs differ");
    project.run().assert_nothing_done();
}

#[test]
fn the_worker_may_be_killed_at_any_step() {
    for stage in [TRAINED, ADAPTED] {
        let straight = straight(stage);
        let project = project(stage);
        let mut running = start(&project);
        for moment in MOMENTS {
            let process = running.read_to("worker-started")["process"].as_u64().unwrap();
            read_to(&mut running, moment);
            send(u32::try_from(process).unwrap(), Signal::SIGKILL);
        }
        let ran = running.ended();
        let deaths = ran.all("worker-died").len();
        assert_eq!((ran.code, deaths), (Some(0), MOMENTS.len()), "{ran:?}");
        assert_same_order(&[ran], straight);
        assert!(outputs(&project) == straight.outputs, "{stage}");
    }
}

#[test]
fn the_engine_may_be_killed_at_any_step() {
    for stage in [TRAINED, ADAPTED] {
        let project = project(stage);
        let mut runs = Vec::new();
        for moment in MOMENTS {
            let mut running = start(&project);
            let worker = running.read_to("worker-started")["process"].as_i64().unwrap();
            read_to(&mut running, moment);
            running.send(Signal::SIGKILL);
            let ran = running.ended();
            assert_eq!(ran.code, None);
            while kill(Pid::from_raw(worker as i32), None).is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            runs.push(ran);
        }
        assert_goes_on_to_the_same(&project, runs, straight(stage));
    }
}

#[test]
fn a_signal_saves_and_pauses_and_no_step_is_done_twice() {
    for (stage, signal) in [(TRAINED, Signal::SIGINT), (ADAPTED, Signal::SIGTERM)] {
        let project = project(stage);
        let mut runs = Vec::new();
        for losses in [1, 7, 2] {
            let mut running = start(&project);
            for _ in 0..losses {
                running.read_until(|event| event["values"]["loss"].is_number());
            }
            running.send(signal);
            let ran = running.ended();
            assert_eq!((ran.code, &ran.last()["status"]), (Some(75), &"paused".into()));
            runs.push(ran);
        }
        runs.push(project.run());
        let steps = runs.iter().flat_map(|ran| figures(ran, "trained", "loss"));
        assert_eq!(steps.collect::<Vec<_>>(), straight(stage).losses, "{signal}");
        assert!(outputs(&project) == straight(stage).outputs, "{signal}");
        project.run().assert_nothing_done();
    }
}

#[test]
fn a_training_that_has_little_time_goes_on_until_it_is_done() {
    let straight = straight(TRAINED);
    let project = project(TRAINED);
    let (mut seconds, mut runs) = (0.5, Vec::new());
    while runs.last().is_none_or(|ran: &RanProgram| ran.code == Some(75)) {
        let limit = format!("{seconds}s");
        let arguments = ["run", ".", "--json", "--stop-after", &limit];
        runs.push(RanProgram::of(project.output(&arguments)));
        // As long as it has no time for a step, it quickly gets more; then little, so that it
        // pauses again.
        let told = runs.iter().any(|ran| !figures(ran, "trained", "loss").is_empty());
        seconds += if told { 0.05 } else { 0.2 * seconds };
    }
    let runs_steps: Vec<_> = runs.iter().map(|ran| figures(ran, "trained", "loss")).collect();
    assert_eq!(runs_steps.concat(), straight.losses, "each step is done once");
    let pauses = runs_steps.iter().filter(|steps| !steps.is_empty()).count() - 1;
    assert!(pauses > 0, "it had so much time that it never paused");
    assert_eq!(runs.last().unwrap().code, Some(0));
    assert!(outputs(&project) == straight.outputs);
}

/// Runs with a little time each, until one of them has made a step before the engine's own deadline
/// stopped it; the next one gets slightly more time than that took. From its first step on the
/// worker sleeps until the deadline has passed, so that no run finishes earlier. A run that is stopped
/// before may owe a step, which counts too.
fn stop_by_deadline(project: &Project, seconds: &mut f64, runs: &mut Vec<RanProgram>) {
    loop {
        let begin = Instant::now();
        let limit = format!("{seconds}s");
        let mut running =
            Running::start(project.throstle(&["run", ".", "--json", "--stop-after", &limit]));
        let stops = |event: &Value| event["event"] == "stopping";
        let worker = running.find(|event| stops(event) || event["event"] == "worker-started");
        let process = worker.and_then(|event| event["process"].as_i64());
        let first = process.and_then(|_| {
            running.find(|event| stops(event) || event["values"]["loss"].is_number())
        });
        let made_step = first.is_some_and(|event| !stops(&event));
        if let (Some(process), true) = (process, made_step) {
            *seconds = 1.25 * begin.elapsed().as_secs_f64();
            let process = Pid::from_raw(process as i32);
            // A worker after its last step may have exited.
            let _ = kill(process, Signal::SIGSTOP);
            running.find(|event| event["event"] == "stopping");
            let _ = kill(process, Signal::SIGCONT);
        } else {
            *seconds *= 1.5;
        }
        let ran = running.ended();
        assert_eq!((ran.code, &ran.last()["status"]), (Some(75), &"paused".into()));
        runs.push(ran);
        if made_step {
            return;
        }
    }
}

#[test]
fn two_nets_that_ten_deadlines_have_stopped_are_those_of_a_run_without_any() {
    let straight = straight(SPOKEN);
    let project = project(SPOKEN);
    let (mut seconds, mut runs) = (1.0, Vec::new());
    for _ in 0..10 {
        stop_by_deadline(&project, &mut seconds, &mut runs);
    }
    runs.push(project.run());
    let steps = runs.iter().flat_map(|ran| figures(ran, "trained", "loss"));
    assert_eq!(steps.collect::<Vec<_>>(), straight.losses, "each step is done once");
    assert!(outputs(&project) == straight.outputs, "the outputs differ");
    assert_eq!(saved(&project), straight.saved);
    project.run().assert_nothing_done();
}
