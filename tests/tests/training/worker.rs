//! The effects of a worker on a run: its death, its lack of memory, its silence.

use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use engine::engine::{RunOptions, StopFlag, WorkerCommand};
use engine::event::{Event, Status};
use nix::sys::signal::Signal;
use stage_core::{
    Context, GatherInput, GatherJob, GatherOutput, Job, Kind, Setup, Stage, StageError,
};
use throstle_tests::{Lab, Ran, send, stages};

const MANIFEST: &str = r#"
[pipeline]
name = "remote"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.far]
use = "test.remote"
input = "lines"
retries = 3
export = "out/{id}.txt"

[stage.joined]
use = "test.join"
input = "far"
export = "out/all.txt"
"#;

/// The description alone: the implementation is in the worker.
struct Remote(&'static Kind);

impl Stage for Remote {
    fn kind(&self) -> &'static Kind {
        self.0
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Err(StageError::failed("this stage runs in the worker"))
    }
}

fn lab(arguments: &[&str]) -> Lab {
    let mut lab = Lab::new();
    lab.write("pipeline.toml", MANIFEST);
    for number in 0..12 {
        lab.write(&format!("data/clip{number:02}.txt"), &"x".repeat(10 + number));
    }
    lab.stages.push(Arc::new(Remote(&stages::REMOTE)));
    lab.stages.push(Arc::new(Remote(&stages::COUNTED)));
    lab.worker = WorkerCommand {
        program: Some(fake_worker()),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        environment: Vec::new(),
        lacks: None,
    };
    lab
}

fn fake_worker() -> Utf8PathBuf {
    env!("CARGO_BIN_EXE_fake_worker").into()
}

fn all(lab: &Lab) -> String {
    lab.read("out/all.txt").unwrap()
}

fn count(ran: &Ran, wanted: fn(&Event) -> bool) -> usize {
    ran.events.iter().filter(|event| wanted(event)).count()
}

#[test]
fn a_worker_stage_gives_what_it_should_and_one_process_serves_the_run() {
    let lab = lab(&[]);
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("far")), (Status::Done, 12));
    assert!(all(&lab).starts_with("clip00: xxxxxxxxxx xxxxxxxxxx\n"));
    assert_eq!(count(&ran, |event| matches!(event, Event::WorkerStarted { .. })), 1);
    let again = lab.run();
    assert!(again.nothing_executed());
    assert_eq!(count(&again, |event| matches!(event, Event::WorkerStarted { .. })), 0);
}

#[test]
fn a_worker_may_die_at_every_message() {
    let healthy = lab(&[]);
    healthy.run();
    let expected = all(&healthy);
    let mut deaths = 0;
    for number in 1.. {
        let mut lab = lab(&[]);
        let state = lab.base().join("count").to_string();
        lab.worker.arguments = vec!["die-at".into(), number.to_string(), state];
        let ran = lab.run();
        assert_eq!((ran.status, all(&lab)), (Status::Done, expected.clone()), "message {number}");
        assert_eq!(ran.executed("far"), 12, "message {number}");
        let died = |event: &Event| match event {
            Event::WorkerDied { message, .. } => message.contains("told to die"),
            _ => false,
        };
        if !ran.events.iter().any(died) {
            break;
        }
        deaths += 1;
    }
    // Handshake, opening, and one for every batch.
    assert!(deaths >= 5, "{deaths} deaths");
}

#[test]
fn lack_of_memory_halves_the_batch_and_changes_no_key() {
    let roomy = lab(&[]);
    roomy.run();
    let tight = lab(&["memory", "22"]);
    let ran = tight.run();
    assert_eq!(ran.status, Status::Done);
    assert_eq!(all(&tight), all(&roomy));
    assert!(count(&ran, |event| matches!(event, Event::BatchHalved { .. })) >= 1);
    let mut same_cache = tight;
    same_cache.worker.arguments.clear();
    assert!(same_cache.run().nothing_executed());
}

#[test]
fn the_batch_size_that_held_is_where_the_next_run_begins() {
    let lab = lab(&["memory", "22"]);
    let halved = |ran: &Ran| count(ran, |event| matches!(event, Event::BatchHalved { .. }));
    assert!(halved(&lab.run()) >= 1);
    let text = std::fs::read_to_string(lab.base().join("pipeline.toml")).unwrap();
    lab.write("pipeline.toml", &text.replace("retries = 3", "retries = 3\nsalt = \"again\""));
    let again = lab.run();
    assert_eq!((again.status, again.executed("far"), halved(&again)), (Status::Done, 12, 0));
}

