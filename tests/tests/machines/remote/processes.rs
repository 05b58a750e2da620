//! Processes of one machine: what one of them learns about the remote, the others know.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cache::fs::RealFs;
use cache::{Access, Cache, Digest, Table};
use camino::Utf8Path;
use remote::{Fresh, Push};

use super::store::{Memory, remote};

fn cache(folder: &Path) -> Cache {
    let path = Utf8Path::from_path(folder).unwrap().join("cache");
    Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap()
}

#[test]
fn objects_that_another_process_has_found_in_the_remote_are_known_and_are_fetched() {
    let memory = Arc::new(Memory::default());
    let (here, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = (cache(here.path()), cache(here.path()));
    let (finder, waiting) = (remote(&memory, false, &one), remote(&memory, false, &two));
    let digest = Digest::of(b"object");
    assert_eq!(waiting.knows(&[digest]).unwrap(), [false]);

    // Another machine writes an outcome, and one process of this machine reads it.
    let other = cache(elsewhere.path());
    other.put(b"object").unwrap();
    other.commit().unwrap();
    let key = Digest::of(b"key");
    let outcome = Fresh {
        key,
        name: "stage".into(),
        table: Table(3),
        value: Bytes::from_static(b"outcome"),
        summary: key,
        objects: vec![digest],
    };
    let objects = vec![(digest, 6)];
    let push = Push { objects, outcomes: vec![outcome], ..Push::nothing() };
    remote(&memory, false, &other).push(push).unwrap();
    assert!(finder.look_up(&key).unwrap().is_some());
    assert_eq!(waiting.knows(&[digest]).unwrap(), [false], "nothing is committed yet");

    one.commit().unwrap();
    let requests = waiting.requests();
    assert_eq!(waiting.knows(&[digest]).unwrap(), [true]);
    assert_eq!(waiting.requests(), requests);
    assert!(waiting.bring(&digest).unwrap());
    assert_eq!(two.read(&digest).unwrap(), "object");
}
