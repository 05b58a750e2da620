//! A remote with wrong contents: none of them are used, and nothing is written outside.

use std::path::PathBuf;

use throstle_tests::Project;

use super::machines::{Shared, another, first, json, run, run_with, warnings};

/// The rest of a machine's folder, to show that nothing else was written.
fn around(project: &Project) -> Vec<String> {
    let mut names = project.names(".");
    names.retain(|name| ![".throstle", "out"].contains(&name.as_str()));
    names
}

/// A machine ends with the right files whatever the remote has.
fn assert_unharmed(one: &Project, shared: &Shared, what: &str) -> Vec<String> {
    let other = another(one);
    let before = around(&other);
    let ran = run(&other, shared);
    assert_eq!(ran.last()["status"], "done", "{what}: {}", ran.errors);
    assert_eq!(other.files("out"), one.files("out"), "{what}");
    assert_eq!(around(&other), before, "{what}");
    let checked = other.printed(&["cache", "verify"]);
    assert!(checked.contains("nothing is damaged"), "{what}: {checked}");
    warnings(&ran)
}

/// The files that a machine reads, by kind.
fn read_files(shared: &Shared) -> Vec<PathBuf> {
    let mut files = shared.files("packs");
    files.extend(shared.files("results"));
    files.retain(|path| path.file_name().unwrap() != "ARCHIVE");
    files
}

#[test]
fn altered_and_truncated_files_are_named_and_not_used() {
    let shared = Shared::new();
    let one = first(&shared);
    // A push of this machine would repair the remote meanwhile.
    one.edit("pipeline.toml", |text| {
        format!("[remote]\nurl = \"{}\"\npush = \"never\"\n{text}", shared.url())
    });
    for path in read_files(&shared) {
        let whole = std::fs::read(&path).unwrap();
        let mut altered = whole.clone();
        let middle = altered.len() / 2;
        altered[middle] ^= 0x20;
        let mut zeroed = whole.clone();
        zeroed.fill(0);
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        for (how, bytes) in
            [("altered", altered), ("truncated", whole[..middle].to_vec()), ("zeroed", zeroed)]
        {
            std::fs::write(&path, bytes).unwrap();
            let what = format!("{name} {how}");
            let told = assert_unharmed(&one, &shared, &what);
            // An altered byte of an object that nobody reads is not seen.
            if how == "zeroed" {
                let names =
                    |note: &String| note.contains("unusable file") || note.contains("damaged");
                assert!(told.iter().any(names), "{what}: {told:?}");
            }
        }
        std::fs::write(&path, whole).unwrap();
    }
}

#[test]
fn a_pull_names_each_damaged_file_once() {
    let shared = Shared::new();
    let one = first(&shared);
    let files = read_files(&shared);
    for path in &files {
        let mut bytes = std::fs::read(path).unwrap();
        bytes.iter_mut().for_each(|byte| *byte ^= 0x20);
        std::fs::write(path, bytes).unwrap();
    }
    let other = another(&one);
    let output = other.output(&["pull", "--remote", &shared.url()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let of = |path: &PathBuf| told.matches(path.file_name().unwrap().to_str().unwrap()).count();
    let named: Vec<usize> = shared.files("results").iter().map(of).collect();
    assert!(named.contains(&1) && !named.iter().any(|count| *count > 1), "{told}");
    assert!(told.contains("error: files of the remote are damaged or missing"), "{told}");
}

#[test]
fn swapped_objects_and_results_are_found() {
    let shared = Shared::new();
    let one = first(&shared);
    for kind in ["objects", "results"] {
        let files = shared.files(kind);
        let (first, second) =
            (std::fs::read(&files[0]).unwrap(), std::fs::read(&files[1]).unwrap());
        std::fs::write(&files[0], &second).unwrap();
        std::fs::write(&files[1], &first).unwrap();
        let other = another(&one);
        let url = shared.url();
        let output = other.output(&["pull", "--remote", &url]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("unusable file") && told.contains(kind), "{kind}: {told}");
        let checked = other.output(&["remote", "verify", "--remote", &url]);
        assert_eq!(checked.status.code(), Some(1), "{kind}");
        let found = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(found.contains("2 damaged"), "{kind}: {found}");
        assert!(other.printed(&["cache", "verify"]).contains("nothing is damaged"));
        std::fs::write(&files[0], &first).unwrap();
        std::fs::write(&files[1], &second).unwrap();
    }
}

#[test]
fn a_pull_that_lacks_something_fails_and_names_the_stages() {
    let shared = Shared::new();
    let one = first(&shared);
    let url = shared.url();
    let pull = ["pull", "--json", "--remote", &url];
    for path in shared.files("objects") {
        let whole = std::fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        let last = damaged.len() - 1;
        damaged[last / 2] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let other = another(&one);
        let output = other.output(&pull);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let open = told["open"].as_array().unwrap();
        let named = |name: &serde_json::Value| errors.contains(name.as_str().unwrap());
        assert!(!open.is_empty() && open.iter().all(named), "{told}: {errors}");
        let plan = json(&other, &["plan", "--remote", "none"]);
        assert_eq!(plan["stages"]["large"]["executed"], 1, "{plan}");
        std::fs::write(&path, &whole).unwrap();
        // From the whole remote, the same cache gets the rest.
        let output = other.output(&pull);
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn a_pull_succeeds_once_the_remote_has_its_files_again() {
    let shared = Shared::new();
    let one = first(&shared);
    let cat = ["cat", "large", "a", "large"];
    let url = shared.url();
    for (kind, what) in
        [("objects", "gone"), ("objects", "cut"), ("packs", "gone"), ("packs", "cut")]
    {
        // A pull needs no label.
        let is_read = |path: &PathBuf| path.is_file() && !path.ends_with("ARCHIVE");
        let files = shared.files(kind).into_iter().filter(is_read);
        for path in files {
            let whole = std::fs::read(&path).unwrap();
            match what {
                "gone" => std::fs::remove_file(&path).unwrap(),
                _ => std::fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
            }
            let other = another(&one);
            let pull = || other.output(&["pull", "--remote", &url]);
            for _ in 0..2 {
                let output = pull();
                let told = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(1), "{path:?} {what}: {told}");
            }
            std::fs::write(&path, &whole).unwrap();
            let output = pull();
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{path:?} {what}: {told}");
            assert_eq!(other.printed(&cat), one.printed(&cat));
            assert_eq!(run_with(&other, &["--remote", "none"]).executed(), [].into());
        }
    }
}

#[test]
fn an_endless_file_is_not_read_to_its_end() {
    let shared = Shared::new();
    let one = first(&shared);
    one.edit("pipeline.toml", |text| {
        format!("[remote]\nurl = \"{}\"\npush = \"never\"\n{text}", shared.url())
    });
    for path in read_files(&shared).into_iter().chain([shared.path().join("THROSTLE")]) {
        let whole = std::fs::read(&path).unwrap();
        // A sparse file of four terabytes.
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4 << 40).unwrap();
        assert_unharmed(&one, &shared, path.to_str().unwrap());
        std::fs::write(&path, whole).unwrap();
    }
}

#[test]
fn a_result_that_is_too_long_is_one_damaged_file_and_is_repaired() {
    let shared = Shared::new();
    let one = first(&shared);
    let path = shared.files("results").swap_remove(0);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4 << 40).unwrap();
    let url = shared.url();
    let verify = |more: &[&str]| {
        let output = one.output(&[&["remote", "verify", "--remote", &url][..], more].concat());
        let told = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&told).into_owned())
    };
    let (code, found) = verify(&[]);
    assert!(code == Some(1) && found.contains("1 damaged"), "{found}");
    assert_eq!(verify(&["--repair"]).0, Some(0));
    let (code, found) = verify(&[]);
    assert!(code == Some(0) && found.contains("nothing is damaged"), "{found}");
    assert_eq!(run(&another(&one), &shared).executed().values().sum::<u64>(), 0);
}

