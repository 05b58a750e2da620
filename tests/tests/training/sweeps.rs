//! Successive halving in the engine: rungs that go on from each other's exact state, one winner
//! whatever is killed, stopped or shared, and no bookkeeping beside the results.

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::fs::MemoryFs;
use camino::Utf8PathBuf;
use engine::engine::{RunOptions, StopFlag};
use engine::estimate::estimate;
use engine::event::{Event, Status, Verdict};
use engine::gc::{self, GcLimits};
use engine::machine::Machine;
use engine::trials::{SweepState, TrialState, sweep_states};
use throstle_tests::processes::{Ended, start, wait};
use throstle_tests::train::{Remote, score};
use throstle_tests::training::steps;
use throstle_tests::worlds::{eager, filled};
use throstle_tests::{Lab, Ran};

const PROGRAM: &str = env!("CARGO_BIN_EXE_lab_run");

fn manifest(steps: u64, sweep: &str) -> String {
    format!(
        r#"
[pipeline]
name = "voice"

[stage.lines]
use = "test.lines"
folder = "data"

[stage.loud]
use = "test.shout"
input = "lines"

[stage.model]
use = "test.train"
input = "loud"
steps = {steps}
every = 2

[stage.heard]
use = "test.judge"
input = "model"

[sweep.rate]
stage = "model"
over = {{ rate = {{ from = 0.1, to = 0.9 }} }}
of = "heard"
score = "mean(score)"
{sweep}
"#
    )
}

fn lab(manifest: &str) -> Lab {
    filled(Lab::new(), manifest)
}

fn standing(lab: &Lab) -> SweepState {
    let (engine, pipeline, cache) = (lab.engine(), lab.pipeline(), lab.cache());
    let plan = engine.plan(&pipeline, &cache, &[], &mut |_| {}).unwrap();
    sweep_states(&engine, &pipeline, &cache, &plan).unwrap().remove(0)
}

/// The winner of halving one whole rung after the other, from trainings of all trials that were
/// never interrupted: one for each rung.
fn synchronous(steps: u64, trials: usize, rungs: &[u64], eta: usize) -> String {
    let mut members: Vec<String> = (0..trials).map(|trial| trial.to_string()).collect();
    for rung in rungs {
        let until = format!("steps = {steps}\nuntil = {rung}\n");
        let manifest = manifest(steps, &format!("trials = {trials}"));
        let lab = lab(&manifest.replace(&format!("steps = {steps}\n"), &until));
        assert_eq!(lab.run().status, Status::Done);
        let standing = standing(&lab);
        let scores: BTreeMap<String, f64> =
            standing.trials.iter().map(|row| (row.trial.clone(), row.best().unwrap())).collect();
        members.sort_by(|one, other| scores[one].total_cmp(&scores[other]));
        members.truncate((members.len() / eta).max(1));
    }
    members.remove(0)
}

#[test]
fn halving_does_the_steps_of_the_sheet_and_finds_the_winner_of_whole_rungs() {
    for (trials, steps_of_all, eta, rungs, percent) in [
        (27, 27, 3, vec![1, 3, 9], 11.1),
        (16, 16, 4, vec![1, 4], 15.6),
        (9, 9, 3, vec![1, 3], 25.9),
    ] {
        let sweep = format!("trials = {trials}\nrungs = {}\neta = {eta}", rungs.len() + 1);
        let lab = lab(&manifest(steps_of_all, &sweep));
        let ran = lab.run();
        assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
        let done = steps(&ran).len() as f64;
        let share = 100.0 * done / (trials as u64 * steps_of_all) as f64;
        assert!((share - percent).abs() < 0.1, "{trials} trials: {share} %");
        let standing = standing(&lab);
        assert!(standing.is_decided && (100.0 * standing.share - share).abs() < 1e-3);
        let all: Vec<u64> = rungs.iter().copied().chain([steps_of_all]).collect();
        let expected = synchronous(steps_of_all, trials, &all, eta);
        assert_eq!(standing.winner, Some(expected));
        assert!(lab.run().nothing_executed());
        let plan = lab.plan();
        assert!(plan.is_fresh(), "a decided sweep has no work");
        let out = plan.stages.iter().filter(|stage| stage.verdict == Verdict::Out).count();
        assert_eq!(
            out,
            2 * (trials * rungs.len()
                - standing.rungs[1..].iter().map(|r| r.places).sum::<usize>())
        );
    }
}

