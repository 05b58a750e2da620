//! A remote on a full disk: everybody pauses, and goes on when there is room.

use throstle_tests::{command, small_disk};

use super::places::{Place, notes};

/// Outputs of 300 kB, which a disk of 400 kB has no room for.
const LARGE: &str = "yes {text} | head -c 300000 > {out.words}";

fn place() -> Place {
    let place = Place::with("use = \"command\"\ncommand = '''exec $THROSTLE_WORK'''", LARGE);
    // All of them in one job.
    place.project.replace("pipeline.toml", "max_jobs = 3", "max_jobs = 1");
    let remote = format!("file://{}", place.folder().join("remote").to_str().unwrap());
    let disk = format!("file://{}", place.project.file("disk/remote").to_str().unwrap());
    place.project.replace("pipeline.toml", &remote, &disk);
    place
}

fn program(place: &Place) -> String {
    let command = command("throstle", place.project.path(), &[]);
    command.get_program().to_str().unwrap().to_owned()
}

#[test]
fn a_remote_that_is_full_at_the_workers_pauses_the_run_and_blames_no_stage() {
    if !small_disk::is_available() {
        return;
    }
    let (place, lines) = (place(), "mkdir $DISK/remote\n".to_owned());
    let throstle = program(&place);
    let lines = lines
        + &format!(
            "{throstle} run . --json > first; echo $? >> codes; grow 50m\n\
             {throstle} run . --json > second; echo $? >> codes"
        );
    small_disk::script(place.project.path(), "400k", &lines);
    let first = place.project.text("first");
    assert_eq!(place.project.text("codes"), "75\n0\n", "{first}");
    assert!(!first.contains("stage-failed") && first.contains("o space left"), "{first}");
    assert_eq!(place.project.files("out"), place.alone().files("out"));
}

#[test]
fn push_to_a_full_remote_pauses_and_the_next_one_writes_the_rest() {
    if !small_disk::is_available() {
        return;
    }
    let place = place();
    place.project.edit("pipeline.toml", |text| text.replace("executor = \"boxes\"\n", ""));
    let throstle = program(&place);
    let lines = format!(
        "mkdir $DISK/remote\n\
         {throstle} run . --remote none > ran 2>&1; echo $? >> codes\n\
         {throstle} push > first 2>&1; echo $? >> codes; grow 50m\n\
         {throstle} push > second 2>&1; echo $? >> codes\n\
         {throstle} remote verify > verified 2>&1; echo $? >> codes"
    );
    small_disk::script(place.project.path(), "400k", &lines);
    let told = ["ran", "first", "second", "verified"].map(|name| place.project.text(name));
    assert_eq!(place.project.text("codes"), "0\n75\n0\n0\n", "{told:?}");
    assert!(told[1].contains("o space left") && told[1].contains("`throstle push` to continue"));
}

#[test]
fn a_pull_to_a_full_disk_and_a_repair_of_a_full_remote_pause() {
    if !small_disk::is_available() {
        return;
    }
    let place = place();
    place.project.edit("pipeline.toml", |text| text.replace("executor = \"boxes\"\n", ""));
    let throstle = program(&place);
    // The repair needs more room than the removed files had.
    let lines = format!(
        "mkdir $DISK/remote; grow 50m\n\
         {throstle} run . > ran 2>&1; echo $? >> codes\n\
         dd if=/dev/zero of=$DISK/fill bs=1k 2> /dev/null\n\
         {throstle} pull --cache $DISK/cache > pulled 2>&1; echo $? >> codes\n\
         rm $DISK/remote/packs/*/volume-*; dd if=/dev/zero of=$DISK/more bs=1k 2> /dev/null\n\
         {throstle} remote verify --repair > repaired 2>&1; echo $? >> codes\n\
         rm $DISK/fill $DISK/more\n\
         {throstle} remote verify --repair > whole 2>&1; echo $? >> codes\n\
         {throstle} push > pushed 2>&1; echo $? >> codes\n\
         {throstle} pull --cache $DISK/cache > again 2>&1; echo $? >> codes"
    );
    small_disk::script(place.project.path(), "400k", &lines);
    let files = ["ran", "pulled", "repaired", "whole", "pushed", "again"];
    let told = files.map(|name| place.project.text(name));
    assert_eq!(place.project.text("codes"), "0\n75\n75\n0\n0\n0\n", "{told:?}");
    assert!(told[1].contains("`throstle pull` to continue"), "{told:?}");
    assert!(told[2].contains("`throstle remote verify --repair` to continue"), "{told:?}");
}

#[test]
fn a_remote_without_its_folder_is_refused_before_anything_runs() {
    let place = Place::new("exit 1");
    std::fs::remove_dir(place.folder().join("remote")).unwrap();
    let ran = place.start(&[]).ended();
    assert_eq!(ran.code, Some(2), "{}", ran.errors);
    assert!(ran.errors.contains("does not exist"), "{}", ran.errors);
    assert!(!notes(&ran).iter().any(|note| note.contains("left")), "{:?}", notes(&ran));
    assert!(!place.folder().join("remote").exists(), "a share may not be mounted");
    // Without an executor a remote that is away costs a warning.
    let local = place.start(&["--set", "stage.words.executor=local", "clips"]).ended();
    assert_eq!(local.code, Some(0), "{}", local.errors);
}

#[test]
fn a_worker_refuses_a_cache_that_a_run_refuses() {
    let place = Place::new("exit 1");
    let remote = place.folder().join("remote");
    let url = format!("file://{}", remote.to_str().unwrap());
    let inside = remote.join("cache");
    let batch = "0".repeat(64);
    let arguments = ["work", "--batch", &batch, "--shard", "0", "--remote", &url, "--cache"];
    let arguments = [&arguments[..], &[inside.to_str().unwrap()]].concat();
    let output = place.project.output(&arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!inside.exists());
}
