//! The effect of a stop on a running batch.

use std::sync::Arc;

use engine::engine::{RunOptions, StopFlag};
use engine::event::{Event, Status};
use stage_core::{
    Context, FieldSet, FieldType, InputPort, Item, ItemJob, Job, Kind, Output, OutputPort, Reject,
    Setup, Stage, StageError,
};
use throstle_tests::{Lab, Ran};

static KIND: Kind = Kind {
    name: "test.asking",
    inputs: &[InputPort {
        reads: FieldSet::These(&[("body", FieldType::Blob)]),
        ..InputPort::DATASET
    }],
    outputs: &[OutputPort::DATASET],
    ..Kind::BASE
};

/// A stop is requested while it works on its first item.
#[derive(Clone)]
struct Asking {
    stop: StopFlag,
    how: fn(&StopFlag),
}

impl Stage for Asking {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(self.clone())))
    }
}

impl ItemJob for Asking {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        (self.how)(&self.stop);
        if context.stopping() {
            Err(StageError::Stopped)
        } else {
            Ok(items.iter().map(|_| Ok(Output::default())).collect())
        }
    }
}

fn stopped(items: usize, how: fn(&StopFlag)) -> Ran {
    let mut lab = Lab::new();
    lab.threads = 1;
    lab.write(
        "pipeline.toml",
        "[pipeline]\nname = \"p\"\n[stage.lines]\nuse = \"test.lines\"\nfolder = \"data\"\n\
         [stage.asking]\nuse = \"test.asking\"\ninput = \"lines\"\n\
         [stage.below]\nuse = \"test.join\"\ninput = \"asking\"\n",
    );
    (0..items).for_each(|n| lab.write(&format!("data/{n:02}.txt"), &format!("text {n}")));
    let stop = StopFlag::default();
    lab.stages.push(Arc::new(Asking { stop: stop.clone(), how }));
    lab.run_with(&RunOptions { stop, ..RunOptions::default() })
}

#[test]
fn a_batch_is_finished_when_the_time_is_over() {
    let ran = stopped(20, StopFlag::request_after_batch);
    assert_eq!(ran.status, Status::Paused, "{:?}", ran.events);
    assert_eq!(ran.executed("asking"), 1, "items that wait for the thread stay for the next run");
}

#[test]
fn a_batch_is_given_up_when_somebody_waits_for_the_end() {
    let ran = stopped(20, StopFlag::request);
    assert_eq!((ran.status, ran.executed("asking")), (Status::Paused, 0), "{:?}", ran.events);
}

#[test]
fn a_stage_without_work_after_a_stop_is_not_told_as_started() {
    let ran = stopped(1, StopFlag::request_after_batch);
    assert_eq!((ran.status, ran.executed("asking")), (Status::Paused, 1), "{:?}", ran.events);
    let started = ran.events.iter().filter_map(|event| match event {
        Event::StageStarted { stage, .. } => Some(stage.as_str()),
        _ => None,
    });
    assert_eq!(started.collect::<Vec<_>>(), ["lines", "asking"]);
}
