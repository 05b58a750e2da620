//! The turns of stages: what nothing waits for takes no thread from a training, and what only compares
//! never stops one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::engine::{RunOptions, WorkerCommand};
use engine::event::{Event, StageCounts, Status};
use stage_core::{
    Context, FieldSet, FieldType, InputPort, Item, ItemJob, Job, Kind, Output, OutputPort, Reject,
    Setup, Stage, StageError,
};
use throstle_tests::{Lab, stages};

/// Passes items on once the test has seen an event. A run in which the event cannot come before fails.
struct Patient(Arc<AtomicBool>);

static PATIENT: Kind = Kind {
    name: "test.patient",
    summary: "Waits for an event of the run.",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("body", FieldType::Blob)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort::DATASET],
    ..Kind::BASE
};

impl Stage for Patient {
    fn kind(&self) -> &'static Kind {
        &PATIENT
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(Patient(self.0.clone()))))
    }
}

impl ItemJob for Patient {
    fn process(
        &self,
        items: &[Item],
        _: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let started = Instant::now();
        while !self.0.load(Ordering::SeqCst) {
            if started.elapsed() > Duration::from_secs(30) {
                return Err(StageError::failed("the event did not come"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(items.iter().map(|_| Ok(Output::default())).collect())
    }
}

/// The description alone: the implementation is in the worker.
struct Remote;

impl Stage for Remote {
    fn kind(&self) -> &'static Kind {
        &stages::REMOTE
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Err(StageError::failed("this stage runs in the worker"))
    }
}

/// A lab with 40 texts.
fn lab(manifest: &str) -> Lab {
    let lab = Lab::new();
    lab.write("pipeline.toml", manifest);
    for number in 0..40 {
        lab.write(&format!("data/clip{number:02}.txt"), &format!("text {number}"));
    }
    lab
}

/// Runs with a stage `test.patient` that waits for such an event.
fn run(
    mut lab: Lab,
    awaited: fn(&Event) -> bool,
) -> (Status, BTreeMap<String, StageCounts>, Vec<Event>) {
    let seen = Arc::new(AtomicBool::new(false));
    lab.stages.push(Arc::new(Patient(seen.clone())));
    let (cache, pipeline) = (lab.cache(), lab.pipeline());
    let mut events = Vec::new();
    let mut sink = |event: Event| {
        if awaited(&event) {
            seen.store(true, Ordering::SeqCst);
        }
        events.push(event);
    };
    let status = lab.engine().run(&pipeline, &cache, &RunOptions::default(), &mut sink).unwrap();
    let Some(Event::Finished { stages, .. }) = events.last().cloned() else { panic!("{events:?}") };
    (status, stages, events)
}

const STARVED: &str = r#"
[pipeline]
name = "starved"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"

[stage.doubled]
use = "test.twice"
input = "loud"

[stage.trained]
use = "test.train"
input = "doubled"

[stage.pictures]
use = "test.patient"
input = "lines"
export = "out/{id}.txt"

[stage.charts]
use = "test.patient"
input = "loud"
export = "out/charts/{id}.txt"
"#;

#[test]
fn slow_stages_that_nothing_waits_for_leave_a_thread_to_the_chain_of_a_training() {
    let mut lab = lab(STARVED);
    lab.threads = 2;
    let is_step =
        |event: &Event| matches!(event, Event::Metrics { stage, .. } if stage == "trained");
    let (status, stages, events) = run(lab, is_step);
    assert_eq!(status, Status::Done, "{events:?}");
    assert_eq!((stages["pictures"].executed, stages["charts"].executed), (40, 40));
}

const COMPARED: &str = r#"
[pipeline]
name = "compared"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.untuned]
use = "test.remote"
input = "lines"

[stage.measured]
use = "test.twice"
input = "untuned"
export = "out/untuned/{id}.txt"

[stage.awaited]
use = "test.patient"
input = "lines"

[stage.trained]
use = "test.train"
input = "awaited"
export = "out/model"

[stage.heard]
use = "test.twice"
input = "awaited"
export = "out/heard/{id}.txt"
"#;

#[test]
fn a_comparison_that_fails_stops_no_training() {
    let mut lab = lab(COMPARED);
    lab.stages.push(Arc::new(Remote));
    lab.worker = WorkerCommand {
        program: Some(env!("CARGO_BIN_EXE_fake_worker").into()),
        // No item fits: the untuned model speaks nothing.
        arguments: ["memory", "1"].map(str::to_owned).to_vec(),
        environment: Vec::new(),
        lacks: None,
    };
    let (status, stages, events) =
        run(lab, |event| matches!(event, Event::StageFailed { stage, .. } if stage == "untuned"));
    assert_eq!(status, Status::Failed);
    assert_eq!((stages["trained"].executed, stages["heard"].executed), (1, 40), "{events:?}");
    assert_eq!(stages["measured"].executed, 0);
    let told = |event: &&Event| matches!(event, Event::Note { stage: Some(stage), .. } if stage == "untuned");
    let notes: Vec<&Event> = events.iter().filter(told).collect();
    assert!(format!("{notes:?}").contains("`trained` and all other stages"), "{notes:?}");
}
