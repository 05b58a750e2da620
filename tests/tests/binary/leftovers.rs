//! Unexpected entries in the cache folder never prevent a command from working.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use throstle_tests::{Project, write_clips};

use crate::small::done;
use crate::storage::as_reader;

const NOBODY: u32 = 65_534;

/// Leftovers of a killed process.
fn leave(project: &Project) {
    let left = project.file(".throstle/staging/77-00000000000000aa/command-x");
    let odd = left.join(OsStr::from_bytes(b"\xff\xfe not utf-8"));
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::write(odd.join(OsStr::from_bytes(b"\xc3\x28")), "half").unwrap();
}

#[test]
fn names_that_are_not_utf8_after_a_kill_stop_no_command() {
    let project = done();
    for command in [
        &["run"][..],
        &["plan"],
        &["status"],
        &["report"],
        &["items", "words"],
        &["cache", "stats"],
        &["cache", "gc", "--yes"],
        &["cache", "verify", "--repair"],
    ] {
        leave(&project);
        let output = project.output(command);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{command:?}: {told}");
    }
    project.run().assert_nothing_done();
    assert_eq!(project.names(".throstle/staging"), [""; 0]);
}

/// Its program leaves folders that their owner may neither empty nor list.
const CLOSING: &str = r#"
[pipeline]
name = "closing"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.closed]
use = "command"
input = "clips"
fields = ["text"]
command = """
for mode in 555 000; do
    mkdir -p closed-$mode/deeper && echo half > closed-$mode/deeper/file
    chmod $mode closed-$mode/deeper closed-$mode
done
echo {text} > {out.said}"""
outputs = { said = "said.txt" }
export = "out/{id}.txt"
"#;

/// Gives a folder and everything below it to another user, if the tests run as root.
fn give_away(path: &Path) {
    if std::fs::metadata(path).unwrap().uid() != 0 {
        return;
    }
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        path.read_dir().unwrap().for_each(|entry| give_away(&entry.unwrap().path()));
    }
}

#[test]
fn a_file_in_place_of_the_logs_is_told_and_hinders_nothing() {
    let project = done();
    std::fs::remove_dir_all(project.file(".throstle/runs")).unwrap();
    project.write(".throstle/runs", "in the way");
    project.replace("data/metadata.csv", "Sana a.", "Toinen a.");
    let output = project.output(&["run"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("runs` is not a folder: move that file away"), "{told}");
}

#[test]
fn folders_that_a_program_closes_to_its_owner_are_removed() {
    let project = Project::new(CLOSING);
    write_clips(&project, &["a", "b", "c"]);
    give_away(project.path());
    for (old, new) in [("Sana", "Toinen"), ("Toinen", "Kolmas")] {
        let output = as_reader(&project, &["run"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{told}");
        assert!(!told.contains("warning"), "{told}");
        assert_eq!(project.names(".throstle/staging"), [""; 0]);
        project.replace("data/metadata.csv", old, new);
    }
    assert_eq!(project.names("out").len(), 3);
}

#[test]
fn what_cannot_be_removed_is_told_once_with_its_cause_and_hinders_nothing() {
    let project = done();
    if std::fs::metadata(project.path()).unwrap().uid() != 0 {
        eprintln!("left out: only root can leave what another user may not remove");
        return;
    }
    give_away(project.path());
    std::fs::set_permissions(project.path(), PermissionsExt::from_mode(0o755)).unwrap();
    project.write(".throstle/staging/77-00000000000000aa/of-root/file", "half");
    let first = as_reader(&project, &["run"]);
    let told = String::from_utf8_lossy(&first.stderr);
    assert_eq!(first.status.code(), Some(0), "{told}");
    for part in ["77-00000000000000aa", "cannot be removed", "ermission denied"] {
        assert!(told.contains(part), "{told}");
    }
    project.replace("data/metadata.csv", "Sana a", "Toinen a");
    give_away(&project.file("data"));
    let second = as_reader(&project, &["run"]);
    let told = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(0), "{told}");
    assert!(!told.contains("77-") && !told.contains("reading only"), "{told}");
    let collected = as_reader(&project, &["cache", "gc", "--yes"]);
    assert_eq!(collected.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&collected.stderr).contains("was kept"));
    // Root can remove everything.
    project.printed(&["cache", "gc", "--yes"]);
    assert_eq!(project.names(".throstle/staging"), [""; 0]);
}

#[test]
fn what_was_swept_is_put_back_on_request() {
    let project = done();
    project.replace("data/metadata.csv", "Sana", "Monta uutta sanaa");
    assert_eq!(project.run().executed()["words"], 5);
    let removed = project.printed(&["cache", "gc", "--keep-runs", "1", "--yes"]);
    assert!(removed.contains("throstle cache restore"), "{removed}");
    let back = project.printed(&["cache", "restore"]);
    assert!(back.starts_with("restored "), "{back}");
    project.replace("data/metadata.csv", "Monta uutta sanaa", "Sana");
    assert!(!project.run().executed().contains_key("words"), "all of it is there again");
    assert!(project.printed(&["cache", "restore"]).contains("nothing to restore"));
}

#[test]
fn a_lost_pack_is_made_anew_and_leaves_no_damage() {
    let project = done();
    project.remove(".throstle/packs/000001.pack");
    let output = project.output(&["cache", "verify"]);
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("the pack is missing: ") && told.contains("\n1 damaged entry:"),
        "{told}"
    );
    let ran = project.run();
    assert_eq!(ran.code, Some(0));
    assert!(ran.errors.contains("000001.pack"), "{}", ran.errors);
    assert_eq!(project.names(".throstle/packs"), ["000002.pack"]);
    assert!(project.printed(&["cache", "verify"]).contains("nothing is damaged"));
    project.run().assert_nothing_done();
}
