//! Jobs in `plan`, `status` and `log`.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use throstle_tests::Running;

use super::fake::FakeSlurm;
use super::places::{Place, WORDS};

const EXECUTOR: &str = "use = \"slurm\"\npartition = \"gpu\"\ntime = \"1h\"\n\
                        cache = \"FOLDER/node\"\n";

fn slow() -> String {
    format!("sleep 0.5; echo {{text}} >> FOLDER/done; {WORDS}")
}

fn printed(place: &Place, slurm: &FakeSlurm, arguments: &[&str]) -> String {
    let output = place.with_slurm(slurm, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(place: &Place, slurm: &FakeSlurm, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(place, slurm, arguments)).unwrap()
}

/// The states of the parts of the only open batch of `words`.
fn states(place: &Place, slurm: &FakeSlurm) -> Vec<String> {
    let status = json(place, slurm, &["status", "--json"]);
    let batches = status["batches"].as_array().unwrap();
    let words = batches.iter().find(|batch| batch["stage"] == "words").unwrap();
    let shards = words["shards"].as_array().unwrap().iter();
    shards.map(|shard| shard["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_plan_shows_the_jobs_that_a_run_starts_and_the_limits_of_their_queue() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, WORDS));
    place.project.edit("pipeline.toml", |text| format!("{text}\n[session]\nprice_per_hour = 36\n"));
    let plan = json(&place, &slurm, &["plan", "--json"]);
    let jobs = plan["jobs"].as_array().unwrap();
    let words = jobs.iter().find(|jobs| jobs["stage"] == "words").unwrap();
    assert_eq!((&words["executor"], &words["use"]), (&"boxes".into(), &"slurm".into()));
    assert_eq!((&words["max_jobs"], &words["partition"]), (&3.into(), &"gpu".into()));
    assert_eq!(words["time_limit_seconds"], 3_600.0);
    let text = printed(&place, &slurm, &["plan"]);
    assert!(text.contains("boxes (slurm)") && text.contains("1h00m"), "{text}");
    assert_eq!((slurm.submitted().len(), slurm.asked().len()), (0, 0), "a plan asks nobody");
    let ran = Running::start(place.with_slurm(&slurm, &["run", ".", "--json"])).ended();
    assert_eq!(ran.last()["status"], "done", "{}", ran.errors);
    for jobs in jobs {
        let told = format!("started {} job", jobs["jobs"]);
        let stage = &jobs["stage"];
        let notes = ran.all("note");
        let submitted = notes.iter().find(|note| {
            note["stage"] == *stage && note["message"].as_str().unwrap().contains("on `boxes`: job")
        });
        let message = submitted.unwrap()["message"].as_str().unwrap();
        assert!(message.starts_with(&told), "{stage}: {message}, planned {jobs}");
    }
    assert_eq!(json(&place, &slurm, &["plan", "--json"])["jobs"], Value::Null);
}

#[test]
fn a_plan_shows_the_time_and_the_money_of_the_jobs_by_the_measures_of_earlier_runs() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, WORDS));
    place.project.edit("pipeline.toml", |text| format!("{text}\n[session]\nprice_per_hour = 36\n"));
    let ran = Running::start(place.with_slurm(&slurm, &["run", ".", "--json"])).ended();
    assert_eq!(ran.last()["status"], "done", "{}", ran.errors);
    for clip in ["a", "c", "e"] {
        place.project.write(&format!("data/wavs/{clip}.wav"), throstle_tests::wav(9_000));
    }
    let plan = json(&place, &slurm, &["plan", "--json"]);
    let jobs = plan["jobs"].as_array().unwrap();
    let stages: Vec<&str> = jobs.iter().map(|jobs| jobs["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["words", "voice"]);
    for jobs in jobs {
        let stage = &plan["estimate"]["stages"][jobs["stage"].as_str().unwrap()];
        assert_eq!(stage["items"], 3, "{stage}");
        assert_eq!((&jobs["seconds"], &jobs["money"]), (&stage["seconds"], &stage["money"]));
        for bound in ["low", "likely", "high"] {
            let (seconds, money) = (&jobs["seconds"][bound], &jobs["money"][bound]);
            let (seconds, money) = (seconds.as_f64().unwrap(), money.as_f64().unwrap());
            assert!((money - seconds / 100.0).abs() < 1e-9, "{jobs}");
        }
        assert!(jobs["money"]["likely"].as_f64() > Some(0.0), "{jobs}");
        // The items take less than the 20 s of one job.
        assert_eq!((&jobs["jobs"], &jobs["max_jobs"]), (&1.into(), &3.into()), "{jobs}");
    }
}

#[test]
fn status_takes_results_from_the_remote_and_jobs_from_slurm() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, &slow()));
    let mut running = Running::start(place.with_slurm(&slurm, &["run", ".", "--json"]));
    running.read_until(|event| {
        event["stage"] == "words"
            && event["message"].as_str().is_some_and(|m| m.contains("runs on"))
    });
    running.send(Signal::SIGKILL);
    drop(running);
    let text = printed(&place, &slurm, &["status"]);
    assert!(text.contains("of 3 shards done"), "{text}");
    // Some may have ended by now; those at work have a machine and a time.
    let status = json(&place, &slurm, &["status", "--json"]);
    for batch in status["batches"].as_array().unwrap() {
        for shard in batch["shards"].as_array().unwrap() {
            if shard["state"] == "running" && shard["attempts"] != Value::Array(Vec::new()) {
                assert!(shard["attempts"][0]["machine"].as_str().unwrap().starts_with('n'));
                assert!(shard["attempts"][0]["begun"].as_i64().unwrap() > 1_600_000_000);
            }
        }
    }
    for job in slurm.processes() {
        // It may have ended meanwhile.
        let _ = kill(Pid::from_raw(i32::try_from(job).unwrap()), Signal::SIGKILL);
    }
    super::places::wait_until(|| slurm.processes().is_empty());
    // Without results and without jobs: the next run starts them.
    assert!(states(&place, &slurm).iter().all(|state| state == "pending" || state == "done"));
    let ran = Running::start(place.with_slurm(&slurm, &["run", ".", "--json"])).ended();
    assert_eq!(ran.last()["status"], "done", "{}", ran.errors);
    let status = json(&place, &slurm, &["status", "--json"]);
    assert_eq!(status["batches"], Value::Array(Vec::new()));
}

