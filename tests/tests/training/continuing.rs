//! The use of a finished model when the data change: `on_change`.

use engine::engine::{RunOptions, StopFlag};
use engine::event::{Event, Status};
use throstle_tests::training::{MANIFEST, STEPS, lab, steps, weights};
use throstle_tests::{Lab, Ran};

fn set(lab: &Lab, on_change: &str) {
    let line = format!("retries = 2\non_change = \"{on_change}\"");
    lab.write("pipeline.toml", &MANIFEST.replace("retries = 2", &line));
}

fn trains(lab: &Lab) -> Vec<u8> {
    let ran = lab.run();
    assert_eq!((ran.status, steps(&ran).len() as u64), (Status::Done, STEPS), "{:?}", ran.events);
    weights(lab)
}

/// Nothing is trained, and the next run has nothing to do.
fn knows(lab: &Lab) -> Vec<u8> {
    let ran = lab.run();
    assert_eq!((ran.status, ran.executed("model")), (Status::Done, 0), "{:?}", ran.events);
    let again = lab.run();
    assert!(again.nothing_executed(), "{:?}", again.events);
    weights(lab)
}

fn edit(lab: &Lab, text: &str) {
    lab.write("data/new.txt", text);
}

/// The model of these data alone.
fn alone(text: &str) -> Vec<u8> {
    let lab = lab();
    edit(&lab, text);
    trains(&lab)
}

fn reasons(ran: &Ran) -> String {
    let reasons = ran.events.iter().find_map(|event| match event {
        Event::StageStarted { stage, reasons, .. } if stage == "model" => Some(reasons.join("; ")),
        _ => None,
    });
    reasons.unwrap()
}

#[test]
fn retrain_begins_anew_and_continue_goes_on_from_the_last_model() {
    let lab = lab();
    trains(&lab);
    edit(&lab, "one");
    assert_eq!(trains(&lab), alone("one"));
    set(&lab, "continue");
    assert_eq!(knows(&lab), alone("one"), "another answer to the same data is no change");
    edit(&lab, "two");
    let plan = lab.reasons("model").join("; ");
    assert!(
        plan.contains("waits for") || plan.contains("continues from its earlier outcome"),
        "{plan}"
    );
    let ran = lab.run();
    assert!(reasons(&ran).contains("continues from its earlier outcome"), "{}", reasons(&ran));
    let continued = weights(&lab);
    assert_ne!(continued, alone("two"));
    assert_eq!(knows(&lab), continued);
}

#[test]
fn the_same_parent_and_the_same_data_give_the_same_model_in_any_cache() {
    let history = || {
        let lab = lab();
        set(&lab, "continue");
        let models = ["one", "two", "three"].map(|text| {
            edit(&lab, text);
            trains(&lab)
        });
        (lab, models)
    };
    let ((lab, models), (_, again)) = (history(), history());
    assert_eq!(models, again);
    // Outcomes of earlier data are still there when the data come back.
    for (text, model) in ["one", "three", "two", "one"].into_iter().zip([0, 2, 1, 0]) {
        edit(&lab, text);
        assert_eq!(knows(&lab), models[model], "{text}");
    }
}

#[test]
fn retrain_after_continue_begins_anew_and_says_so() {
    let lab = lab();
    set(&lab, "continue");
    edit(&lab, "one");
    trains(&lab);
    edit(&lab, "two");
    let continued = trains(&lab);
    set(&lab, "retrain");
    let ran = lab.run();
    assert!(reasons(&ran).contains("starts from scratch"), "{}", reasons(&ran));
    assert_eq!((steps(&ran).len() as u64, weights(&lab)), (STEPS, alone("two")));
    assert_ne!(weights(&lab), continued);
    assert_eq!(knows(&lab), alone("two"));
}

/// Runs until a step is done and its state is saved.
fn runs_one_step(lab: &Lab) -> u64 {
    let stop = StopFlag::default();
    let options = RunOptions { stop: stop.clone(), ..RunOptions::default() };
    let mut last = 0;
    let mut sink = |event: Event| {
        if let Event::Metrics { step, .. } = event {
            last = step;
            stop.request();
        }
    };
    let cache = lab.cache();
    let status = lab.engine().run(&lab.pipeline(), &cache, &options, &mut sink).unwrap();
    assert_eq!(status, Status::Paused);
    last
}

#[test]
fn a_continued_training_that_was_stopped_keeps_its_parent_whatever_happens_meanwhile() {
    let begin = || {
        let lab = lab();
        // Each event is handled before the next step begins.
        let manifest =
            MANIFEST.replace("retries = 2", "on_change = \"continue\"\npause = \"50ms\"");
        lab.write("pipeline.toml", &manifest);
        edit(&lab, "one");
        trains(&lab);
        edit(&lab, "two");
        lab
    };
    let expected = trains(&begin());
    let lab = begin();
    let first = runs_one_step(&lab);
    assert!(lab.reasons("model").iter().any(|reason| reason.contains("checkpoint of run 2")));
    // Another model is finished in between.
    edit(&lab, "three");
    trains(&lab);
    edit(&lab, "two");
    let ran = lab.run();
    assert_eq!(steps(&ran), (first + 1..=STEPS).collect::<Vec<_>>());
    assert_eq!(weights(&lab), expected);
    assert_eq!(knows(&lab), expected);
}
