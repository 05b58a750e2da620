//! Signals and odd files while objects come from a remote.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::fs::RealFs;
use cache::{Access, Cache, Claim, Digest};
use camino::Utf8Path;
use nix::sys::signal::Signal;
use throstle_tests::{Project, send};

use super::machines::{Shared, another, first, run_with};

/// Another process seems to fetch this object: whoever wants it waits.
fn fetching(project: &Project, object: &Digest) -> Claim {
    let path = project.file(".throstle");
    let path = Utf8Path::from_path(&path).unwrap();
    let cache = Cache::open(path, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let right = Digest::of(&[b"incoming", &object.as_bytes()[..]].concat());
    cache.claim(&right).unwrap().unwrap()
}

fn large(shared: &Shared) -> (std::path::PathBuf, Digest) {
    let path = shared.files("objects").remove(0);
    let digest = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
    (path, digest)
}

/// Sends the signal and returns the exit code, and what was said.
fn ended(mut child: Child, signal: Signal) -> (Option<i32>, String) {
    send(child.id(), signal);
    let code = child.wait().unwrap().code();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (code, said)
}

#[test]
fn a_signal_pauses_a_pull_and_the_next_one_brings_the_rest() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let shared = Shared::new();
        let project = first(&shared);
        let other = another(&project);
        let claim = fetching(&other, &large(&shared).1);
        let pull = ["pull", "--remote", &shared.url()];
        let mut command = other.throstle(&pull);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // It is there from the beginning of the pull to its end.
        let (mark, begun) = (other.file(".throstle/LOSSES"), Instant::now());
        while !mark.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the pull never begins");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (code, said) = ended(child, signal);
        assert_eq!(code, Some(75), "{signal}: {said}");
        assert!(said.contains("stopped by a signal; run `throstle pull` to continue"), "{said}");
        drop(claim);
        other.printed(&pull);
        assert_eq!(run_with(&other, &["--remote", "none"]).executed(), [].into());
        assert_eq!(other.files("out"), project.files("out"));
    }
}

#[test]
fn a_signal_pauses_a_repair_and_the_next_one_does_the_rest() {
    let shared = Shared::new();
    let project = first(&shared);
    let (path, digest) = large(&shared);
    // A repair fetches an object with more bytes behind it.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    let other = another(&project);
    let claim = fetching(&other, &digest);
    let repair = ["remote", "verify", "--repair", "--remote", &shared.url()];
    let mut command = other.throstle(&repair);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("found 1 damaged file")));
    let (code, said) = ended(child, Signal::SIGTERM);
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("`throstle remote verify --repair` to continue"), "{said}");
    drop(claim);
    other.printed(&repair);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 2_000_000);
}

#[test]
fn odd_things_in_the_place_of_unfinished_objects_stop_no_pull() {
    let shared = Shared::new();
    let project = first(&shared);
    let name = large(&shared).1.to_string();
    for odd in ["file", "folder", "link"] {
        let other = another(&project);
        other.write(".throstle/x", "");
        std::fs::remove_file(other.file(".throstle/x")).unwrap();
        let incoming = other.file(".throstle/incoming");
        match odd {
            "file" => std::fs::write(&incoming, "x").unwrap(),
            "folder" => std::fs::create_dir_all(incoming.join(&name).join("inner")).unwrap(),
            _ => {
                std::fs::create_dir(&incoming).unwrap();
                std::os::unix::fs::symlink(&name, incoming.join(&name)).unwrap();
            }
        }
        let output = other.output(&["pull", "--remote", &shared.url()]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{odd}: {told}");
        assert!(told.contains("moved `") && told.contains("incoming"), "{odd}: {told}");
        assert_eq!(run_with(&other, &["--remote", "none"]).executed(), [].into(), "{odd}");
    }
}

#[test]
fn gc_finds_a_large_object_that_a_killed_pull_has_not_recorded() {
    let shared = Shared::new();
    let project = first(&shared);
    let bytes = vec![7; 2_000_000];
    let text = Digest::of(&bytes).to_string();
    let left = format!(".throstle/objects/{}/{}", &text[..2], &text[2..]);
    project.write(&left, bytes);
    let told = project.printed(&["cache", "gc"]);
    assert!(told.contains("left by a command that was killed: 1 large object"), "{told}");
    let told = project.printed(&["cache", "gc", "--yes", "--empty-trash"]);
    assert!(told.contains("removed 1 object ") && told.contains("2.0 MB of trash"), "{told}");
    assert!(!project.file(&left).exists());
}