#[test]
fn logs_of_jobs_come_from_the_remote_with_their_part_attempt_and_node() {
    let (slurm, place) = (FakeSlurm::new(), Place::with(EXECUTOR, WORDS));
    let ran = Running::start(place.with_slurm(&slurm, &["run", ".", "--json"])).ended();
    assert_eq!(ran.last()["status"], "done", "{}", ran.errors);
    // The output of the jobs was on another machine.
    std::fs::remove_dir_all(place.project.file(".throstle/jobs")).unwrap();
    let list = printed(&place, &slurm, &["log", "--jobs"]);
    assert!(list.contains("1 of 3") && list.contains("n0") && list.contains("done"), "{list}");
    let text = printed(&place, &slurm, &["log", "--stage", "words"]);
    for part in 1..=3 {
        let head = format!("words, shard {part} of 3, attempt 1 on `n{}`", part - 1);
        assert!(text.contains(&head), "{text}");
    }
    assert!(!text.contains("no log yet") && !text.contains("voice, part"), "{text}");
    let lines = printed(&place, &slurm, &["log", "--stage", "words", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended = lines.iter().filter(|line| line["event"]["event"] == "finished");
    let mut parts: Vec<u64> = ended.map(|line| line["job"]["part"].as_u64().unwrap()).collect();
    parts.sort_unstable();
    assert_eq!(parts, [1, 2, 3]);
    assert_eq!(printed(&place, &slurm, &["log", "99", "--jobs"]), "no jobs yet\n");
}

#[test]
fn jobs_that_end_before_they_begin_to_work_are_shown_with_their_output() {
    let place = Place::new("echo bad luck; exit 3");
    assert_eq!(place.run().code, Some(1));
    let list = place.project.printed(&["log", "--jobs"]);
    let words = list.lines().find(|line| line.contains("words")).unwrap();
    // The run may have ended for the other stage while this one was still waited for.
    let state = ["failed", "unknown"].into_iter().find(|state| words.contains(state));
    let state = state.unwrap_or_else(|| panic!("{list}"));
    assert!(words.contains("1 of 3"), "{list}");
    let text = place.project.printed(&["log", "--stage", "words"]);
    let head = format!("words, shard 1 of 3, no job started work ({state})");
    assert!(text.contains(&head), "{text}");
    assert!(text.contains("\nbad luck"), "{text}");
    let lines = place.project.printed(&["log", "--stage", "words", "--json"]);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(first["output"].as_str().unwrap().contains("bad luck"), "{first}");
    assert_eq!((&first["job"]["part"], &first["job"]["state"]), (&1.into(), &state.into()));
}
