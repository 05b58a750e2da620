//! Trainings that are killed, stopped, damaged and continued: the model is that of an undisturbed
//! run, and no step before a checkpoint is repeated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::Archiving;
use cache::fs::fault::ENOSPC;
use cache::fs::{Fault, MemoryFs};
use camino::Utf8PathBuf;
use engine::archive;
use engine::engine::{RunOptions, StopFlag, WorkerCommand};
use engine::event::{Event, Status};
use engine::gc::{self, GcLimits};
use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Job, Kind, NewValue, Parameter,
    ParameterType, PortOutput, Setup, Stage, StageError,
};
use throstle_tests::processes::{Ended, start, wait};
use throstle_tests::train::{Remote, TRAIN, Train};
use throstle_tests::training::{MANIFEST, STEPS, checkpoint, lab, lab_in, states, steps, weights};
use throstle_tests::worlds::{eager, faulty};
use throstle_tests::{Lab, Ran};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lab_run");

fn remote(arguments: &[&str]) -> Lab {
    let mut lab = lab();
    lab.write("pipeline.toml", &MANIFEST.replace("test.train", "test.remote-train"));
    lab.stages.push(Arc::new(Remote));
    lab.worker = WorkerCommand {
        program: Some(Utf8PathBuf::from(env!("CARGO_BIN_EXE_fake_worker"))),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        environment: Vec::new(),
        lacks: None,
    };
    lab
}

/// The model of an undisturbed run.
fn straight() -> Vec<u8> {
    let lab = lab();
    let ran = lab.run();
    assert_eq!((ran.status, steps(&ran)), (Status::Done, (1..=STEPS).collect()));
    weights(&lab)
}

/// Resumes from the newest checkpoint, and repeats no step before it.
fn goes_on(lab: &Lab, expected: &[u8], place: &str) {
    let from = checkpoint(lab);
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{place}: {:?}", ran.events);
    let done = steps(&ran);
    let wanted: Vec<u64> = (from + 1..=STEPS).collect();
    assert!(done == wanted || ran.executed("model") == 0, "{place}: {done:?}, not {wanted:?}");
    assert_eq!(weights(lab), expected, "{place}");
    assert!(lab.run().nothing_executed(), "{place}");
    assert!(lab.verify().is_clean(), "{place}");
}

#[test]
fn training_may_be_killed_at_every_event() {
    let expected = straight();
    for arguments in [&[][..], &["--eager"]] {
        for number in 1.. {
            let lab = lab();
            let number_text = number.to_string();
            let all = [&["--kill-at", &number_text], arguments].concat();
            if let Ended::Itself(_) = wait(start(PROGRAM, &lab.base(), &all)) {
                assert!(number > 15, "only {number} events were seen");
                break;
            }
            goes_on(&lab, &expected, &format!("event {number}"));
        }
    }
}

/// Requests a stop at the n-th event; returns the steps that were done, or nothing if the run was
/// over before.
fn stopped_at(lab: &Lab, number: usize) -> Option<Ran> {
    let stop = StopFlag::default();
    let options = RunOptions { stop: stop.clone(), ..RunOptions::default() };
    let mut events = Vec::new();
    let mut sink = |event: Event| {
        events.push(event);
        if events.len() == number {
            stop.request();
        }
    };
    let cache = lab.cache();
    let status = lab.engine().run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
    let stages = Default::default();
    (events.len() >= number).then_some(Ran { status, stages, events })
}

fn may_be_stopped_at_every_event(make: fn() -> Lab) {
    let expected = straight();
    let mut paused = 0;
    for number in 1.. {
        let lab = make();
        let Some(ran) = stopped_at(&lab, number) else { break };
        if ran.status == Status::Paused {
            paused += 1;
            // Finished steps are saved before the run ends.
            let done = steps(&ran).last().copied().unwrap_or(0);
            assert_eq!(checkpoint(&lab), done, "event {number}: {:?}", ran.events);
        }
        goes_on(&lab, &expected, &format!("event {number}"));
    }
    assert!(paused > 10, "{paused} pauses");
}

#[test]
fn training_may_be_stopped_at_every_event() {
    may_be_stopped_at_every_event(lab);
}

#[test]
fn training_in_the_worker_may_be_stopped_at_every_event() {
    may_be_stopped_at_every_event(|| remote(&[]));
}

