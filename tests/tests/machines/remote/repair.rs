//! Finding damage in a remote, and repairing it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use throstle_tests::{Project, Running};

use super::machines::{Shared, another, first, found, json, name_in, run, run_with, warnings};

#[test]
fn missing_large_objects_and_volumes_are_found() {
    let shared = Shared::new();
    let project = first(&shared);
    let is_volume = |path: &PathBuf| path.to_str().unwrap().ends_with(".pack");
    let volume = shared.files("packs").into_iter().find(is_volume).unwrap();
    let object = shared.files("objects").remove(0);
    for path in [volume, object] {
        let whole = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let told = found(&project, &shared);
        let expected = format!("`{}`: it is missing", name_in(&shared, &path));
        assert!(told.contains(&expected), "{told}");
        std::fs::write(&path, whole).unwrap();
    }
}

#[test]
fn a_volume_with_damaged_first_bytes_is_found() {
    let shared = Shared::new();
    let project = first(&shared);
    let is_volume = |path: &PathBuf| path.to_str().unwrap().ends_with(".pack");
    let volume = shared.files("packs").into_iter().find(is_volume).unwrap();
    let mut bytes = std::fs::read(&volume).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&volume, bytes).unwrap();
    let told = found(&project, &shared);
    let expected = format!("`{}`: its first bytes are damaged", name_in(&shared, &volume));
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn a_push_writes_large_objects_again_that_are_missing_or_too_short() {
    let shared = Shared::new();
    let project = first(&shared);
    let url = shared.url();
    let objects = shared.files("objects");
    let whole = std::fs::read(&objects[0]).unwrap();
    std::fs::remove_file(&objects[0]).unwrap();
    std::fs::write(&objects[1], &whole[..5_000]).unwrap();
    // A run on another machine needs none of the large objects, but a pull does.
    let other = another(&project);
    run(&other, &shared);
    let pull = || other.output(&["pull", "--remote", &url]);
    assert_eq!(pull().status.code(), Some(1));
    assert_eq!(json(&project, &["push", "--remote", &url])["objects"], 2);
    assert_eq!(shared.files("objects"), objects);
    assert_eq!(pull().status.code(), Some(0));
    assert!(project.printed(&["push", "--remote", &url]).contains("is up to date"));
}

#[test]
fn a_large_object_is_not_read_past_its_length() {
    let shared = Shared::new();
    let project = first(&shared);
    let object = shared.files("objects").remove(0);
    // A sparse file of four terabytes.
    std::fs::File::options().write(true).open(&object).unwrap().set_len(4 << 40).unwrap();
    let told = found(&project, &shared);
    assert!(told.contains("it has 4398046511104 bytes instead of 2000000"), "{told}");
}

#[test]
fn a_repair_writes_again_what_the_machine_has() {
    let shared = Shared::new();
    let project = first(&shared);
    let mut files = shared.files("packs");
    files.extend(shared.files("results"));
    files.extend(shared.files("objects"));
    let kinds = ["INDEX", "ARCHIVE", ".pack", "results/", "objects/"];
    for kind in kinds {
        let is_of_kind = |path: &&PathBuf| name_in(&shared, path).contains(kind);
        let path = files.iter().find(is_of_kind).cloned();
        let path = path.filter(|path| path.exists()).or_else(|| {
            let now = [shared.files("packs"), shared.files("results"), shared.files("objects")];
            now.concat().into_iter().find(|path| is_of_kind(&path))
        });
        let path = path.unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x20;
        std::fs::write(&path, bytes).unwrap();
        let verify = ["remote", "verify", "--repair", "--remote", &shared.url()];
        let told = project.printed(&verify);
        assert!(told.contains("removed") && told.contains("pushed"), "{kind}: {told}");
        let again = project.printed(&["remote", "verify", "--remote", &shared.url()]);
        assert!(again.contains("nothing is damaged"), "{kind}: {again}");
        let other = another(&project);
        let ran = run(&other, &shared);
        assert_eq!(ran.executed(), BTreeMap::new(), "{kind}");
        assert_eq!(warnings(&ran), Vec::<String>::new(), "{kind}");
        assert_eq!(other.files("out"), project.files("out"), "{kind}");
    }
}

