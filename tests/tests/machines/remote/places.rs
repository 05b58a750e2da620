//! Addresses that cannot be remotes, and spellings of one.

use std::process::Command;

use super::machines::{MANIFEST, Shared, another, first, machine, run_with, warnings};

#[test]
fn a_file_or_a_pipe_is_not_an_empty_remote() {
    let shared = Shared::new();
    let project = machine(MANIFEST);
    let (file, pipe) = (shared.path().join("file"), shared.path().join("pipe"));
    std::fs::write(&file, "").unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for path in [file, pipe] {
        let url = format!("file://{}", path.to_str().unwrap());
        for command in [&["push"][..], &["remote", "stats"]] {
            let output = project.output(&[command, &["--remote", &url]].concat());
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains("is not a folder"), "{told}");
        }
        let ran = run_with(&project, &["--remote", &url]);
        let told = warnings(&ran);
        assert!(told.is_empty() || told[0].contains("is not a folder"), "{told:?}");
    }
}

#[test]
fn a_remote_in_the_cache_the_data_or_the_exports_is_refused() {
    let project = machine(MANIFEST);
    run_with(&project, &[]);
    for (folder, why) in [
        (".throstle/remote", "the cache"),
        (".throstle", "the cache"),
        ("data/wavs/remote", "it is inside the data"),
        ("out", "exports of"),
        ("out/remote", "exports of"),
    ] {
        let path = project.path().join(folder);
        std::fs::create_dir_all(&path).unwrap();
        let url = format!("file://{}", path.to_str().unwrap());
        for command in [&["run", "."][..], &["push"], &["check"]] {
            let output = project.output(&[command, &["--remote", &url]].concat());
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{folder} {command:?}: {told}");
            assert!(told.contains(why), "{folder}: {told}");
        }
    }
    let beside = project.path().join("shared");
    std::fs::create_dir(&beside).unwrap();
    let url = format!("file://{}", beside.to_str().unwrap());
    assert!(project.printed(&["push", "--remote", &url]).contains("pushed to"));
}

#[test]
fn an_address_that_the_program_cannot_use_is_refused_by_check() {
    let project = machine(MANIFEST);
    for url in ["s3://bucket/voice", "https://example.org/voice"] {
        let output = project.output(&["check", "--remote", url]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_refused = told.contains("built with `--features cloud`");
        let expected = if cfg!(feature = "cloud") { (Some(0), false) } else { (Some(2), true) };
        assert_eq!((output.status.code(), is_refused), expected, "{told}");
    }
    let output = project.output(&["check", "--remote", "file:///"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("the root of the file system"), "{told}");
}

#[test]
fn nothing_is_pushed_twice_under_another_spelling() {
    let shared = Shared::new();
    let project = first(&shared);
    let before = shared.files("").len();
    let spelled = format!("{}/.//", shared.url());
    assert!(project.printed(&["push", "--remote", &spelled]).contains("is up to date"));
    assert_eq!(shared.files("").len(), before);
}

#[test]
fn items_are_listed_from_the_remote() {
    let shared = Shared::new();
    let project = first(&shared);
    let other = another(&project);
    let listed = |project: &throstle_tests::Project| {
        project.printed(&["items", "voice", "--format", "jsonl", "--remote", &shared.url()])
    };
    assert_eq!(listed(&other), listed(&project));
    // Planning has fetched the outcome; its lists come when they are read.
    std::fs::rename(shared.path(), shared.path().with_extension("gone")).unwrap();
    let third = another(&other);
    let output = third.output(&["items", "voice", "--remote", &shared.url()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains("damaged"), "{told}");
    std::fs::rename(shared.path().with_extension("gone"), shared.path()).unwrap();
}