#[test]
fn a_plan_tells_of_a_checkpoint_that_other_settings_leave_unused() {
    let stopped = |number: usize| {
        let lab = lab();
        let ran = stopped_at(&lab, number).unwrap();
        (ran.status == Status::Paused && checkpoint(&lab) > 0).then_some(lab)
    };
    let lab = (1..).find_map(stopped).unwrap();
    let with = |line: &str| {
        lab.write(
            "pipeline.toml",
            &MANIFEST.replace("retries = 2", &format!("retries = 2\n{line}")),
        );
        lab.reasons("model").join("; ")
    };
    assert_eq!(with(""), "resumes from the checkpoint of run 1");
    let told = with("steps = 8");
    let why = "does not use the checkpoint of run 1: ";
    assert!(told.starts_with(why) && told.contains("`steps` changed from 6 to 8"), "{told}");
    lab.write("data/new.txt", "new");
    lab.run();
    assert!(lab.run().nothing_executed());
}

#[test]
fn training_may_be_stopped_again_and_again() {
    let (expected, lab) = (straight(), lab());
    let mut all = Vec::new();
    for _ in 0..100 {
        let stop = StopFlag::default();
        let options = RunOptions { stop: stop.clone(), ..RunOptions::default() };
        let mut sink = |event: Event| {
            if let Event::Metrics { step, .. } = event {
                all.push(step);
                stop.request();
            }
        };
        let cache = lab.cache();
        let status = lab.engine().run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
        if status == Status::Done {
            break;
        }
    }
    assert_eq!(all, (1..=STEPS).collect::<Vec<_>>());
    assert_eq!(weights(&lab), expected);
}

#[test]
fn a_worker_that_trains_may_die_at_every_message() {
    let expected = straight();
    for number in 1.. {
        let mut lab = remote(&[]);
        let counter = lab.base().join("messages");
        lab.worker.arguments = vec!["die-at".into(), number.to_string(), counter.to_string()];
        let ran = lab.run();
        assert_eq!(ran.status, Status::Done, "message {number}: {:?}", ran.events);
        assert_eq!(weights(&lab), expected, "message {number}");
        assert_goes_on_after_every_death(&ran, number);
        let has_died = |event: &Event| matches!(event, Event::WorkerDied { .. });
        if !ran.events.iter().any(has_died) {
            assert!(number > 20, "only {number} messages were sent");
            return;
        }
    }
}

/// The first step after a death is the one after the last checkpoint before it.
fn assert_goes_on_after_every_death(ran: &Ran, number: u64) {
    let (mut step, mut saved, mut died) = (0, 0, false);
    for event in &ran.events {
        match event {
            Event::CheckpointKept { .. } => saved = step,
            Event::WorkerDied { .. } => died = true,
            Event::Metrics { step: now, .. } => {
                let before = if died { saved } else { step };
                assert_eq!(*now, before + 1, "message {number}: {:?}", ran.events);
                (step, died) = (*now, false);
            }
            _ => {}
        }
    }
    assert_eq!(step, STEPS, "message {number}");
}

#[test]
fn a_training_makes_a_step_in_every_run_however_short() {
    let (expected, lab) = (straight(), lab());
    // Its source is done in the first run, and then nothing but the training is left.
    let run =
        || lab.run_with(&RunOptions { deadline: Some(Instant::now()), ..RunOptions::default() });
    assert_eq!(run().status, Status::Paused);
    for step in 1..=STEPS {
        let ran = run();
        assert_eq!(steps(&ran), [step], "{:?}", ran.events);
    }
    assert_eq!((run().status, weights(&lab)), (Status::Done, expected));
}

#[test]
fn a_training_owes_no_step_to_a_spent_budget() {
    let lab = lab();
    let manifest = format!("{MANIFEST}\n[session]\nprice_per_hour = 3600.0\nbudget = 1e-9\n");
    lab.write("pipeline.toml", &manifest);
    for _ in 0..3 {
        let ran = lab.run_with(&RunOptions::default());
        assert_eq!((ran.status, steps(&ran)), (Status::Paused, vec![]), "{:?}", ran.events);
    }
}

#[test]
fn training_saves_before_the_deadline() {
    let lab = lab();
    let slow = MANIFEST.replace("retries = 2", "steps = 100000\nevery = 50000\npause = \"10ms\"");
    lab.write("pipeline.toml", &slow);
    let deadline = Some(Instant::now() + Duration::from_millis(1500));
    let ran = lab.run_with(&RunOptions { deadline, ..RunOptions::default() });
    assert_eq!(ran.status, Status::Paused);
    // Only the time limit asked it to stop, and no finished work is lost.
    assert_eq!(Some(&checkpoint(&lab)), steps(&ran).last());
}

fn sweep(lab: &Lab, keep_runs: usize) {
    let cache = lab.cache();
    let limits = GcLimits { keep_runs, kept_since: None, most_bytes: None };
    cache.sweep(gc::plan(&cache, &limits).unwrap().sweep).unwrap();
}