const RUNGS: &str = "trials = 9\nrungs = [1, 3]";

/// The standing of an undisturbed run.
fn straight() -> SweepState {
    let lab = lab(&manifest(9, RUNGS));
    assert_eq!(lab.run().status, Status::Done);
    let standing = standing(&lab);
    assert!(standing.winner.is_some());
    standing
}

#[test]
fn the_last_rung_is_the_training_that_was_never_interrupted() {
    let swept = lab(&manifest(9, RUNGS));
    swept.run();
    let standing = standing(&swept);
    let winner = standing.trials.iter().find(|row| row.state == TrialState::Winner).unwrap();
    // The same values as written, without a sweep.
    let plain = manifest(9, "").split("[sweep.rate]").next().unwrap().to_owned();
    let plain = plain.replace("every = 2", &format!("every = 5\nrate = {}", winner.values["rate"]));
    let plain = plain.replace("[stage.heard]", "export = \"out/model\"\n[stage.heard]");
    let fresh = lab(&plain);
    assert_eq!(steps(&fresh.run()), (1..=9).collect::<Vec<u64>>());
    let weights = fresh.exports().remove("model/weights").unwrap();
    let once = &weights[..weights.len() / 20_000];
    assert_eq!(winner.best(), Some(score(once)), "the bits differ");
    // In the cache of the sweep, it is there already.
    swept.write("pipeline.toml", &plain);
    let ran = swept.run();
    assert_eq!((ran.executed("model"), ran.executed("heard")), (0, 0));
    assert_eq!(swept.exports().remove("model/weights").unwrap(), weights);
}

#[test]
fn a_sweep_may_be_killed_at_every_event() {
    let expected = straight();
    let mut kills = 0;
    for number in (1..).step_by(7) {
        let lab = lab(&manifest(9, RUNGS));
        let number_text = number.to_string();
        let killed = ["--kill-at", &number_text, "--eager"];
        if let Ended::Itself(_) = wait(start(PROGRAM, &lab.base(), &killed)) {
            break;
        }
        kills += 1;
        let ran = lab.run();
        assert_eq!(ran.status, Status::Done, "event {number}: {:?}", ran.events);
        assert_eq!(standing(&lab), expected, "event {number}");
        assert!(lab.run().nothing_executed());
    }
    assert!(kills > 10, "{kills} kills");
}

#[test]
fn a_sweep_may_be_killed_again_and_again_and_each_time_does_something() {
    let expected = straight();
    let lab = lab(&manifest(9, RUNGS));
    for run in 1.. {
        assert!(run < 60, "no progress");
        let killed = ["--kill-at", "60", "--eager"];
        if let Ended::Itself(_) = wait(start(PROGRAM, &lab.base(), &killed)) {
            break;
        }
    }
    assert_eq!(standing(&lab), expected);
    assert!(lab.verify().is_clean());
}

#[test]
fn a_sweep_may_lose_its_power_after_any_sync() {
    let expected = straight();
    for cut in (0..).step_by(9) {
        let memory = MemoryFs::new();
        let lab = filled(Lab::in_memory(&memory), &manifest(9, RUNGS));
        let pipeline = lab.pipeline();
        memory.stop_after(cut);
        let result = lab.attempt(&pipeline, &eager());
        if memory.syncs() < cut {
            assert_eq!(result.unwrap().status, Status::Done);
            assert!(cut > 50, "only {cut} syncs were seen");
            return;
        }
        let lab = Lab::in_memory(&memory.crash());
        assert_eq!(lab.run().status, Status::Done);
        assert_eq!(standing(&lab), expected, "cut after sync {cut}");
    }
}

