//! The cache or the project is removed or moved during a run: a clear error, no verdict on
//! seemingly missing files, and no recreated old folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use throstle_tests::{CLIPS, Project, RanProgram, Running, command, write_clips};

/// The clip `c` takes until there is a file `go` beside the folder of the project.
const HELD: &str = r#"
[stage.held]
use = "command"
input = "clips"
fields = ["text"]
command = """
case {text} in *c.)
    touch ABOVE/begun
    while [ -e ABOVE/above ] && ! [ -e ABOVE/go ]; do sleep 0.02; done;;
esac
echo {text} > {out.said}"""
outputs = { said = "said.txt" }
export = "out/{id}.txt"

[stage.louder]
use = "audio.resample"
input = "clips"
rate = "8kHz"
export = "louder/{id}.wav"
"#;

fn wait_for(file: &Path) {
    let start = Instant::now();
    while !file.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} never comes", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A project in the folder `own` of another.
fn project() -> Project {
    let inner = Project::default();
    write_clips(&inner, &["a", "b", "c", "d", "e"]);
    let project = Project::default();
    let held = HELD.replace("ABOVE", project.path().to_str().unwrap());
    inner.write("pipeline.toml", format!("{CLIPS}{held}"));
    throstle_tests::copy_folder(inner.path(), &project.file("own"), &[]);
    project.write("above", "");
    project
}

/// Runs it until this condition holds, changes it, and lets it continue.
fn run_while(project: &Project, act: impl FnOnce()) -> RanProgram {
    let (own, cache): (PathBuf, PathBuf) = (project.file("own"), project.file("cache"));
    let arguments = ["run", own.to_str().unwrap(), "--json", "--cache", cache.to_str().unwrap()];
    let running = Running::start(command("throstle", project.path(), &arguments));
    wait_for(&project.file("begun"));
    act();
    project.write("go", "");
    running.ended()
}

fn assert_blames_no_item(ran: &RanProgram) {
    for event in ["item-quarantined", "stage-failed"] {
        assert_eq!(ran.all(event), Vec::<&serde_json::Value>::new());
    }
}

#[test]
fn a_project_that_is_moved_during_a_run_is_told_and_its_old_folder_does_not_come_back() {
    let project = project();
    let (own, moved) = (project.file("own"), project.file("moved"));
    let ran = run_while(&project, || std::fs::rename(&own, &moved).unwrap());
    assert_eq!(ran.code, Some(1), "{}", ran.errors);
    assert!(ran.errors.contains("was removed or moved during the run"), "{}", ran.errors);
    assert_blames_no_item(&ran);
    assert!(!own.exists());
    std::fs::rename(&moved, &own).unwrap();
    let again = run_while(&project, || {});
    assert_eq!(again.code, Some(0), "{}", again.errors);
    assert_eq!([again.quarantined("held"), again.quarantined("clips")], [0, 0]);
    assert_eq!(project.names("own/out").len(), 5);
}

#[test]
fn a_manifest_that_is_removed_during_a_run_is_told() {
    let project = project();
    let ran = run_while(&project, || project.remove("own/pipeline.toml"));
    assert_eq!(ran.code, Some(1), "{}", ran.errors);
    assert!(ran.errors.contains("pipeline.toml` was removed or moved"), "{}", ran.errors);
    assert_blames_no_item(&ran);
}

/// Other processes may still write into the folder.
fn remove_whole(folder: &Path) {
    let start = Instant::now();
    while let Err(error) = std::fs::remove_dir_all(folder) {
        let is_written = error.kind() == std::io::ErrorKind::DirectoryNotEmpty;
        assert!(is_written && start.elapsed() < Duration::from_secs(60), "{error}");
    }
}

#[test]
fn a_cache_that_is_removed_or_moved_during_a_run_is_told_and_does_not_come_back() {
    for moved in [true, false] {
        let project = project();
        let (cache, place) = (project.file("cache"), project.file("moved"));
        let ran = run_while(&project, || {
            if moved { std::fs::rename(&cache, &place).unwrap() } else { remove_whole(&cache) }
        });
        assert_eq!(ran.code, Some(1), "{}", ran.errors);
        let message = "was removed, moved or replaced while it was in use";
        assert!(ran.errors.contains(message), "{}", ran.errors);
        assert_blames_no_item(&ran);
        assert!(!cache.exists());
        if moved {
            std::fs::rename(&place, &cache).unwrap();
        }
        let again = run_while(&project, || {});
        assert_eq!(again.code, Some(0), "{}", again.errors);
        assert_eq!(again.quarantined("held"), 0);
        assert_eq!(project.names("own/out").len(), 5);
    }
}