/// The batch sizes after halving: bytes and items.
fn halved_to(ran: &Ran) -> Vec<(Option<u64>, Option<u64>)> {
    let size = |event: &Event| match event {
        Event::BatchHalved { bytes, items, .. } => Some((*bytes, *items)),
        _ => None,
    };
    ran.events.iter().filter_map(size).collect()
}

#[test]
fn batches_of_a_number_of_items_are_halved_by_that_number() {
    // Any two items fit, and five never do.
    let lab = lab(&["memory", "45"]);
    let text = MANIFEST.replace("test.remote", "test.counted");
    lab.write("pipeline.toml", &text);
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("far")), (Status::Done, 12));
    assert_eq!(halved_to(&ran), [(None, Some(2))]);
    lab.write("pipeline.toml", &text.replace("retries = 3", "retries = 3\nsalt = \"again\""));
    let again = lab.run();
    assert_eq!((again.executed("far"), halved_to(&again)), (12, vec![]));
    lab.write("pipeline.toml", &text.replace("retries = 3", "retries = 3\nbatch = 2"));
    assert!(lab.run().nothing_executed());
}

#[test]
fn an_item_that_never_fits_is_named_with_its_size() {
    let lab = lab(&["memory", "20"]);
    let text = std::fs::read_to_string(lab.base().join("pipeline.toml")).unwrap();
    lab.write("pipeline.toml", &text.replace("retries = 3", "quarantine = \"10%\""));
    let ran = lab.run();
    let reasons: Vec<&String> = ran
        .events
        .iter()
        .filter_map(|event| match event {
            Event::ItemQuarantined { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!((ran.status, reasons.len()), (Status::Done, 1));
    assert!(reasons[0].contains("even with this item alone, with 21 B"), "{reasons:?}");
}

#[test]
fn a_worker_that_hangs_is_ended_after_the_time_limit() {
    let lab = lab(&["hang"]);
    let text = std::fs::read_to_string(lab.base().join("pipeline.toml")).unwrap();
    lab.write("pipeline.toml", &text.replace("retries = 3", "timeout = \"100ms\"\nretries = 0"));
    let ran = lab.run();
    assert_eq!(ran.status, Status::Failed);
}

/// Asks the run to stop when its worker is there, after something was done to that.
fn stopped(lab: &Lab, meanwhile: fn(u32)) -> Ran {
    let stop = StopFlag::default();
    let options = RunOptions { stop: stop.clone(), ..RunOptions::default() };
    let mut events = Vec::new();
    let mut sink = |event: Event| {
        if let Event::WorkerStarted { process, .. } = &event {
            meanwhile(*process);
            stop.request();
        }
        events.push(event);
    };
    let cache = lab.cache();
    let status = lab.engine().run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
    Ran { status, stages: Default::default(), events }
}

fn notes(ran: &Ran) -> Vec<&str> {
    fn note(event: &Event) -> Option<&str> {
        match event {
            Event::Note { message, .. } => Some(message.as_str()),
            _ => None,
        }
    }
    ran.events.iter().filter_map(note).collect()
}

#[test]
fn a_worker_that_hangs_does_not_keep_a_run_from_stopping() {
    let mut lab = lab(&["hang"]);
    let ran = stopped(&lab, |_| ());
    assert_eq!((ran.status, ran.failures()), (Status::Paused, vec![]), "{:?}", ran.events);
    assert!(notes(&ran)[0].contains("killed the worker"), "{:?}", ran.events);
    lab.worker.arguments.clear();
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("far")), (Status::Done, 12));
}

#[test]
fn a_worker_that_somebody_has_stopped_is_woken_to_finish() {
    let lab = lab(&[]);
    let ran = stopped(&lab, |process| send(process, Signal::SIGSTOP));
    assert_eq!((ran.status, notes(&ran)), (Status::Paused, vec![]), "{:?}", ran.events);
    assert_eq!(lab.run().status, Status::Done);
}

#[test]
fn a_program_that_is_no_worker_fails_the_stage_with_its_words() {
    let lab = lab(&["garbage"]);
    let ran = lab.run();
    let message = ran.events.iter().find_map(|event| match event {
        Event::StageFailed { message, .. } => Some(message.clone()),
        _ => None,
    });
    assert_eq!(ran.status, Status::Failed);
    let message = message.unwrap();
    let noise = "its standard output (\"this\" instead of the start of a message)";
    assert!(message.contains(noise) && !message.contains("SIGKILL"), "{message}");
}

#[test]
fn a_missing_worker_says_how_to_get_one() {
    let mut lab = lab(&[]);
    lab.worker.program = None;
    let ran = lab.run();
    let help = ran.events.iter().find_map(|event| match event {
        Event::StageFailed { help, .. } => help.clone(),
        _ => None,
    });
    assert_eq!(ran.status, Status::Failed);
    assert!(help.unwrap().contains("make build"));
}

#[test]
fn a_worker_without_memory_pauses_the_run() {
    for words in [
        "throstle-torch: the system has no memory left",
        "error while loading shared libraries: libc10.so: failed to map segment from shared object",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ] {
        let mut lab = lab(&[]);
        lab.worker.program = Some("/bin/sh".into());
        // It ends in the greeting, or with a task at hand.
        let script = "echo \"$0\" >&2; exit 127";
        lab.worker.arguments = ["-c", script, words].map(str::to_owned).to_vec();
        let ran = lab.run();
        assert_eq!(ran.status, Status::Paused, "{words}: {:?}", ran.failures());
        let is_verdict = |event: &Event| matches!(event, Event::ItemQuarantined { .. });
        assert!(!ran.events.iter().any(is_verdict), "{:?}", ran.events);
        assert!(ran.stopping().iter().any(|why| why.contains(words)), "{:?}", ran.stopping());
        lab.worker = self::lab(&[]).worker;
        let ran = lab.run();
        assert_eq!((ran.status, ran.executed("far")), (Status::Done, 12), "{:?}", ran.failures());
    }
}

/// What the worker held during each piece of work, and after each job that was closed.
fn held(manifest: &str) -> Vec<String> {
    let mut lab = lab(&[]);
    lab.stages.push(Arc::new(throstle_tests::train::Remote));
    lab.write("pipeline.toml", manifest);
    let file = lab.base().join("held");
    lab.worker.arguments = vec!["holds".into(), file.to_string()];
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    let noted = std::fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> =
        noted.lines().filter(|line| line.contains(" h")).map(str::to_owned).collect();
    lines.dedup();
    lines
}

#[test]
fn the_worker_drops_a_job_when_its_stage_ends() {
    assert_eq!(held(MANIFEST), ["test.remote holds 1", "0 left, 0 held"]);
}

#[test]
fn a_training_has_the_worker_to_itself() {
    // `other` has to wait for `far`, so its job may be open while the training begins.
    let manifest = format!(
        "{MANIFEST}\n[stage.other]\nuse = \"test.counted\"\ninput = \"far\"\n\n\
         [stage.trained]\nuse = \"test.remote-train\"\ninput = \"far\"\n"
    );
    let lines = held(&manifest);
    assert!(lines.iter().any(|line| line == "test.remote-train holds 1"), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("0 left, 0 held"), "{lines:?}");
}

#[test]
fn the_time_of_a_training_does_not_contain_that_of_another_one_before_it() {
    let mut lab = lab(&[]);
    lab.stages.push(Arc::new(throstle_tests::train::Remote));
    let training = |seed: u32| {
        format!(
            "[stage.trained{seed}]\nuse = \"test.remote-train\"\ninput = \"far\"\n\
             pause = \"20ms\"\nseed = {seed}\n\n"
        )
    };
    let trainings: String = (0..3).map(training).collect();
    lab.write("pipeline.toml", &format!("{MANIFEST}\n{trainings}"));
    let started = Instant::now();
    let ran = lab.run();
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    let own: f64 = (0..3).map(|seed| ran.stages[&format!("trained{seed}")].seconds).sum();
    assert!(0.0 < own && own <= seconds, "{own} of {seconds}");
}

#[test]
fn the_worker_gets_the_environment_of_its_command_and_no_other() {
    let mut lab = lab(&[]);
    let file = lab.base().join("environment");
    lab.worker.arguments = vec!["environment".into(), file.to_string()];
    lab.worker.environment = vec![("CUDA_VISIBLE_DEVICES".into(), "1".into())];
    assert!(std::env::var("PATH").is_ok(), "there is something to pass on");
    assert_eq!(lab.run().status, Status::Done);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "CUDA_VISIBLE_DEVICES=1\n");
}