/// Stops at the n-th event.
fn stopped_at(lab: &Lab, number: usize) -> (Status, Vec<Event>) {
    let stop = StopFlag::default();
    let options = RunOptions { stop: stop.clone(), ..RunOptions::default() };
    let mut events = Vec::new();
    let mut sink = |event: Event| {
        events.push(event);
        if events.len() == number {
            stop.request();
        }
    };
    let status = lab.engine().run(&lab.pipeline(), &lab.cache(), &options, &mut sink).unwrap();
    (status, events)
}

#[test]
fn a_stopped_sweep_promotes_nobody_early_and_repeats_no_step() {
    let expected = straight();
    let mut paused = 0;
    for number in (1..).step_by(11) {
        let lab = lab(&manifest(9, RUNGS));
        let (status, mut events) = stopped_at(&lab, number);
        if events.len() < number {
            break;
        }
        paused += usize::from(status == Status::Paused);
        let before = standing(&lab);
        assert!(status == Status::Done || before.winner.is_none(), "event {number}");
        let ran = lab.run();
        assert_eq!(standing(&lab), expected, "event {number}");
        events.extend(ran.events);
        let all = Ran { status, stages: BTreeMap::new(), events };
        assert_eq!(steps(&all).len(), 9 + 3 * 2 + 6, "event {number}");
    }
    assert!(paused > 10, "{paused} pauses");
}

#[test]
fn processes_share_one_sweep_through_one_cache() {
    let expected = straight();
    for processes in [2, 8] {
        let lab = lab(&manifest(9, RUNGS).replace("every = 2", "every = 2\npause = \"0.02s\""));
        let children = (0..processes).map(|_| start(PROGRAM, &lab.base(), &[]));
        let children: Vec<_> = children.collect();
        let mut trainings = 0;
        for child in children {
            let Ended::Itself(Event::Finished { status: Status::Done, stages, .. }) = wait(child)
            else {
                panic!("a process was not done");
            };
            let own = stages.iter().filter(|(name, _)| name.starts_with("model"));
            trainings += own.map(|(_, counts)| counts.executed).sum::<u64>();
        }
        assert_eq!(trainings, 9 + 3 + 1, "{processes} processes");
        let found = standing(&lab);
        assert_eq!((&found.winner, &found.trials), (&expected.winner, &expected.trials));
    }
}

#[test]
fn any_number_of_workers_has_the_same_winner() {
    let expected = straight();
    for threads in 1..=8 {
        let mut lab = lab(&manifest(9, RUNGS));
        lab.threads = threads;
        assert_eq!(lab.run().status, Status::Done);
        assert_eq!(standing(&lab), expected, "{threads} threads");
    }
}

#[test]
fn a_worker_that_dies_is_no_failed_trial() {
    let expected = straight();
    for number in [0, 5, 20, 60, 120] {
        let manifest = manifest(9, RUNGS).replace("test.train", "test.remote-train");
        let mut lab = lab(&manifest.replace("every = 2", "every = 2\nretries = 3"));
        lab.stages.push(Arc::new(Remote));
        lab.worker.program = Some(Utf8PathBuf::from(env!("CARGO_BIN_EXE_fake_worker")));
        if number > 0 {
            let counter = lab.base().join("messages").to_string();
            lab.worker.arguments = vec!["die-at".to_owned(), number.to_string(), counter];
        }
        let ran = lab.run();
        assert_eq!(ran.status, Status::Done, "message {number}: {:?}", ran.events);
        let died = ran.events.iter().any(|event| matches!(event, Event::WorkerDied { .. }));
        assert_eq!(died, number > 0, "message {number}");
        assert_eq!(standing(&lab), expected, "message {number}");
    }
}

