//! Another process exchanges a folder with a link out of the project, again and again, while files
//! are written: nothing is ever written or removed behind the link.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use throstle_tests::{Project, RanProgram, tone, write_clips};

/// A folder that belongs to somebody else, with one file.
struct Outside(tempfile::TempDir);

impl Outside {
    fn new() -> Outside {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("theirs"), "theirs").unwrap();
        Outside(folder)
    }

    /// Makes a link to it beside a folder, which is made too.
    fn link_beside(&self, folder: &Path) -> PathBuf {
        std::fs::create_dir_all(folder).unwrap();
        let link = folder.with_file_name("link");
        std::os::unix::fs::symlink(self.0.path(), &link).unwrap();
        link
    }

    #[track_caller]
    fn assert_untouched(&self) {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["theirs"], "{} entries are outside", names.len());
        assert_eq!(std::fs::read_to_string(self.0.path().join("theirs")).unwrap(), "theirs");
    }
}

/// The number of exchanges at most.
const MOST_EXCHANGES: u32 = 10_000_000;

/// Exchanges the folder with the link while the work is done; afterwards each has its name again.
fn while_exchanging<T>(folder: &Path, link: &Path, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    // False when the work has removed the folder, which it does once nothing is in it.
    let exchange =
        || match renameat2(AT_FDCWD, folder, AT_FDCWD, link, RenameFlags::RENAME_EXCHANGE) {
            Err(Errno::ENOENT) => false,
            exchanged => exchanged.is_ok() || panic!("{exchanged:?}"),
        };
    let result = std::thread::scope(|scope| {
        let exchanging = || {
            for _ in 0..MOST_EXCHANGES {
                if done.load(Ordering::Relaxed) || !exchange() {
                    break;
                }
            }
        };
        std::thread::Builder::new().spawn_scoped(scope, exchanging).unwrap();
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    });
    if folder.is_symlink() {
        exchange();
    }
    result
}

fn clips(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("clip{number:04}")).collect()
}

const EXPORTS: &str = r#"
[pipeline]
name = "exchanged"

[stage.clips]
use = "corpus.table"
table = "data/metadata.csv"
audio = "data/wavs"

[stage.voice]
use = "audio.resample"
input = "clips"
rate = "8kHz"
export = "out/a/{id}.wav"
"#;

fn project(manifest: &str, count: u32) -> Project {
    let (project, names) = (Project::new(manifest), clips(count));
    write_clips(&project, &names.iter().map(String::as_str).collect::<Vec<&str>>());
    project
}

#[test]
fn no_export_leaves_the_project_through_a_folder_that_is_exchanged_with_a_link() {
    let (project, outside) = (project(EXPORTS, 400), Outside::new());
    let folder = project.file("out/a");
    let link = outside.link_beside(&folder);
    for _ in 0..3 {
        let ran = while_exchanging(&folder, &link, || project.run());
        outside.assert_untouched();
        // Each run either wrote through the folder, or said why it did not.
        match ran.code {
            Some(0) => assert_eq!(project.names("out/a").len(), 400),
            code => {
                assert_eq!(code, Some(1), "{ran:?}");
                assert!(!ran.all("stage-failed").is_empty(), "{ran:?}");
            }
        }
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
    }
    // Files that are no longer exported are removed in the same way.
    assert_eq!(project.run().code, Some(0));
    std::fs::write(outside.0.path().join("clip0001.wav"), project.read("out/a/clip0001.wav"))
        .unwrap();
    project.replace("pipeline.toml", "out/a/{id}.wav", "out/b/{id}.wav");
    while_exchanging(&folder, &link, || project.run());
    std::fs::remove_file(outside.0.path().join("clip0001.wav")).unwrap();
    outside.assert_untouched();
}

#[test]
fn nothing_of_the_cache_leaves_it_through_a_folder_that_is_exchanged_with_a_link() {
    let manifest = EXPORTS.replace("8kHz", "48kHz").replace("export = \"out/a/{id}.wav\"\n", "");
    let (project, outside) = (project(&manifest, 12), Outside::new());
    for name in clips(12) {
        // Outputs of more than 1 MiB, which wait in files.
        project.write(&format!("data/wavs/{name}.wav"), tone(200.0, 12.0, 9_000));
    }
    for folder in ["staging", "objects"] {
        let folder = project.file(&format!(".throstle/{folder}"));
        let link = outside.link_beside(&folder);
        for _ in 0..3 {
            while_exchanging(&folder, &link, || project.run());
            outside.assert_untouched();
        }
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(project.run().code, Some(0));
    assert!(project.printed(&["cache", "verify"]).contains("nothing is damaged"));
}

#[test]
fn a_pack_for_a_remote_is_made_in_the_cache_whatever_is_exchanged() {
    let (project, outside) = (project(EXPORTS, 20), Outside::new());
    assert_eq!(project.run().code, Some(0));
    let staging = project.file(".throstle/staging");
    let link = outside.link_beside(&staging);
    for round in 0..12 {
        std::fs::create_dir(project.file(&format!("remote{round}"))).unwrap();
        let remote = format!("file://{}", project.file(&format!("remote{round}")).display());
        while_exchanging(&staging, &link, || project.output(&["push", ".", "--remote", &remote]));
        outside.assert_untouched();
    }
    std::fs::remove_file(&link).unwrap();
    assert!(project.printed(&["cache", "verify"]).contains("nothing is damaged"));
}

#[test]
fn a_link_in_the_place_of_a_folder_of_the_cache_is_refused_and_the_cache_may_be_behind_one() {
    let (project, outside) = (project(EXPORTS, 3), Outside::new());
    std::fs::create_dir(project.file(".throstle")).unwrap();
    let staging = project.file(".throstle/staging");
    std::os::unix::fs::symlink(outside.0.path(), &staging).unwrap();
    let refused = project.output(&["run", "."]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(told.contains("staging` is a symbolic link, where a folder"), "{told}");
    outside.assert_untouched();
    std::fs::remove_dir_all(project.file(".throstle")).unwrap();
    let disk = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(disk.path(), project.file(".throstle")).unwrap();
    assert_eq!(project.run().code, Some(0));
    project.run().assert_nothing_done();
    assert!(disk.path().join("ledger.redb").exists());
    assert_eq!(project.names("out/a").len(), 3);
}

#[test]
fn nothing_of_a_remote_leaves_it_through_a_folder_that_is_exchanged_with_a_link() {
    let (project, outside) = (project(EXPORTS, 40), Outside::new());
    let shared = tempfile::tempdir().unwrap();
    let url = format!("file://{}", shared.path().to_str().unwrap());
    for name in ["results", "known", "packs"] {
        let folder = shared.path().join(name);
        let link = outside.link_beside(&folder);
        for _ in 0..2 {
            let _ = std::fs::remove_dir_all(project.file(".throstle"));
            let arguments = ["run", ".", "--json", "--remote", &url];
            let ran =
                while_exchanging(&folder, &link, || RanProgram::of(project.output(&arguments)));
            assert_eq!(ran.code, Some(0), "a remote never fails a run: {ran:?}");
            while_exchanging(&folder, &link, || {
                project.output(&["remote", "gc", "--remote", &url, "--yes"])
            });
            outside.assert_untouched();
        }
        std::fs::remove_file(&link).unwrap();
    }
}