/// Runs the small pipeline on a device; returns the run, and what the worker noted.
fn on_gpus(arguments: &[&str], device: &str) -> (Ran, Vec<String>) {
    let mut lab = lab(&[]);
    let settings = format!("use = \"test.remote\"\ndevice = \"{device}\"");
    lab.write("pipeline.toml", &MANIFEST.replace("use = \"test.remote\"", &settings));
    let file = lab.base().join("noted");
    lab.worker.arguments =
        arguments.iter().map(|text| text.replace("FILE", file.as_str())).collect();
    let ran = lab.run();
    let noted = std::fs::read_to_string(file).unwrap_or_default();
    (ran, noted.lines().map(str::to_owned).collect())
}

fn started(ran: &Ran) -> Vec<String> {
    let mut devices = Vec::new();
    for event in &ran.events {
        if let Event::WorkerStarted { device, .. } = event {
            devices.push(device.to_string());
        }
    }
    devices.sort_unstable();
    devices
}

#[test]
fn the_worker_is_asked_once_for_the_gpus_that_auto_means() {
    let (ran, noted) = on_gpus(&["gpus", "2", "FILE"], "auto");
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    assert!(started(&ran).iter().all(|device| device.starts_with("cuda:")), "{:?}", started(&ran));
    assert_eq!(noted.iter().filter(|line| *line == "asked for devices").count(), 1, "{noted:?}");
    let (ran, _) = on_gpus(&["gpus", "0", "FILE"], "auto");
    assert_eq!((ran.status, started(&ran)), (Status::Done, vec!["cpu".to_owned()]));
    let (ran, noted) = on_gpus(&["gpus", "2", "FILE"], "cpu");
    assert_eq!((ran.status, started(&ran)), (Status::Done, vec!["cpu".to_owned()]));
    assert!(!noted.iter().any(|line| line == "asked for devices"), "{noted:?}");
}