#[test]
fn a_checkpoint_survives_the_garbage_collection_until_the_stage_is_done() {
    let (expected, lab) = (straight(), lab());
    let at = |event: &Event| matches!(event, Event::CheckpointKept { .. });
    let number = lab.run().events.iter().position(at).unwrap() + 1;
    let lab = self::lab();
    stopped_at(&lab, number).unwrap();
    assert!(checkpoint(&lab) >= 2);
    sweep(&lab, 1);
    goes_on(&lab, &expected, "after the sweep");
    sweep(&lab, 1);
    assert_eq!(checkpoint(&lab), 0, "what is finished needs no checkpoint");
    assert!(lab.run().nothing_executed());
    assert_eq!(weights(&lab), expected);
}

#[test]
fn training_that_was_interrupted_goes_on_from_its_checkpoint_on_another_machine() {
    let (expected, lab) = (straight(), lab());
    // So slow that it cannot finish before the stop arrives; its speed enters no key.
    lab.write("pipeline.toml", &MANIFEST.replace("retries = 2", "pause = \"100ms\""));
    stopped_at(&lab, 1 + events_to_the_second_checkpoint()).unwrap();
    let saved = checkpoint(&lab);
    assert!((2..STEPS).contains(&saved), "{saved}");
    let folder = lab.base().join("archive");
    let limits = GcLimits { keep_runs: 1, kept_since: None, most_bytes: None };
    let how =
        Archiving { folder: &folder, bases: &[], volume_bytes: 1 << 20, progress: &|_, _| {} };
    let packed = archive::pack(&lab.cache(), &limits, &how).unwrap();
    assert!(packed.volumes > 1, "{packed:?}");
    let other = self::lab();
    let taken = archive::unpack(&other.cache(), &[folder], &|_, _| {}).unwrap();
    assert!(taken.damages.is_empty(), "{taken:?}");
    assert_eq!(checkpoint(&other), saved);
    let ran = other.run();
    assert_eq!((ran.status, weights(&other)), (Status::Done, expected));
    assert_eq!(ran.executed("loud"), 0);
    assert_eq!(steps(&ran), (saved + 1..=STEPS).collect::<Vec<_>>());
}

/// Cuts the power after each sync of a run.
#[test]
fn training_may_be_cut_at_every_sync() {
    let expected = straight();
    for cut in 0.. {
        let memory = MemoryFs::new();
        let lab = lab_in(&memory);
        let pipeline = lab.pipeline();
        memory.stop_after(cut);
        let result = lab.attempt(&pipeline, &eager());
        if memory.syncs() < cut {
            assert_eq!(result.unwrap().status, Status::Done);
            assert!(cut > 20, "only {cut} syncs were seen");
            return;
        }
        let lab = Lab::in_memory(&memory.crash());
        goes_on(&lab, &expected, &format!("cut after sync {cut}"));
    }
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before_it() {
    let expected = straight();
    for ruined in 0..2 {
        let lab = lab();
        let number = 1 + events_to_the_second_checkpoint();
        let Ended::Killed = wait(start(PROGRAM, &lab.base(), &["--kill-at", &number.to_string()]))
        else {
            panic!("the run was over before event {number}")
        };
        let from = checkpoint(&lab);
        assert!(from >= 4, "{from}");
        let state = states(&lab).remove(ruined);
        ruin(&lab, &state);
        let ran = lab.run();
        assert_eq!((ran.status, weights(&lab)), (Status::Done, expected.clone()), "{ruined}");
        let first = if ruined == 0 { from - 1 } else { from + 1 };
        assert_eq!(steps(&ran).first().copied().unwrap_or(STEPS + 1), first, "{ruined}");
        assert_eq!(ran.damaged().len(), 1 - ruined, "{:?}", ran.events);
        assert!(lab.run().nothing_executed());
    }
}

fn events_to_the_second_checkpoint() -> usize {
    let is_kept = |(_, event): &(usize, &Event)| matches!(event, Event::CheckpointKept { .. });
    let ran = lab().run();
    ran.events.iter().enumerate().filter(is_kept).nth(1).unwrap().0
}

/// Flips a bit of the weights of a checkpoint.
fn ruin(lab: &Lab, state: &Fields) {
    let path = lab.cache().file_of(&state.blob("weights").unwrap().digest).unwrap().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[77] ^= 1;
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    #[allow(clippy::permissions_set_readonly_false)]
    permissions.set_readonly(false);
    std::fs::set_permissions(&path, permissions).unwrap();
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn a_full_disk_pauses_training_and_the_last_checkpoint_holds() {
    let expected = straight();
    for bytes in (1_500_000..10_000_000).step_by(700_000) {
        let memory = MemoryFs::new();
        lab_in(&memory);
        let (lab, faults) = faulty(&memory);
        let pipeline = lab.pipeline();
        faults.set(vec![Fault::Space { bytes, error: ENOSPC }]);
        let ran = lab.attempt(&pipeline, &eager()).unwrap();
        let place = format!("{bytes} bytes of space");
        assert_eq!(ran.status == Status::Paused, faults.struck() > 0, "{place}: {:?}", ran.events);
        goes_on(&Lab::in_memory(&memory.kill()), &expected, &place);
    }
}

/// Finds the disk full before its first checkpoint.
struct NoRoom;

impl Stage for NoRoom {
    fn kind(&self) -> &'static Kind {
        &TRAIN
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(NoRoom)))
    }
}

