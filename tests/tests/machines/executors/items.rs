//! Item stages on several machines: the results of one, whatever happens to the jobs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::places::{CLIPS, OTHER_MACHINE, Place, WORDS, is_reproducible, notes};

/// Items that come later than those of the first stages.
const OTHERS: &str = r#"
[stage.others]
use = "corpus.table"
table = "data/others.csv"
audio = "data/wavs"

[stage.late]
use = "command"
input = "others"
command = "sleep 0.3; echo late > {out.late}"
outputs = { late = "late.txt" }

[stage.again]"#;

#[test]
fn three_machines_give_the_results_of_one_and_each_item_is_done_once() {
    let place = Place::with(
        &format!("use = \"command\"\ncommand = '''{OTHER_MACHINE}'''"),
        &format!("echo {{text}} >> FOLDER/done; {WORDS}"),
    );
    let ran = place.run();
    assert_eq!(
        ran.executed(),
        [("clips", 1), ("words", 6), ("voice", 6), ("summary", 1)].into(),
        "{:?}",
        notes(&ran)
    );
    assert_eq!(place.lines("done").len(), 6, "{:?}", notes(&ran));
    assert_eq!(place.caches().len(), 3);
    assert!(is_reproducible(&ran));
    place.assert_as_alone();
    let again = place.run();
    again.assert_nothing_done();
}

#[test]
fn what_a_machine_has_from_before_reaches_a_remote_that_has_nothing() {
    let place = Place::with(
        &format!("use = \"command\"\ncommand = '''{OTHER_MACHINE}'''"),
        &format!("echo {{text}} >> FOLDER/done; {WORDS}"),
    );
    place.run().executed();
    // The machines keep their caches.
    for lost in [place.folder().join("remote"), place.project.path().join(".throstle")] {
        std::fs::remove_dir_all(lost).unwrap();
    }
    std::fs::create_dir(place.folder().join("remote")).unwrap();
    let ran = place.run();
    assert_eq!(ran.last()["status"], "done", "{:?} {}", notes(&ran), ran.errors);
    assert_eq!(place.lines("done").len(), 6, "{:?}", notes(&ran));
    place.assert_as_alone();
}

#[test]
fn a_changed_clip_is_one_job_with_one_item() {
    let place = Place::with(
        &format!("use = \"command\"\ncommand = '''{OTHER_MACHINE}'''"),
        &format!("echo {{text}} >> FOLDER/done; {WORDS}"),
    );
    place.run().executed();
    place.project.write("data/wavs/c.wav", throstle_tests::wav(9_000));
    let ran = place.run();
    assert_eq!((ran.executed()["words"], ran.executed()["voice"]), (1, 1));
    assert_eq!(place.lines("done").len(), 7);
    assert!(
        notes(&ran).iter().any(|note| note.starts_with("started 1 job on `boxes`")),
        "{:?}",
        notes(&ran)
    );
    place.assert_as_alone();
}

#[test]
fn a_job_that_is_killed_is_started_again() {
    // The first attempt at each part dies in the middle.
    let killed = "if mkdir FOLDER/first-$THROSTLE_SHARD 2>/dev/null; \
                  then $THROSTLE_WORK --cache FOLDER/lost-$THROSTLE_SHARD & sleep 0.3; kill -9 $!; \
                  else $THROSTLE_WORK --cache FOLDER/machine-$THROSTLE_SHARD; fi";
    let place = Place::new(killed);
    let ran = place.run();
    assert_eq!((ran.executed()["words"], ran.executed()["voice"]), (6, 6));
    assert!(is_reproducible(&ran));
    place.repair();
    place.assert_as_alone();
}

#[test]
fn a_job_that_is_started_twice_gives_one_result() {
    let twice = "$THROSTLE_WORK --cache FOLDER/one-$THROSTLE_SHARD & \
                 $THROSTLE_WORK --cache FOLDER/other-$THROSTLE_SHARD; wait";
    let place = Place::new(twice);
    let ran = place.run();
    assert_eq!((ran.executed()["words"], ran.executed()["voice"]), (6, 6));
    assert!(is_reproducible(&ran));
    place.assert_as_alone();
}

#[test]
fn jobs_that_come_to_nothing_are_not_started_for_ever() {
    let place = Place::new("echo this machine has no disk; echo x >> FOLDER/jobs; exit 1");
    let ran = place.run();
    assert_eq!(ran.code, Some(1));
    let failed = ran.all("stage-failed");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("3 jobs on `boxes` ended without a result"), "{message}");
    assert!(message.contains("this machine has no disk"), "{message}");
    let stages = failed.len();
    assert!(place.lines("jobs").len() <= 2 * 3 * 3, "{stages}");
}

#[test]
fn an_item_that_fails_on_a_machine_is_quarantined_here() {
    let fails = "case {text} in *c.) exit 3;; esac; ".to_owned() + WORDS;
    let place = Place::with(&format!("use = \"command\"\ncommand = '''{OTHER_MACHINE}'''"), &fails);
    place.project.replace("pipeline.toml", "outputs = {", "quarantine = \"50%\"\noutputs = {");
    let ran = place.run();
    assert_eq!((ran.executed()["words"], ran.quarantined("words")), (6, 1), "{:?}", notes(&ran));
    assert!(!place.project.names("out").contains(&"c.txt".to_owned()));
    place.assert_as_alone();
}

