//! The cache carried from one machine to another as a few files. A machine is a folder of its own
//! here.

use std::collections::BTreeMap;

use serde_json::Value;
use throstle_tests::Project;

use crate::small::done;

/// The same manifest and data in another folder, without results of runs.
fn another_machine(project: &Project) -> Project {
    Project::copy_of(project.path(), &[".throstle", "out", "base", "overlay"])
}

fn path(project: &Project, folder: &str) -> String {
    project.file(folder).to_str().unwrap().to_owned()
}

/// The JSON output of a command, and its exit code.
fn json(project: &Project, arguments: &[&str]) -> (Option<i32>, Value) {
    let output = project.output(&[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let value = serde_json::from_str(&text);
    (output.status.code(), value.unwrap_or_else(|_| panic!("{text} {:?}", output.stderr)))
}

#[test]
fn a_run_on_another_machine_does_nothing_that_was_packed() {
    let project = done();
    let told = project.printed(&["pack-cache", "--to", "base"]);
    assert!(told.contains("into `base`") && told.contains("in 1 volume"), "{told}");
    let other = another_machine(&project);
    let told = other.printed(&["unpack-cache", "--from", &path(&project, "base")]);
    assert!(told.starts_with("added ") && told.contains("to `.throstle`"), "{told}");
    let ran = other.run();
    assert_eq!(ran.executed(), BTreeMap::new());
    assert_eq!(ran.reused("words"), 5);
    assert_eq!(other.files("out"), project.files("out"));
    assert_eq!(ran.last()["status"], "done");
    other.run().assert_nothing_done();
    assert!(other.printed(&["log"]).contains("small"));
}

#[test]
fn a_cache_that_was_deleted_comes_back() {
    let project = done();
    project.printed(&["pack-cache", "--to", "base"]);
    std::fs::remove_dir_all(project.file(".throstle")).unwrap();
    project.printed(&["unpack-cache", "--from", "base"]);
    assert_eq!(project.run().executed(), BTreeMap::new());
    assert!(project.printed(&["cache", "verify"]).contains("nothing is damaged"));
}

#[test]
fn the_next_session_packs_only_what_is_new() {
    let project = done();
    project.printed(&["pack-cache", "--to", "base"]);
    let second = another_machine(&project);
    let base_folder = path(&project, "base");
    second.printed(&["unpack-cache", "--from", &base_folder]);
    second.replace("data/metadata.csv", "Sana a", "Sana ja toinen a");
    assert_eq!(second.run().executed()["words"], 1);
    let (code, overlay) = json(&second, &["pack-cache", "--to", "overlay", "--base", &base_folder]);
    assert_eq!(code, Some(0), "{overlay}");
    assert!(overlay["in_bases"].as_u64() > overlay["records"].as_u64(), "{overlay}");
    let third = another_machine(&second);
    let overlay_folder = path(&second, "overlay");
    third.printed(&["unpack-cache", "--from", &base_folder, "--from", &overlay_folder]);
    assert_eq!(third.run().executed(), BTreeMap::new());
    assert_eq!(third.files("out"), second.files("out"));
}

#[test]
fn an_overlay_without_its_base_is_told_and_what_it_lacks_is_made_anew() {
    let project = done();
    project.printed(&["pack-cache", "--to", "base"]);
    project.replace("data/metadata.csv", "Sana a", "Sana ja toinen a");
    project.run();
    project.printed(&["pack-cache", "--to", "overlay", "--base", "base"]);
    let other = another_machine(&project);
    let (code, alone) = json(&other, &["unpack-cache", "--from", &path(&project, "overlay")]);
    assert_eq!((code, alone["without_base"].as_array().unwrap().len()), (Some(1), 1));
    assert_eq!(other.run().last()["status"], "done");
    assert_eq!(other.files("out"), project.files("out"));
}

#[test]
fn a_damaged_archive_gives_what_is_whole_and_the_rest_is_made_anew() {
    let project = done();
    project.printed(&["pack-cache", "--to", "base"]);
    let mut bytes = project.read("base/volume-0001.pack");
    bytes[16 + 48] ^= 1;
    project.write("base/volume-0001.pack", bytes);
    let other = another_machine(&project);
    let (code, taken) = json(&other, &["unpack-cache", "--from", &path(&project, "base")]);
    assert_eq!(code, Some(1));
    let named = taken["damages"][0]["path"].as_str().unwrap();
    assert!(named.ends_with("base/volume-0001.pack"), "{taken}");
    assert_eq!(other.run().last()["status"], "done");
    assert_eq!(other.files("out"), project.files("out"));
}

#[test]
fn folders_that_cannot_be_meant_are_refused() {
    let project = done();
    project.printed(&["pack-cache", "--to", "base"]);
    std::os::unix::fs::symlink(".throstle", project.file("link")).unwrap();
    for arguments in [
        &["pack-cache", "--to", "base"][..],
        &["pack-cache", "--to", ".throstle/base"],
        &["pack-cache", "--to", "data/../.throstle/base"],
        &["pack-cache", "--to", "link/base"],
        &["pack-cache", "--to", "overlay", "--base", "data"],
        &["unpack-cache", "--from", "data"],
    ] {
        let output = project.output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
    assert!(!project.file(".throstle/base").exists());
    project.edit("base/ARCHIVE", |text| text.replace("volume", "Volume"));
    let output = project.output(&["unpack-cache", "--from", "base"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("`base/ARCHIVE` of an archive is damaged: copy it again"), "{told}");
}