#[test]
fn a_link_out_of_the_remote_is_not_written_through() {
    let shared = Shared::new();
    let outside = tempfile::tempdir().unwrap();
    for folder in ["packs", "objects", "results", "known"] {
        std::os::unix::fs::symlink(outside.path(), shared.path().join(folder)).unwrap();
    }
    let project = super::machines::machine(super::machines::MANIFEST);
    let ran = run(&project, &shared);
    assert_eq!(ran.executed()["words"], 5);
    assert!(warnings(&ran)[0].contains("leads outside it"), "{:?}", warnings(&ran));
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn odd_names_in_a_listing_are_ignored() {
    let shared = Shared::new();
    let one = first(&shared);
    for scope in std::fs::read_dir(shared.path().join("known")).unwrap() {
        let scope = scope.unwrap().path();
        for name in ["..%2f..%2fetc", "con\nsole", "ABCDEF", &"f".repeat(64)] {
            std::fs::write(scope.join(name), b"x").unwrap();
        }
    }
    let other = another(&one);
    other.write("data/wavs/c.wav", throstle_tests::wav(9_000));
    let ran = run(&other, &shared);
    assert_eq!(ran.executed()["voice"], 1);
    assert!(warnings(&ran).iter().all(|note| note.contains("INDEX")), "{:?}", warnings(&ran));
}

#[test]
fn a_file_that_is_no_mark_of_a_remote_keeps_everybody_out() {
    let shared = Shared::new();
    std::fs::write(shared.path().join("THROSTLE"), "throstle remote 999\n").unwrap();
    let project = super::machines::machine(super::machines::MANIFEST);
    let ran = run_with(&project, &["--remote", &shared.url()]);
    assert_eq!(ran.executed()["words"], 5);
    assert!(warnings(&ran)[0].contains("one of a newer version"), "{:?}", warnings(&ran));
    assert_eq!(shared.files("").len(), 1);
}

#[test]
fn a_lost_mark_stops_a_run_that_requires_the_remote_at_its_start_and_is_written_by_hand() {
    let shared = Shared::new();
    let one = first(&shared);
    let mark = shared.path().join("THROSTLE");
    std::fs::remove_file(&mark).unwrap();
    let other = another(&one);
    other.edit("pipeline.toml", |text| {
        format!("[remote]\nurl = \"{}\"\nrequire = true\n{text}", shared.url())
    });
    let refused = || {
        for command in [&["run", ".", "--json"][..], &["plan", ".", "--json"], &["pull"]] {
            let output = other.output(command);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{command:?} {told}");
            assert!(told.contains("write the line `throstle remote 1`"), "{command:?} {told}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{command:?}");
        }
    };
    refused();
    // As a full disk leaves it.
    std::fs::write(&mark, "\n").unwrap();
    refused();
    // Many editors and shells write no line end.
    std::fs::write(&mark, "throstle remote 1").unwrap();
    let ran = other.run();
    assert_eq!((ran.code, ran.executed().values().sum::<u64>()), (Some(0), 0), "{}", ran.errors);
}