#[test]
fn a_stopped_run_leaves_its_parts_to_the_next_run() {
    let slow = format!("sleep 0.5; echo {{text}} >> FOLDER/done; {WORDS}");
    let place = Place::with(&format!("use = \"command\"\ncommand = '''{OTHER_MACHINE}'''"), &slow);
    let mut running = place.start(&[]);
    running.read_until(|event| {
        event["message"].as_str().is_some_and(|message| message.contains("runs on"))
    });
    running.send(Signal::SIGTERM);
    let ran = running.ended();
    assert_eq!(ran.code, Some(75));
    assert!(notes(&ran).iter().any(|note| note.starts_with("left ")), "{:?}", notes(&ran));
    let again = place.run();
    assert_eq!(again.last()["status"], "done", "{}", again.errors);
    place.assert_as_alone();
}

#[test]
fn a_killed_run_is_continued_by_the_next_one_and_no_job_is_started_twice() {
    let started = "echo $THROSTLE_BATCH/$THROSTLE_SHARD >> FOLDER/jobs; ";
    let slow = format!("sleep 0.5; echo {{text}} >> FOLDER/done; {WORDS}");
    let executor = format!("use = \"command\"\ncommand = '''{started}{OTHER_MACHINE}'''");
    let place = Place::with(&executor, &slow);
    let mut running = place.start(&[]);
    running.read_until(|event| {
        event["stage"] == "words"
            && event["message"].as_str().is_some_and(|message| message.contains("runs on"))
    });
    running.send(Signal::SIGKILL);
    drop(running);
    let ran = place.run();
    assert_eq!(ran.last()["status"], "done", "{}", ran.errors);
    assert!(is_reproducible(&ran));
    let (mut jobs, all) = (place.lines("jobs"), place.lines("jobs").len());
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), all, "{:?}", place.lines("jobs"));
    assert_eq!(place.lines("done").len(), 6);
    place.assert_as_alone();
}

/// Two stages with the same content share the key of their jobs. The second one begins while the jobs of
/// the first one run.
#[test]
fn a_stage_does_not_end_the_jobs_of_another_one_with_the_same_content() {
    let started = "echo $THROSTLE_BATCH/$THROSTLE_SHARD >> FOLDER/jobs; ";
    let slow = format!("sleep 3; echo {{text}} >> FOLDER/done; {WORDS}");
    let executor = format!("use = \"command\"\ncommand = '''{started}{OTHER_MACHINE}'''");
    let place = Place::with(&executor, &slow);
    let rows = CLIPS.map(|clip| format!("{clip}.wav|Eri {clip}.|aino\n"));
    place.project.write("data/others.csv", rows.concat());
    place.project.edit("pipeline.toml", |text| {
        let words = text.split("[stage.").find_map(|stage| stage.strip_prefix("words]"));
        let again = words.unwrap().replace("\"clips\"", "\"late\"");
        let again = again.replace("export = \"out/{id}.txt\"", "");
        text.to_owned() + OTHERS + &again
    });
    let mut running = place.start(&[]);
    running.read_until(|event| {
        event["stage"] == "again"
            && event["message"].as_str().is_some_and(|message| message.contains("runs on"))
    });
    running.send(Signal::SIGKILL);
    drop(running);
    let ran = place.run();
    assert_eq!(ran.last()["status"], "done", "{}", ran.errors);
    assert_eq!(place.lines("done").len(), 2 * CLIPS.len());
    let jobs = place.lines("jobs");
    let parts: BTreeSet<&String> = jobs.iter().collect();
    assert_eq!(parts.len(), jobs.len(), "{jobs:?}");
    let batches: BTreeSet<&str> = jobs.iter().filter_map(|job| job.split('/').next()).collect();
    assert_eq!(batches.len(), 3, "one for each stage: {jobs:?}");
    place.assert_as_alone();
}

#[test]
fn without_a_remote_the_stage_fails_and_says_why() {
    let place = Place::new(OTHER_MACHINE);
    let ran = place.start(&["--remote", "none"]).ended();
    assert_eq!(ran.code, Some(1));
    let failed = ran.all("stage-failed")[0]["message"].as_str().unwrap().to_owned();
    assert!(failed.contains("needs a remote"), "{failed}");
}

#[test]
fn a_remote_that_goes_away_pauses_the_run() {
    let place = Place::new("sleep 2");
    let mut running = place.start(&[]);
    running.read_until(|event| {
        event["message"].as_str().is_some_and(|message| message.contains("jobs on `boxes`"))
    });
    let remote = place.folder().join("remote");
    std::fs::rename(&remote, place.folder().join("gone")).unwrap();
    // A file in its place: every request fails.
    std::fs::write(&remote, "").unwrap();
    let begun = Instant::now();
    let ran = running.ended();
    assert!(ran.code == Some(75) || ran.code == Some(1), "{:?} {:?}", ran.code, ran.errors);
    assert!(begun.elapsed() < Duration::from_secs(120));
}