#[test]
fn no_worker_is_asked_while_its_stages_have_nothing_to_do() {
    let mut lab = lab(&[]);
    lab.run();
    let file = lab.base().join("noted");
    lab.worker.arguments = vec!["gpus".into(), "0".into(), file.to_string()];
    // A stage in this process.
    let added = "\n[stage.louder]\nuse = \"test.shout\"\ninput = \"far\"\n";
    lab.write("pipeline.toml", &format!("{MANIFEST}{added}"));
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("louder")), (Status::Done, 12));
    assert!(!file.exists(), "{:?}", std::fs::read_to_string(file));
}

#[test]
fn a_gpu_that_cannot_be_used_is_told_and_not_passed_over_for_the_processor() {
    let (ran, _) = on_gpus(&["problem", "the driver is for CUDA 12.2"], "auto");
    assert_eq!(ran.status, Status::Failed);
    let told = |event: &Event| match event {
        Event::StageFailed { message, .. } => message == "the driver is for CUDA 12.2",
        _ => false,
    };
    assert!(ran.events.iter().any(told), "{:?}", ran.events);
    let (ran, _) = on_gpus(&["problem", "the driver is for CUDA 12.2"], "cpu");
    assert_eq!(ran.status, Status::Done);
}

#[test]
fn another_spelling_of_a_device_is_no_other_device() {
    let mut lab = lab(&["gpus", "2", "/dev/null"]);
    lab.stages.push(Arc::new(throstle_tests::train::Remote));
    let far = MANIFEST.replace("\"test.remote\"", "\"test.remote\"\ndevice = \"cuda:01\"");
    lab.write("pipeline.toml", &far);
    let told = lab.try_pipeline().unwrap_err();
    assert!(told.contains("there is no device `cuda:01`"), "{told}");
    let training = "use = \"test.remote-train\"\ninput = \"lines\"\ndevices = [\"cuda:00\"]";
    lab.write("pipeline.toml", &format!("{MANIFEST}\n[stage.trained]\n{training}\n"));
    let told = lab.try_pipeline().unwrap_err();
    assert!(told.contains("there is no device `cuda:00`"), "{told}");
    // `cuda` in a list is the first GPU.
    let two = training.replace("\"cuda:00\"", "\"cuda\", \"cuda:0\"");
    lab.write("pipeline.toml", &format!("{MANIFEST}\n[stage.trained]\n{two}\n"));
    let reserved = lab.pipeline().find("trained").unwrap().parameters.devices("devices").unwrap();
    assert_eq!(reserved[0].first(), reserved[1].first());
}

