//! The commands for maintaining the cache, and a read-only cache.

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use throstle_tests::Project;

use crate::small::done;

fn figure(project: &Project, name: &str) -> u64 {
    let stats: Value =
        serde_json::from_str(&project.printed(&["cache", "stats", "--json"])).unwrap();
    stats[name].as_u64().unwrap_or_else(|| panic!("no figure `{name}` in {stats}"))
}

#[test]
fn what_nothing_reaches_is_removed_and_the_rest_is_whole() {
    let project = done();
    assert!(project.printed(&["cache", "verify"]).contains("nothing is damaged"));
    project.replace("data/metadata.csv", "Sana", "Monta uutta sanaa");
    assert_eq!(project.run().executed()["words"], 5);
    let before = figure(&project, "objects");
    let plan = project.printed(&["cache", "gc", "--keep-runs", "1"]);
    assert!(plan.contains("keeping the results of run 2"), "{plan}");
    assert!(plan.contains("nothing was removed: add `--yes`"), "{plan}");
    assert_eq!(figure(&project, "objects"), before);
    project.printed(&["cache", "gc", "--keep-runs", "1", "--yes", "--empty-trash"]);
    assert!(figure(&project, "objects") < before);
    assert_eq!(figure(&project, "trash_bytes"), 0);
    assert!(project.printed(&["cache", "verify"]).contains("nothing is damaged"));
    project.run().assert_nothing_done();
}

/// The states of the index that a power cut leaves: none, a torn one, and one of an earlier moment.
#[test]
fn a_check_first_brings_the_index_up_to_date_and_says_so() {
    const LEDGER: &str = ".throstle/ledger.redb";
    let project = done();
    let earlier = project.read(LEDGER);
    project.replace("data/metadata.csv", "Sana", "Monta uutta sanaa");
    assert_eq!(project.run().executed()["words"], 5);
    let whole = project.printed(&["cache", "verify"]);
    let torn = {
        let mut bytes = project.read(LEDGER);
        bytes[5_000..].fill(0);
        bytes
    };
    for index in [None, Some(Vec::new()), Some(torn), Some(earlier)] {
        match index {
            None => project.remove(LEDGER),
            Some(bytes) => project.write(LEDGER, bytes),
        }
        let told = project.printed(&["cache", "verify"]);
        let (first, rest) = told.split_once('\n').unwrap();
        assert!(first.ends_with("rebuilt it from the packs"), "{told}");
        assert_eq!(rest, whole);
        assert_eq!(project.printed(&["cache", "verify"]), whole, "once is enough");
    }
    project.run().assert_nothing_done();
}

#[test]
fn lost_indices_make_no_work() {
    let project = done();
    project.write(".throstle/stat.idx", "");
    project.remove(".throstle/ledger.redb");
    let plan = project.printed(&["plan", "."]);
    assert!(!plan.contains("dirty") && !plan.contains("damaged"), "{plan}");
    project.run().assert_nothing_done();
}

#[test]
fn a_pinned_run_survives_the_garbage_collection() {
    let project = done();
    project.printed(&["cache", "pin", "1"]);
    project.replace("data/metadata.csv", "Sana", "Monta uutta sanaa");
    project.run();
    project.printed(&["cache", "gc", "--keep-runs", "1", "--yes", "--empty-trash"]);
    project.replace("data/metadata.csv", "Monta uutta sanaa", "Sana");
    assert_eq!(project.run().executed(), [].into());
}

#[test]
fn a_cache_that_is_not_there_is_not_made_by_looking() {
    let project = crate::small::project();
    for command in ["stats", "verify", "gc"] {
        let output = project.output(&["cache", command]);
        assert_eq!(output.status.code(), Some(1), "{command}");
    }
    assert!(!project.file(".throstle").exists());
}

/// The program, run by an unprivileged user, whoever runs the tests.
pub fn as_reader(project: &Project, arguments: &[&str]) -> Output {
    let program = project.throstle(&[]).get_program().to_owned();
    let own = project.file("throstle");
    if !own.exists() {
        std::fs::copy(program, &own).unwrap();
    }
    let mut command = Command::new(own);
    command.args(arguments).current_dir(project.path());
    // Root may write everything.
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    loop {
        match command.output() {
            // A program that another test starts at this moment still has the copy open.
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
            }
            output => return output.unwrap(),
        }
    }
}

/// Makes the files and folders below writable, or not.
fn set_writable(path: &Path, writable: bool) {
    let folder = path.is_dir();
    let mode = if writable { 0o755 } else { 0o555 };
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    if folder {
        path.read_dir().unwrap().for_each(|entry| set_writable(&entry.unwrap().path(), writable));
    }
}

#[test]
fn a_cache_that_can_only_be_read_is_used_and_not_written() {
    let project = done();
    let cache = project.file(".throstle");
    std::fs::set_permissions(project.path(), PermissionsExt::from_mode(0o755)).unwrap();
    set_writable(&cache, false);
    let fresh = as_reader(&project, &["run"]);
    let planned = as_reader(&project, &["plan"]);
    project.replace("data/metadata.csv", "Sana a", "Toinen a");
    let dirty = as_reader(&project, &["run"]);
    set_writable(&cache, true);
    let told = String::from_utf8(fresh.stderr).unwrap();
    assert_eq!(fresh.status.code(), Some(0), "{told}");
    assert!(told.contains("the cache `.throstle` is not writable: opened read-only"), "{told}");
    assert!(told.contains("nothing to do"), "{told}");
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        let owned = "belongs to `root`, and this process runs as";
        assert!(told.contains("cannot open") && told.contains(owned), "{told}");
    }
    assert_eq!(planned.status.code(), Some(0));
    let told = String::from_utf8(dirty.stderr).unwrap();
    assert_eq!(dirty.status.code(), Some(1), "{told}");
    assert!(told.contains("open for reading only: use another cache folder"), "{told}");
    assert_eq!(project.run().executed()["words"], 1);
}