#[test]
fn labels_and_logs_are_read_and_repaired() {
    let shared = Shared::new();
    let project = first(&shared);
    let labels = shared.files("known");
    let stray = labels[0].with_file_name("0".repeat(64));
    let log = shared.files("logs").remove(0);
    std::fs::write(&labels[0], "x").unwrap();
    std::fs::write(&stray, "").unwrap();
    let whole = std::fs::read(&log).unwrap();
    std::fs::write(&log, [&whole[..], b"{}\n"].concat()).unwrap();
    let told = found(&project, &shared);
    for (path, why) in [
        (&labels[0], "it is not empty"),
        (&stray, "pack 000000000000 is missing"),
        (&log, "its bytes differ from its digest"),
    ] {
        let expected = format!("`{}`: {why}", name_in(&shared, path));
        assert!(told.contains(&expected), "{expected}: {told}");
    }
    let verify = ["remote", "verify", "--remote", &shared.url()];
    project.printed(&[&verify[..], &["--repair"]].concat());
    assert!(project.printed(&verify).contains("nothing is damaged"));
    assert!(labels.iter().all(|label| std::fs::read(label).is_ok_and(|text| text.is_empty())));
    assert!(!stray.exists());
    assert_eq!(std::fs::read(&log).unwrap(), whole);
    let other = another(&project);
    assert_eq!(run(&other, &shared).executed(), BTreeMap::new());
}

#[test]
fn a_repair_leaves_only_outcomes_that_are_whole_and_keeps_the_records_of_items() {
    let shared = Shared::new();
    let project = first(&shared);
    let verify = ["remote", "verify", "--remote", &shared.url()];
    // An object of one item: the outcome of its stage is incomplete, all other items are known.
    damage(&shared, ".pack", 100);
    another(&project).printed(&[&verify[..], &["--repair"]].concat());
    let other = another(&project);
    let ran = run(&other, &shared);
    let executed = ran.executed();
    assert!(executed.values().all(|count| *count == 1), "{executed:?}");
    assert_eq!(other.files("out"), project.files("out"));
    // Nothing is left of the volume, with an intact or a damaged index; a machine that has everything
    // writes it again.
    for what in ["index", "no index"] {
        for volume in shared.files("packs").iter().filter(|path| path.extension().is_some()) {
            std::fs::write(volume, "").unwrap();
        }
        if what == "no index" {
            damage(&shared, "INDEX", 60);
        }
        another(&project).printed(&[&verify[..], &["--repair"]].concat());
        project.printed(&["push", "--remote", &shared.url()]);
        assert_whole(&project, &shared, what);
    }
}

#[test]
fn a_folder_in_the_place_of_a_label_is_removed_and_the_rest_repaired() {
    let shared = Shared::new();
    let project = first(&shared);
    let label = shared.files("known").remove(0);
    std::fs::remove_file(&label).unwrap();
    std::fs::create_dir(&label).unwrap();
    damage(&shared, "ARCHIVE", 30);
    let verify = ["remote", "verify", "--remote", &shared.url()];
    project.printed(&[&verify[..], &["--repair"]].concat());
    assert!(project.printed(&verify).contains("nothing is damaged"));
    assert_whole(&project, &shared, "a folder as a label");
}