#[test]
fn all_devices_of_a_training_are_reserved_for_it() {
    let mut lab = lab(&[]);
    lab.stages.push(Arc::new(throstle_tests::train::Remote));
    // Stages at the end come first, so the items become ready while the training runs. They have to
    // wait for its second device.
    let far = MANIFEST.replace("\"test.remote\"", "\"test.remote\"\ndevice = \"cuda:1\"");
    let training = "use = \"test.remote-train\"\ninput = \"lines\"\npause = \"100ms\"";
    let devices = "device = \"cuda:0\"\ndevices = [\"cuda:0\", \"cuda:1\"]";
    lab.write("pipeline.toml", &format!("{far}\n[stage.trained]\n{training}\n{devices}\n"));
    lab.worker.arguments = vec!["gpus".into(), "2".into(), lab.base().join("noted").to_string()];
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("far")), (Status::Done, 12), "{:?}", ran.events);
    let order = ran.events.iter().filter_map(|event| match event {
        Event::WorkerStarted { device, .. } => Some(device.to_string()),
        Event::StageFinished { stage, .. } if stage == "trained" => Some(stage.clone()),
        _ => None,
    });
    let order: Vec<String> = order.collect();
    assert_eq!(order, ["cuda:0", "trained", "cuda:1"], "{:?}", ran.events);
}

/// Items on `cuda:1` that begin before `trained` is ready, which uses both GPUs; and this.
fn beside_items(more: &str) -> (Lab, Utf8PathBuf) {
    let mut lab = lab(&[]);
    lab.stages.push(Arc::new(throstle_tests::train::Remote));
    let far = MANIFEST.replace("\"test.remote\"", "\"test.remote\"\ndevice = \"cuda:1\"");
    let loud = "[stage.loud]\nuse = \"test.shout\"\ninput = \"lines\"";
    let trained = "[stage.trained]\nuse = \"test.remote-train\"\ninput = \"loud\"";
    let devices = "device = \"cuda:0\"\ndevices = [\"cuda:0\", \"cuda:1\"]";
    lab.write("pipeline.toml", &format!("{far}\n{loud}\n{trained}\n{devices}\n{more}"));
    let noted = lab.base().join("noted");
    lab.worker.arguments = vec!["meets".into(), noted.to_string()];
    (lab, noted)
}

/// The order of items and trainings, as the workers noted it. A training has all GPUs to itself.
fn order(noted: &Utf8PathBuf) -> Vec<String> {
    let lines: Vec<String> =
        std::fs::read_to_string(noted).unwrap().lines().map(str::to_owned).collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| *line == "training begins") {
        let begun = lines[..at].iter().filter(|line| line.contains(" begin")).count();
        let ended = lines[..at].iter().filter(|line| line.contains(" end")).count();
        assert_eq!(begun, ended, "line {at}, {line}: {lines:?}");
        assert_eq!(lines[at + 1], "training ends", "{lines:?}");
    }
    lines
}

#[test]
fn a_training_on_two_devices_waits_for_work_on_the_other_one_and_keeps_it_from_more() {
    let (lab, noted) = beside_items("");
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("far")), (Status::Done, 12), "{:?}", ran.events);
    let lines = order(&noted);
    let ended = lines.iter().position(|line| line == "training ends").unwrap();
    assert_eq!(lines[0], "items begin", "the device was idle: {lines:?}");
    assert!(lines[ended..].contains(&"items begin".to_owned()), "it came last: {lines:?}");
}