/// A training in a worker, with trials over the step at which the worker dies.
fn dying(sweep: &str) -> Lab {
    let manifest = manifest(9, sweep).replace("test.train", "test.remote-train");
    let mut lab =
        lab(&manifest.replace("rate = { from = 0.1, to = 0.9 }", "dies_at = [4, 90, 91]"));
    lab.stages.push(Arc::new(Remote));
    lab.worker.program = Some(Utf8PathBuf::from(env!("CARGO_BIN_EXE_fake_worker")));
    lab
}

fn deaths(ran: &Ran) -> usize {
    ran.events.iter().filter(|event| matches!(event, Event::WorkerDied { .. })).count()
}

#[test]
fn the_first_failure_of_a_trial_counts_whether_it_ends_before_the_others_or_after_them() {
    for dies_at in ["[4, 90, 91]", "[90, 91, 4]"] {
        let mut lab = dying("draw = \"grid\"");
        let manifest = lab.read("pipeline.toml").unwrap().replace("[4, 90, 91]", dies_at);
        lab.write("pipeline.toml", &manifest);
        lab.threads = 1;
        let ended: Vec<Status> = (0..3).map(|_| lab.run().status).collect();
        assert_eq!(ended, [Status::Failed, Status::Failed, Status::Done], "{dies_at}");
    }
}

#[test]
fn a_trial_that_ends_its_own_program_in_every_run_ranks_last_and_stops_no_other() {
    let lab = dying("draw = \"grid\"");
    // The first run: the others go on.
    let mut failed = 0;
    while lab.run().status == Status::Failed {
        failed += 1;
        let standing = standing(&lab);
        // The first run has not blamed the trial yet.
        assert!(failed < 5 && (failed > 1 || standing.winner.is_none()), "{standing:?}");
        assert_eq!(standing.rungs[0].scored, 3, "three of four trials have a score");
    }
    assert_eq!(failed, 2);
    let standing = standing(&lab);
    let dead = standing.trials.iter().find(|row| row.values["dies_at"] == "4").unwrap();
    assert_eq!(dead.state, TrialState::Failed);
    let why = dead.failure.as_deref().unwrap();
    assert!(why.starts_with("failed in 2 runs; last error: "), "{why}");
    assert!(standing.is_decided && standing.winner.is_some());
    let again = lab.run();
    assert_eq!((again.status, deaths(&again)), (Status::Done, 0));
}

#[test]
fn a_program_that_dies_in_every_trial_blames_none_of_them() {
    let lab = dying("draw = \"grid\"");
    let manifest = lab.read("pipeline.toml").unwrap();
    // Trial 0 dies as well.
    let manifest = manifest.replace("[4, 90, 91]", "[1, 2, 3, 4, 5, 6]");
    lab.write("pipeline.toml", &manifest.replace("every = 2", "every = 2\ndies_at = 7"));
    for _ in 0..4 {
        let ran = lab.run();
        assert_eq!(ran.status, Status::Failed);
        let tried: std::collections::BTreeSet<&str> = ran
            .events
            .iter()
            .filter_map(|event| match event {
                Event::StageFailed { stage, .. } => Some(stage.as_str()),
                _ => None,
            })
            .collect();
        // One more may have begun.
        assert!((1..=4).contains(&tried.len()), "the run ends soon: {tried:?}");
        let standing = standing(&lab);
        assert!(standing.trials.iter().all(|row| row.state == TrialState::Open), "{standing:?}");
    }
}