/// Changes one byte of the file of this kind.
fn damage(shared: &Shared, kind: &str, at: usize) -> PathBuf {
    let of_kind = |path: &PathBuf| path.to_str().unwrap().ends_with(kind);
    let path = shared.files("packs").into_iter().find(of_kind).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Another machine finds everything in the remote.
fn assert_whole(project: &Project, shared: &Shared, what: &str) {
    let other = another(project);
    let output = other.output(&["pull", "--remote", &shared.url()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{what}: {told}");
    let ran = run_with(&other, &["--remote", "none"]);
    assert_eq!(ran.executed(), BTreeMap::new(), "{what}");
    assert_eq!(other.files("out"), project.files("out"), "{what}");
}

#[test]
fn a_repair_on_a_machine_without_anything_keeps_all_that_is_intact() {
    // The checksum of the index, and a byte of an archive: all objects and records are intact.
    for (kind, at) in [("INDEX", Some(60)), ("ARCHIVE", Some(30)), ("INDEX", None)] {
        let shared = Shared::new();
        let project = first(&shared);
        match at {
            Some(at) => _ = damage(&shared, kind, at),
            None => std::fs::remove_file(damage(&shared, kind, 0)).unwrap(),
        }
        let verify = ["remote", "verify", "--remote", &shared.url()];
        let other = another(&project);
        other.printed(&[&verify[..], &["--repair"]].concat());
        assert!(other.printed(&verify).contains("nothing is damaged"), "{kind}");
        assert_whole(&project, &shared, kind);
        assert!(project.printed(&["push", "--remote", &shared.url()]).contains("is up to date"));
    }
}

#[test]
fn outcomes_that_also_refer_to_an_intact_pack_stay() {
    for (by_first, file) in
        [(true, "ARCHIVE"), (false, "ARCHIVE"), (true, "INDEX"), (false, "INDEX")]
    {
        let shared = Shared::new();
        let project = first(&shared);
        let more = another(&project);
        more.write("data/wavs/c.wav", throstle_tests::wav(9_000));
        run(&more, &shared);
        let oldest = shared.files("packs").into_iter().filter(|path| path.ends_with(file));
        let oldest = oldest.min_by_key(|path| path.metadata().unwrap().modified().unwrap());
        std::fs::write(oldest.unwrap(), "").unwrap();
        let repairer = if by_first { project } else { another(&more) };
        let verify = ["remote", "verify", "--remote", &shared.url()];
        repairer.printed(&[&verify[..], &["--repair"]].concat());
        assert!(repairer.printed(&verify).contains("nothing is damaged"));
        assert_whole(&more, &shared, &format!("{file}, {by_first}"));
    }
}

#[test]
fn bytes_behind_a_large_object_cost_nothing() {
    let shared = Shared::new();
    let project = first(&shared);
    let object = shared.files("objects").remove(0);
    let mut bytes = std::fs::read(&object).unwrap();
    bytes.push(0);
    std::fs::write(&object, bytes).unwrap();
    let verify = ["remote", "verify", "--remote", &shared.url()];
    another(&project).printed(&[&verify[..], &["--repair"]].concat());
    assert_eq!(std::fs::metadata(&object).unwrap().len(), 2_000_000);
    assert_whole(&project, &shared, "a byte more");
}

#[test]
fn a_killed_repair_loses_nothing() {
    let shared = Shared::new();
    let project = first(&shared);
    let whole = tempfile::tempdir().unwrap();
    copy(shared.path(), whole.path());
    let verify = ["remote", "verify", "--remote", &shared.url()];
    for delay in (0..200).step_by(20) {
        std::fs::remove_dir_all(shared.path()).unwrap();
        copy(whole.path(), shared.path());
        damage(&shared, "ARCHIVE", 30);
        let other = another(&project);
        let mut repair = Running::start(other.throstle(&[&verify[..], &["--repair"]].concat()));
        std::thread::sleep(Duration::from_millis(delay));
        repair.send(Signal::SIGKILL);
        repair.code();
        // On the same machine, or on one that begins afresh.
        let next = if delay % 40 == 0 { other } else { another(&project) };
        next.output(&[&verify[..], &["--repair"]].concat());
        assert!(next.printed(&verify).contains("nothing is damaged"), "{delay}");
        assert_whole(&project, &shared, &format!("{delay} ms"));
    }
}

/// Copies a folder to a place that does not exist.
fn copy(from: &Path, to: &Path) {
    let source = from.join(".");
    std::fs::create_dir_all(to).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").args([&source, to]).status();
    assert!(copied.unwrap().success());
}

#[test]
fn a_repair_leaves_files_of_others_in_the_folder_of_a_pack() {
    let shared = Shared::new();
    let project = first(&shared);
    let index = damage(&shared, "ARCHIVE", 30);
    let mine = index.with_file_name("mine.txt");
    std::fs::write(&mine, "mine").unwrap();
    project.printed(&["remote", "verify", "--repair", "--remote", &shared.url()]);
    assert!(mine.exists() && !index.exists());
    let week = std::time::SystemTime::now() - Duration::from_secs(7 * 24 * 3600);
    let file = std::fs::File::options().write(true).open(&mine).unwrap();
    file.set_modified(week).unwrap();
    project.printed(&["remote", "gc", "--yes", "--remote", &shared.url()]);
    assert!(mine.exists());
    let volume = damage(&shared, ".pack", 20);
    std::fs::remove_file(&volume).unwrap();
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("mine.txt"), "mine").unwrap();
    let output = project.output(&["remote", "verify", "--repair", "--remote", &shared.url()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(volume.join("mine.txt").exists());
}

#[test]
fn a_repair_keeps_what_only_the_remote_has() {
    let shared = Shared::new();
    let project = first(&shared);
    let is_volume = |path: &PathBuf| path.to_str().unwrap().ends_with(".pack");
    let volume = shared.files("packs").into_iter().find(is_volume).unwrap();
    // The last byte belongs to a record: the objects are intact.
    let mut bytes = std::fs::read(&volume).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&volume, bytes).unwrap();
    // A machine that has computed nothing.
    let other = another(&project);
    other.printed(&["remote", "verify", "--repair", "--remote", &shared.url()]);
    let third = another(&project);
    let ran = run(&third, &shared);
    assert_eq!(ran.executed(), BTreeMap::new());
    assert_eq!(third.files("out"), project.files("out"));
}

/// Puts folders and pipes in the place of files; returns their names.
fn make_odd(shared: &Shared) -> Vec<String> {
    let is_index = |path: &PathBuf| path.ends_with("INDEX");
    let index = shared.files("packs").into_iter().find(is_index).unwrap();
    let result = shared.files("results").remove(0);
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    std::fs::remove_file(&result).unwrap();
    let pipe = shared.path().join("objects/pipe");
    for path in [&result, &pipe] {
        let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
        assert!(made.success());
    }
    [index, result, pipe].iter().map(|path| name_in(shared, path)).collect()
}

#[test]
fn what_is_no_file_is_named_and_the_rest_is_read() {
    let shared = Shared::new();
    let project = first(&shared);
    let names = make_odd(&shared);
    let damaged = shared.files("results").into_iter().find(|path| path.is_file()).unwrap();
    std::fs::write(&damaged, "damaged").unwrap();
    let told = found(&project, &shared);
    for name in &names {
        assert!(told.contains(&format!("`{name}`: it is not a file")), "{told}");
    }
    let name = name_in(&shared, &damaged);
    assert!(told.contains(&format!("`{name}`: it is damaged")), "{told}");
    let gc = project.output(&["remote", "gc", "--remote", &shared.url()]);
    let told = String::from_utf8_lossy(&gc.stderr).into_owned();
    assert!(gc.status.success(), "{told}");
    assert!(names.iter().all(|name| told.contains(&format!("`{name}` is not a file"))), "{told}");
}

#[test]
fn a_repair_removes_what_is_no_file_but_no_folder_with_contents() {
    let shared = Shared::new();
    let project = first(&shared);
    make_odd(&shared);
    let verify = ["remote", "verify", "--remote", &shared.url()];
    project.printed(&[&verify[..], &["--repair"]].concat());
    assert!(project.printed(&verify).contains("nothing is damaged"));
    let other = another(&project);
    assert_eq!(run(&other, &shared).executed(), BTreeMap::new());
    let folder = shared.path().join("results/folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("mine"), "mine").unwrap();
    let output = project.output(&[&verify[..], &["--repair"]].concat());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("results/folder") && told.contains("cannot be removed"), "{told}");
    assert!(folder.join("mine").exists());
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("1 damaged file left"), "{told}");
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        found.lines().last().unwrap().contains("`results/folder`: it is not a file"),
        "{found}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
    project.printed(&[&verify[..], &["--repair"]].concat());
}

#[test]
fn files_in_the_place_of_folders_and_broken_links_are_named_and_repaired() {
    let shared = Shared::new();
    let project = first(&shared);
    let scope = std::fs::read_dir(shared.path().join("known")).unwrap().next().unwrap().unwrap();
    std::fs::remove_dir_all(scope.path()).unwrap();
    std::fs::write(scope.path(), "x").unwrap();
    let link = shared.files("results").remove(0);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&link, &link).unwrap();
    let told = found(&project, &shared);
    for (path, why) in [(&scope.path(), "it is not a folder"), (&link, "it is not a file")] {
        let name = name_in(&shared, path);
        assert!(told.contains(&format!("`{name}`: {why}")), "{told}");
    }
    let verify = ["remote", "verify", "--remote", &shared.url()];
    project.printed(&[&verify[..], &["--repair"]].concat());
    assert!(project.printed(&verify).contains("nothing is damaged"));
    let other = another(&project);
    assert_eq!(run(&other, &shared).executed(), BTreeMap::new());
}

#[test]
fn all_results_are_written_again_after_a_file_has_taken_their_folder() {
    let shared = Shared::new();
    let project = first(&shared);
    std::fs::remove_dir_all(shared.path().join("results")).unwrap();
    std::fs::write(shared.path().join("results"), "x").unwrap();
    assert!(found(&project, &shared).contains("`results`: it is not a folder"));
    let verify = ["remote", "verify", "--remote", &shared.url()];
    project.printed(&[&verify[..], &["--repair"]].concat());
    let other = another(&project);
    assert_eq!(run(&other, &shared).executed(), BTreeMap::new());
    assert_eq!(other.files("out"), project.files("out"));
}

#[test]
fn a_link_to_a_file_is_read_as_the_file() {
    let (shared, elsewhere) = (Shared::new(), tempfile::tempdir().unwrap());
    let project = first(&shared);
    let object = shared.files("objects").remove(0);
    let target = elsewhere.path().join("object");
    std::fs::rename(&object, &target).unwrap();
    std::os::unix::fs::symlink(&target, &object).unwrap();
    let verify = ["remote", "verify", "--remote", &shared.url()];
    assert!(project.printed(&verify).contains("nothing is damaged"));
    std::fs::write(&target, "damaged").unwrap();
    let name = name_in(&shared, &object);
    assert!(found(&project, &shared).contains(&format!("`{name}`: it has 7 bytes")));
}

#[test]
fn a_name_that_is_not_utf8_is_named_and_removed() {
    use std::os::unix::ffi::OsStrExt;
    let shared = Shared::new();
    let project = first(&shared);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let [file, folder] = ["results", "logs"].map(|own| shared.path().join(own).join(name));
    std::fs::write(&file, "x").unwrap();
    std::fs::create_dir(&folder).unwrap();
    let told = found(&project, &shared);
    assert!(told.contains("`results/caf\\xe9`") && told.contains("`logs/caf\\xe9`"), "{told}");
    let verify = ["remote", "verify", "--remote", &shared.url()];
    let told = project.printed(&[&verify[..], &["--repair"]].concat());
    assert!(told.contains("removed 2 files"), "{told}");
    assert!(!file.exists() && !folder.exists());
    assert!(project.printed(&verify).contains("nothing is damaged"));
}
