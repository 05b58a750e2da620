//! Misbehaving stages, and runs stopped by people: finished work stays, and the next run continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::engine::{RunOptions, StopFlag};
use engine::event::{Event, Status};
use stage_core::{
    Context, InputPort, Item, ItemJob, Job, Kind, NewValue, Output, OutputPort, Reject, Setup,
    Stage, StageError,
};
use throstle_tests::worlds::{TEXTS, eager, fresh};
use throstle_tests::{Lab, MANIFEST, Ran};

const BODY: &[(&str, stage_core::FieldType)] = &[("body", stage_core::FieldType::Blob)];

/// Replaces `test.twice`: misbehaves at texts that say so.
static ODD: Kind = Kind {
    name: "test.odd",
    summary: "Misbehaves.",
    inputs: &[InputPort { reads: stage_core::FieldSet::These(BODY), ..InputPort::DATASET }],
    outputs: &[OutputPort { writes: BODY, ..OutputPort::DATASET }],
    ..Kind::BASE
};

#[derive(Clone, Default)]
struct Odd {
    calls: Arc<AtomicU64>,
    /// The number of failures of every item before it succeeds.
    failures: u64,
}

impl Stage for Odd {
    fn kind(&self) -> &'static Kind {
        &ODD
    }

    fn open(&self, _: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
        Ok(Job::Item(Box::new(self.clone())))
    }
}

impl ItemJob for Odd {
    fn process(
        &self,
        items: &[Item],
        context: &mut dyn Context,
    ) -> Result<Vec<Result<Output, Reject>>, StageError> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let blob = items[0].fields.blob("body").unwrap();
        let text = String::from_utf8(context.read(blob)?.to_vec()).unwrap();
        if text.contains("HANG") {
            std::thread::sleep(Duration::from_secs(3));
        }
        if text.contains("PANIC") {
            panic!("told to");
        }
        if text.contains("TWO RESULTS") {
            let output = Output::default();
            return Ok(vec![Ok(output.clone()), Ok(output)]);
        }
        if text.contains("NO SPACE") && call < NO_SPACE_CALLS {
            return Err(StageError::NoSpace { message: "no space left on the device".into() });
        }
        if call < self.failures {
            return Err(StageError::Transient { message: "not now".into() });
        }
        let output = NewValue::bytes("text/plain", text.to_lowercase().into_bytes());
        Ok(vec![Ok(Output::default().with("body", output))])
    }
}

/// The number of calls of a stage without free space.
const NO_SPACE_CALLS: u64 = 31;

/// Many good texts, and this one.
fn lab(odd: Odd, text: &str, policy: &str) -> Lab {
    let mut lab = Lab::new();
    lab.stages.push(Arc::new(odd));
    for number in 0..30 {
        lab.write(&format!("data/good{number:02}.txt"), &format!("fine {number}"));
    }
    if !text.is_empty() {
        lab.write("data/zed.txt", text);
    }
    let odd = format!("use = \"test.odd\"\n{policy}\n");
    lab.write("pipeline.toml", &MANIFEST.replace("use = \"test.twice\"\n", &odd));
    lab
}

fn quarantined(ran: &Ran) -> Vec<(String, String)> {
    let of = |event: &Event| match event {
        Event::ItemQuarantined { item, code, .. } => Some((item.clone(), code.clone())),
        _ => None,
    };
    ran.events.iter().filter_map(of).collect()
}

#[test]
fn a_panic_or_a_wrong_count_costs_its_item_alone() {
    for text in ["Panic", "two results"] {
        let lab = lab(Odd::default(), text, "");
        let ran = lab.run();
        assert_eq!((ran.status, ran.executed("twice")), (Status::Done, 31), "{text}");
        assert_eq!(quarantined(&ran), [("zed".to_owned(), "failed".to_owned())]);
        assert_eq!(lab.exports().len(), 30 + 1);
    }
}