#[test]
fn failures_rank_last_and_are_not_tried_again() {
    let sweep = r#"trials = 9
rungs = [1, 3]
"#;
    // Every third step of a training of nine is the first of a rung.
    let failing = manifest(9, sweep)
        .replace("rate = { from = 0.1, to = 0.9 }", "fails_at = [1, 2, 3, 4, 5, 1000, 1001, 1002]")
        .replace("trials = 9", "draw = \"grid\"");
    let lab = lab(&failing);
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done, "{:?}", ran.events);
    let standing = self::standing(&lab);
    let failed: Vec<&str> = standing
        .trials
        .iter()
        .filter(|row| row.state == TrialState::Failed)
        .map(|row| row.trial.as_str())
        .collect();
    assert!(failed.contains(&"1"), "it fails at its first step: {standing:?}");
    let first = standing.trials.iter().find(|row| row.trial == "1").unwrap();
    assert_eq!(first.failure.as_deref(), Some("the loss is no number"));
    assert!(standing.is_decided && standing.winner.is_some());
    let again = lab.run();
    assert!(again.status == Status::Done && again.nothing_executed() && steps(&again).is_empty());
}

#[test]
fn a_sweep_in_which_all_fail_fails_the_run_each_time() {
    let manifest = manifest(9, "rungs = [1, 3]\ndraw = \"grid\"")
        .replace("rate = { from = 0.1, to = 0.9 }", "rate = [0.1, 0.2]")
        .replace("every = 2", "every = 2\nfails_at = 1");
    let lab = lab(&manifest);
    for _ in 0..2 {
        let ran = lab.run();
        assert_eq!(ran.status, Status::Failed);
        let told = ran.failures().join("; ");
        assert!(
            told.contains(
                "every trial of sweep `rate` has failed, the first in stage `model`: the loss is"
            ),
            "{told}"
        );
    }
}

#[test]
fn an_added_trial_is_trained_alone_and_what_is_above_never_again() {
    let lab = lab(&manifest(9, "trials = 4"));
    assert_eq!(steps(&lab.run()).len(), 4 * 9);
    lab.write("pipeline.toml", &manifest(9, "trials = 5"));
    let ran = lab.run();
    let executed: Vec<&str> = ran
        .all_executed()
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(executed, ["heard[trial=4]", "model[trial=4]"]);
    assert_eq!(steps(&ran), (1..=9).collect::<Vec<u64>>());
    // With rungs, the added trial is trained to its first rung, and the others are what they were.
    lab.write("pipeline.toml", &manifest(9, "trials = 8\nrungs = [1, 3]"));
    lab.run();
    lab.write("pipeline.toml", &manifest(9, "trials = 9\nrungs = [1, 3]"));
    let ran = lab.run();
    let first = |name: &&str| name.contains("rung=1");
    let executed = ran.all_executed().into_iter().filter(|(_, count)| *count > 0);
    let executed: Vec<&str> = executed.map(|(name, _)| name).filter(first).collect();
    assert_eq!(executed, ["heard[trial=8,rung=1]", "model[trial=8,rung=1]"]);
}

/// The trainings that the estimate of a plan has, by their rung.
fn estimated(lab: &Lab) -> Vec<usize> {
    let (pipeline, plan, cache) = (lab.pipeline(), lab.plan(), lab.cache());
    let estimate = estimate(&pipeline, &plan, &cache, Machine::default(), 2).unwrap();
    let of = |rung: usize| {
        let is_own =
            |name: &&String| name.starts_with("model") && name.contains(&format!("rung={rung}"));
        estimate.stages.keys().filter(is_own).count()
    };
    (1..=3).map(of).collect()
}