#[test]
fn two_trainings_on_the_same_devices_run_one_after_the_other() {
    let other = "[stage.other]\nuse = \"test.remote-train\"\ninput = \"loud\"\nseed = 5";
    let devices = "device = \"cuda:1\"\ndevices = [\"cuda:1\", \"cuda:0\"]";
    let (lab, noted) = beside_items(&format!("{other}\n{devices}\n"));
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("far")), (Status::Done, 12), "{:?}", ran.events);
    let lines = order(&noted);
    assert_eq!(lines.iter().filter(|line| *line == "training begins").count(), 2, "{lines:?}");
}

#[test]
fn a_run_that_stops_while_a_training_waits_for_a_device_goes_on_later() {
    let (lab, noted) = beside_items("");
    let stop = StopFlag::default();
    let clock = {
        let (stop, noted) = (stop.clone(), noted.clone());
        std::thread::spawn(move || {
            while !noted.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.request_after_batch();
        })
    };
    let ran = lab.run_with(&RunOptions { stop, ..RunOptions::default() });
    clock.join().unwrap();
    assert_eq!(ran.status, Status::Paused, "{:?}", ran.events);
    assert!(!order(&noted).contains(&"training begins".to_owned()));
    assert_eq!(lab.run().status, Status::Done);
    assert!(order(&noted).contains(&"training begins".to_owned()));
}

#[test]
fn a_run_with_a_time_limit_over_before_its_worker_answers_makes_a_step() {
    let mut lab = lab(&[]);
    lab.stages.push(Arc::new(throstle_tests::train::Remote));
    let lines =
        "[pipeline]\nname = \"p\"\n[stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n";
    lab.write("pipeline.toml", lines);
    assert_eq!(lab.run().status, Status::Done);
    // Only the training is left.
    let trained = "[stage.trained]\nuse = \"test.remote-train\"\ninput = \"lines\"\n";
    lab.write("pipeline.toml", &format!("{lines}{trained}"));
    let answer = lab.base().join("answer");
    lab.worker.arguments = vec!["slow-driver".into(), answer.to_string()];
    let stop = StopFlag::default();
    let clock = {
        let (stop, asked) = (stop.clone(), Utf8PathBuf::from(format!("{answer}.asked")));
        std::thread::spawn(move || {
            while !asked.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            stop.request_after_batch();
            std::fs::write(&answer, "")
        })
    };
    let deadline = Some(Instant::now());
    let ran = lab.run_with(&RunOptions { deadline, stop, ..RunOptions::default() });
    clock.join().unwrap().unwrap();
    let is_step = |event: &Event| matches!(event, Event::Metrics { step: 1, .. });
    let is_kept = |event: &Event| matches!(event, Event::CheckpointKept { .. });
    assert_eq!((ran.status, count(&ran, is_step)), (Status::Paused, 1), "{:?}", ran.events);
    assert!(count(&ran, is_kept) > 0, "{:?}", ran.events);
}

/// `test.join` that leaves a file when it is done.
struct Telling(Utf8PathBuf);

impl Stage for Telling {
    fn kind(&self) -> &'static Kind {
        stages::Join.kind()
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Gather(Box::new(Telling(self.0.clone()))))
    }
}

impl GatherJob for Telling {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let output = stages::JoinJob.run(input, context)?;
        std::fs::write(&self.0, "done").unwrap();
        Ok(output)
    }
}

#[test]
fn other_stages_go_on_while_a_driver_takes_its_time() {
    let mut lab = lab(&[]);
    let done = lab.base().join("near-is-done");
    lab.stages.retain(|stage| stage.kind().name != stages::Join.kind().name);
    lab.stages.push(Arc::new(Telling(done.clone())));
    // The driver answers once all stages without a device are done.
    lab.worker.arguments = vec!["slow-driver".into(), done.into_string()];
    let near = "[stage.loud]\nuse = \"test.shout\"\ninput = \"lines\"\n\n\
                [stage.near]\nuse = \"test.join\"\ninput = \"loud\"\n";
    lab.write("pipeline.toml", &format!("{MANIFEST}\n{near}"));
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    let place = |wanted: &dyn Fn(&Event) -> bool| ran.events.iter().position(wanted).unwrap();
    let near =
        place(&|event| matches!(event, Event::StageFinished { stage, .. } if stage == "near"));
    let far = place(&|event| matches!(event, Event::StageFinished { stage, .. } if stage == "far"));
    assert!(near < far, "{:?}", ran.events);
}