#[test]
fn an_item_that_hangs_is_given_up_and_the_others_are_done() {
    let lab = lab(Odd::default(), "hang", "timeout = \"300ms\"");
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    assert_eq!(quarantined(&ran), [("zed".to_owned(), "timed-out".to_owned())]);
    assert_eq!(lab.exports().len(), 30 + 1);
}

#[test]
fn a_stage_without_space_pauses_the_run_and_the_rest_is_done_once_there_is_some() {
    let lab = lab(Odd::default(), "no space", "");
    let ran = lab.run();
    assert_eq!((ran.status, quarantined(&ran)), (Status::Paused, vec![]), "{:?}", ran.events);
    let why = |event: &Event| matches!(event, Event::Stopping { why } if why.contains("no space"));
    assert!(ran.events.iter().any(why), "{:?}", ran.events);
    let done = ran.executed("twice");
    let again = loop {
        // Each call without space counts, until there is some.
        let again = lab.run();
        if again.status != Status::Paused {
            break again;
        }
    };
    assert_eq!(again.status, Status::Done);
    assert!(again.executed("twice") >= 1 && done + again.executed("twice") <= 31);
    assert_eq!(lab.exports().len(), 31 + 1);
}

#[test]
fn what_fails_in_passing_is_tried_again() {
    let lab = lab(Odd { failures: 2, ..Odd::default() }, "", "retries = 2");
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("twice")), (Status::Done, 30));
    assert_eq!(quarantined(&ran), []);
    let retries = ran.events.iter().filter(|event| matches!(event, Event::Retried { .. }));
    assert_eq!(retries.count(), 2);
}

#[test]
fn what_goes_on_failing_is_set_aside_after_its_retries_and_tried_at_the_next_run() {
    let lab =
        lab(Odd { failures: u64::MAX, ..Odd::default() }, "", "retries = 1\nquarantine = 1.0");
    let ran = lab.run();
    assert_eq!((ran.status, quarantined(&ran).len()), (Status::Done, 30));
    let mut mended = lab;
    mended.stages.pop();
    mended.stages.push(Arc::new(Odd::default()));
    let ran = mended.run();
    assert_eq!((ran.executed("twice"), mended.exports().len()), (30, 31));
}

/// Requests a stop at the n-th event.
fn stopped_at(number: u64, options: RunOptions) -> Option<(Lab, u64)> {
    let memory = fresh();
    let lab = Lab::in_memory(&memory);
    let stop = StopFlag::default();
    let options = RunOptions { stop: stop.clone(), ..options };
    let mut events = Vec::new();
    let mut sink = |event: Event| {
        events.push(event);
        if events.len() as u64 == number {
            stop.request();
        }
    };
    let cache = lab.cache();
    let status = lab.engine().run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
    let Some(Event::Finished { stages, .. }) = events.last() else { panic!("{events:?}") };
    if (events.len() as u64) < number {
        return None;
    }
    assert!(matches!(status, Status::Paused | Status::Done), "event {number}: {events:?}");
    let executed = stages["loud"].executed + stages["twice"].executed;
    Some((lab, executed))
}

#[test]
fn a_run_may_be_stopped_at_every_event_and_goes_on_where_it_was() {
    for options in [RunOptions::default(), eager()] {
        let expected = Lab::in_memory(&fresh());
        expected.run();
        let mut paused = 0;
        for number in 1.. {
            let Some((lab, executed)) = stopped_at(number, options.clone()) else { break };
            let ran = lab.run();
            assert_eq!(ran.status, Status::Done, "event {number}");
            // Nothing finished is repeated, since a stop is no crash.
            let both = executed + ran.items_executed();
            assert_eq!(both, 2 * TEXTS.len() as u64, "event {number}");
            assert_eq!(lab.exports(), expected.exports(), "event {number}");
            assert!(lab.run().nothing_executed(), "event {number}");
            paused += 1;
        }
        assert!(paused > 8, "{paused} pauses");
    }
}