#[test]
fn the_worst_case_of_a_sweep_is_what_it_then_costs() {
    let fresh = lab(&manifest(9, RUNGS));
    assert_eq!(estimated(&fresh), [9, 3, 1]);
    let mut told = 0;
    for number in (1..).step_by(23) {
        let lab = lab(&manifest(9, RUNGS));
        let (_, events) = stopped_at(&lab, number);
        if events.len() < number {
            break;
        }
        let worst = estimated(&lab);
        let ran = lab.run();
        assert_eq!(estimated(&lab), [0, 0, 0]);
        let executed = |rung: usize| {
            let own = ran.stages.iter().filter(|(name, _)| {
                name.starts_with("model") && name.contains(&format!("rung={rung}"))
            });
            own.map(|(_, counts)| counts.executed as usize).sum::<usize>()
        };
        assert_eq!((1..=3).map(executed).collect::<Vec<_>>(), worst, "event {number}");
        told += 1;
    }
    assert!(told > 5, "{told} stops");
    // Failures leave places empty: the sweep then costs less.
    let failing = RUNGS.replace("trials = 9", "draw = \"grid\"");
    let failing = manifest(9, &failing)
        .replace("rate = { from = 0.1, to = 0.9 }", "fails_at = [1, 2, 3, 1000, 1001, 1002]");
    let lab = lab(&failing);
    let worst = estimated(&lab);
    assert_eq!(worst, [7, 2, 1]);
    let executed = lab.run().stages.into_iter().filter(|(name, _)| name.starts_with("model"));
    let executed: u64 = executed.map(|(_, counts)| counts.executed).sum();
    assert!(executed < worst.iter().sum::<usize>() as u64, "{executed}");
}

#[test]
fn finalists_are_repeated_with_other_seeds() {
    let lab = lab(&manifest(9, "trials = 9\nrungs = [3]\nrepeat = 3"));
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done);
    let standing = standing(&lab);
    let finalists: Vec<_> = standing.trials.iter().filter(|row| row.mean.is_some()).collect();
    assert_eq!(finalists.len(), 3);
    for row in &finalists {
        let all: Vec<f64> =
            row.repeats.iter().flatten().copied().chain([row.scores[1].unwrap()]).collect();
        assert!(all.len() == 3 && all[0] != all[1] && all[1] != all[2], "{row:?}");
        let mean = all.iter().sum::<f64>() / 3.0;
        assert!((row.mean.unwrap() - mean).abs() < 1e-12 && row.spread.unwrap() > 0.0);
    }
    let best = finalists.iter().min_by(|a, b| a.mean.unwrap().total_cmp(&b.mean.unwrap())).unwrap();
    assert_eq!(standing.winner.as_ref(), Some(&best.trial));
    assert_eq!(steps(&ran).len(), 9 * 3 + 3 * 6 + 3 * 2 * 9);
    assert!(lab.run().nothing_executed());
}

#[test]
fn a_higher_score_may_be_better() {
    let lower = straight();
    let lab = lab(&manifest(9, "trials = 9\nbetter = \"higher\""));
    lab.run();
    let higher = standing(&lab);
    let last = |standing: &SweepState, row: usize| standing.trials[row].best().unwrap();
    let best = (0..9).max_by(|a, b| last(&higher, *a).total_cmp(&last(&higher, *b))).unwrap();
    assert_eq!(higher.winner, Some(higher.trials[best].trial.clone()));
    assert_ne!(lower.winner, higher.winner);
}

#[test]
fn a_decided_sweep_goes_on_after_a_garbage_collection() {
    let lab = lab(&manifest(9, RUNGS));
    lab.run();
    let limits = GcLimits { keep_runs: 1, kept_since: None, most_bytes: None };
    let cache = lab.cache();
    let plan = gc::plan(&cache, &limits).unwrap();
    cache.sweep(plan.sweep).unwrap();
    drop(cache);
    // A smaller eta lets more trials go on: each from where its rung ended.
    lab.write("pipeline.toml", &manifest(9, "trials = 9\nrungs = [1, 3]\neta = 2"));
    let ran = lab.run();
    assert_eq!(ran.status, Status::Done);
    let begun = ran.events.iter().filter_map(|event| match event {
        Event::Metrics { step: 1, stage, .. } => Some(stage.clone()),
        _ => None,
    });
    assert_eq!(begun.collect::<Vec<_>>(), Vec::<String>::new(), "a training began anew");
    assert_eq!(steps(&ran).len(), 2 + 6);
}
