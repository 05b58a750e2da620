//! Sweeps of the demo's small model with the real programs: the steps of halving, the exact state from
//! rung to rung, one winner after kills and in another order, and no work that is not of a trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::sys::signal::Signal;
use serde_json::Value;
use throstle_tests::{Project, RanProgram, Running, copy_folder};

use crate::vits;

const MANIFEST: &str = "pipeline.toml";
/// A few clips of one speaker, so that a step is short.
const CLIPS: usize = 10;
const OVER: &str =
    "{ learning_rate = { from = 1e-4, to = 1e-2, scale = \"log\" }, clip = [0.5, 1.0] }";

/// A sweep of the training. Rungs end between its validations, and at them.
struct Shape {
    trials: usize,
    steps: u64,
    rungs: usize,
    eta: usize,
}

/// The figures of the sheet: 11.1 % and 15.6 % of all whole trainings.
const TWENTY_SEVEN: Shape = Shape { trials: 27, steps: 27, rungs: 4, eta: 3 };
const SIXTEEN: Shape = Shape { trials: 16, steps: 16, rungs: 3, eta: 4 };

impl Shape {
    /// The last steps of the rungs, and the trials that they have room for.
    fn rungs(&self) -> Vec<(u64, usize)> {
        let below = |rung: usize| self.eta.pow((self.rungs - 1 - rung) as u32);
        let rung =
            |rung| (self.steps / below(rung) as u64, self.trials / self.eta.pow(rung as u32));
        (0..self.rungs).map(rung).collect()
    }

    fn sweep(&self) -> String {
        let Shape { trials, rungs, eta, .. } = self;
        format!(
            "[sweep.rate]\nstage = \"trained\"\nover = {OVER}\ntrials = {trials}\nrungs = {rungs}\n\
             eta = {eta}\nscore = \"mean(held_out)\"\n"
        )
    }

    /// With everything done that the trials share.
    fn project(&self) -> Project {
        let project = Project::copy_of(prepared(), &[]);
        project.edit(MANIFEST, |text| {
            let steps = format!("steps = {}\n", self.steps);
            format!("{}\n{}", text.replace("steps = 2\n", &steps), self.sweep())
        });
        project
    }
}

/// The demo up to the inputs of its training, without what follows.
fn prepared() -> &'static Path {
    static DONE: OnceLock<PathBuf> = OnceLock::new();
    DONE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("swept");
        // Remains of an earlier test program.
        let _ = std::fs::remove_dir_all(&folder);
        let demo = vits::variant();
        demo.edit("data/metadata.csv", |text| {
            text.lines().take(CLIPS).map(|line| format!("{line}\n")).collect()
        });
        demo.edit(MANIFEST, |text| {
            let text = text.split("[stage.sentences]").next().unwrap();
            let text = text.replace("keep = 1\nsave_every = \"50%\"\n", "");
            text.replace("validate_every = \"50%\"", "validate_every = 9")
                .replace("validation_fraction = 0.1", "validation_fraction = 0.2")
        });
        demo.printed(&[
            "run",
            ".",
            "spectrograms",
            "untrained",
            "--set",
            "stage.trained.validate_every=1",
        ]);
        copy_folder(demo.path(), &folder, &[]);
        folder
    })
}

/// The steps of each stage with their losses, in the order of runs.
fn steps(runs: &[RanProgram]) -> Vec<(String, u64, String)> {
    let told = runs.iter().flat_map(|ran| ran.all("metrics"));
    let step = |event: &Value| {
        let loss = event["values"]["loss"].as_f64()?;
        let stage = event["stage"].as_str()?.to_owned();
        // The same bits have the same digits.
        Some((stage, event["step"].as_u64()?, format!("{loss:?}")))
    };
    told.filter_map(step).collect()
}

/// The rows of `compare`: trials with their values and scores, the best one first.
fn compared(project: &Project) -> Vec<Value> {
    let text = project.printed(&["compare", "rate", "--format", "json"]);
    let sheet: Value = serde_json::from_str(&text).unwrap();
    sheet["rows"].as_array().unwrap().clone()
}

fn score(row: &Value, rung: usize) -> Option<f64> {
    row[format!("rung {}", rung + 1)].as_f64()
}

/// The best of each rung are those of the next one, and the first row is the winner.
fn assert_halved(rows: &[Value], shape: &Shape) {
    let mut members: Vec<&Value> = rows.iter().collect();
    for (rung, (_, places)) in shape.rungs().into_iter().enumerate() {
        members.truncate(places);
        let scored = rows.iter().filter(|row| score(row, rung).is_some());
        let names = |rows: &[&Value]| -> BTreeSet<String> {
            rows.iter().map(|row| row["trial"].to_string()).collect()
        };
        assert_eq!(names(&scored.collect::<Vec<_>>()), names(&members), "rung {}", rung + 1);
        members.sort_by(|one, other| {
            score(one, rung).unwrap().total_cmp(&score(other, rung).unwrap())
        });
    }
    assert_eq!((&rows[0]["trial"], &rows[0]["state"]), (&members[0]["trial"], &"winner".into()));
}

/// A run that was not disturbed.
fn straight(shape: &Shape) -> (Project, RanProgram) {
    let project = shape.project();
    let ran = project.run();
    assert_eq!(ran.code, Some(0), "{} {:?}", ran.errors, ran.all("stage-failed"));
    (project, ran)
}