impl GatherJob for NoRoom {
    fn run(&mut self, _: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        Err(StageError::NoSpace { message: "no room for a checkpoint".into() })
    }
}

#[test]
fn a_training_that_finds_no_room_pauses() {
    let expected = straight();
    let memory = MemoryFs::new();
    let mut lab = lab_in(&memory);
    lab.stages.retain(|stage| stage.kind().name != TRAIN.name);
    lab.stages.push(Arc::new(NoRoom));
    let ran = lab.run();
    assert_eq!(ran.status, Status::Paused, "{:?}", ran.events);
    lab.stages.pop();
    lab.stages.push(Arc::new(Train(&TRAIN)));
    goes_on(&lab, &expected, "with room again");
}

static AUTO: Kind = Kind {
    name: "test.auto-train",
    parameters: &[Parameter {
        name: "precision",
        parameter_type: ParameterType::Choice(&["auto", "f32", "bf16", "fp16"]),
        default: stage_core::Default::Text("auto"),
        ..Parameter::BASE
    }],
    ..TRAIN
};

/// Trains immediately; the machine resolves `auto`, unless the precision changes on the way.
#[derive(Clone, Copy)]
struct Auto(Option<&'static str>);

impl Stage for Auto {
    fn kind(&self) -> &'static Kind {
        &AUTO
    }

    fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        let written = setup.parameters.text("precision")?.to_owned();
        Ok(Job::Gather(Box::new(AutoJob { written, machine: self.0 })))
    }
}

struct AutoJob {
    written: String,
    machine: Option<&'static str>,
}

impl GatherJob for AutoJob {
    fn run(&mut self, _: GatherInput, _: &mut dyn Context) -> Result<GatherOutput, StageError> {
        let precision = self.machine.filter(|_| self.written == "auto");
        let bytes = precision.unwrap_or(&self.written).to_owned();
        let value = |name: &str| (name.to_owned(), NewValue::bytes("tensor", bytes.clone()));
        let values = vec![value("weights"), value("frozen")];
        let output = GatherOutput::default().with("output", PortOutput::Artifact(values));
        let settled = precision.map(|precision| ("precision".to_owned(), precision.to_owned()));
        Ok(GatherOutput { settled: settled.into_iter().collect(), ..output })
    }
}

/// Trains with these precisions, one after the other, on machines that resolve `auto` differently;
/// returns the number of trainings of each run.
fn trainings(runs: &[(&str, Option<&'static str>)]) -> Vec<u64> {
    let mut lab = lab();
    let executed = |(written, machine): &(&str, Option<&'static str>)| {
        let precision = format!("test.auto-train\"\nprecision = \"{written}");
        lab.write("pipeline.toml", &MANIFEST.replace("test.train", &precision));
        lab.stages.retain(|stage| stage.kind().name != AUTO.name);
        lab.stages.push(Arc::new(Auto(*machine)));
        let ran = lab.run();
        assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
        ran.executed("model")
    };
    runs.iter().map(executed).collect()
}

#[test]
fn a_finished_training_is_known_under_what_its_parameters_came_to() {
    let (t4, a100) = (Some("fp16"), Some("bf16"));
    let written = [("auto", a100), ("bf16", a100), ("auto", a100), ("fp16", a100), ("f32", t4)];
    assert_eq!(trainings(&written), [1, 0, 0, 1, 1]);
    // On another machine it is found, and not trained again.
    assert_eq!(trainings(&[("auto", a100), ("auto", t4), ("fp16", t4)]), [1, 0, 1]);
    // The precision changed on the way: it is the result of no single one.
    assert_eq!(
        trainings(&[("auto", None), ("auto", t4), ("fp16", t4), ("bf16", t4)]),
        [1, 0, 1, 1]
    );
}