/// Halving does no step twice, and as many as the rungs have places.
fn assert_steps(ran: &RanProgram, shape: &Shape, percent: f64) {
    let steps = steps(std::slice::from_ref(ran));
    let distinct: BTreeSet<(&str, u64)> =
        steps.iter().map(|(stage, step, _)| (stage.split(',').next().unwrap(), *step)).collect();
    assert_eq!(distinct.len(), steps.len(), "a step was done twice");
    let mut expected = 0;
    let mut before = 0;
    for (end, places) in shape.rungs() {
        expected += places as u64 * (end - before);
        before = end;
    }
    assert_eq!(steps.len() as u64, expected);
    let share = 100.0 * steps.len() as f64 / (shape.trials as u64 * shape.steps) as f64;
    assert!((share - percent).abs() < 0.1, "{share} %");
}

#[test]
fn of_27_trials_the_winner_is_the_training_that_was_never_interrupted() {
    let (project, ran) = straight(&TWENTY_SEVEN);
    assert_steps(&ran, &TWENTY_SEVEN, 11.1);
    let rows = compared(&project);
    assert_halved(&rows, &TWENTY_SEVEN);
    project.run().assert_nothing_done();
    // The winner without a sweep: here it is known, and elsewhere it is trained in one go.
    project.printed(&["promote", "best"]);
    let export = "use = \"vits.finetune\"\nexport = { model = \"out/model\" }\n";
    let plain = |project: &Project| {
        project.edit(MANIFEST, |text| {
            let text = text.split("[sweep.rate]").next().unwrap();
            text.replace("use = \"vits.finetune\"\n", export)
        });
    };
    plain(&project);
    assert_eq!(project.run().executed(), BTreeMap::new());
    let fresh = Project::copy_of(prepared(), &[]);
    fresh.write(MANIFEST, project.text(MANIFEST));
    assert_eq!(steps(&[fresh.run()]).len() as u64, TWENTY_SEVEN.steps);
    assert!(!fresh.files("out/model").is_empty());
    assert!(fresh.files("out/model") == project.files("out/model"), "the bits differ");
}

#[test]
fn of_16_trials_one_wins_after_kills_and_in_another_order_and_an_added_one_is_trained_alone() {
    let (project, ran) = straight(&SIXTEEN);
    assert_steps(&ran, &SIXTEEN, 15.6);
    let rows = compared(&project);
    assert_halved(&rows, &SIXTEEN);
    let losses: BTreeSet<_> = steps(&[ran]).into_iter().collect();

    // Killed after some steps of each run.
    let killed = SIXTEEN.project();
    let mut runs = Vec::new();
    for steps in [2, 9, 6] {
        let mut running = Running::start(killed.throstle(&["run", ".", "--json"]));
        (0..steps)
            .for_each(|_| drop(running.read_until(|event| event["values"]["loss"].is_number())));
        running.send(Signal::SIGKILL);
        runs.push(running.ended());
    }
    runs.push(killed.run());
    assert_eq!(runs.last().unwrap().code, Some(0));
    // A step that was not saved is done again, with the same result.
    assert_eq!(steps(&runs).into_iter().collect::<BTreeSet<_>>(), losses);
    assert_eq!(compared(&killed), rows);

    // The last trials first.
    let reversed = SIXTEEN.project();
    for part in (0..4).rev() {
        let names: Vec<String> = (4 * part..4 * part + 4)
            .map(|trial| format!("trained[trial={trial},rung=1]"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        reversed.printed(&[&["run", "."], &names[..]].concat());
    }
    assert_eq!(reversed.run().code, Some(0));
    assert_eq!(compared(&reversed), rows);

    // One more trial: the others keep their results.
    project.replace(MANIFEST, "trials = 16", "trials = 17");
    let ran = project.run();
    let executed: Vec<&str> = ran.executed().into_keys().collect();
    assert!(executed.contains(&"trained[trial=16,rung=1]"), "{executed:?}");
    assert!(executed.iter().all(|stage| stage.starts_with("trained[trial=16,")), "{executed:?}");
}

#[test]
fn trials_of_the_synthesis_leave_the_training_alone() {
    let demo = vits::variant();
    let measured = "[stage.measured]\nuse = \"quality.measure\"\ninput = \"spoken_sentences\"\n";
    demo.edit(MANIFEST, |text| {
        let text = text.replace("export = \"out/vits/spoken/{id}.wav\"\n", "");
        format!("{text}\n{measured}")
    });
    let ran = demo.run();
    assert_eq!(ran.executed()["trained"], 1);
    let sweep = "[sweep.noise]\nstage = \"spoken_sentences\"\nover = { noise_scale = [0.1, 0.3] }\n\
                 draw = \"grid\"\nof = \"measured\"\nscore = \"mean(longest_silence)\"\n";
    demo.edit(MANIFEST, |text| format!("{text}\n{sweep}"));
    let ran = demo.run();
    let of = |stage: &str, trial: u32| format!("{stage}[trial={trial}]");
    // Trial 0 is as written, which is done.
    let expected: BTreeSet<String> = [1, 2]
        .into_iter()
        .flat_map(|trial| [of("spoken_sentences", trial), of("measured", trial)])
        .collect();
    let executed: BTreeSet<String> = ran.executed().into_keys().map(str::to_owned).collect();
    assert_eq!(executed, expected);
    demo.run().assert_nothing_done();
}
