//! Pulls from a damaged pack in a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cache::fs::RealFs;
use cache::{Access, Cache, Digest, Table};
use camino::Utf8Path;
use remote::{Fresh, Push, Remote, Rules, Settings};

const OBJECTS: usize = 200;
const RULES: Rules =
    Rules { prefers: |_, _, _| false, takes: |_| true, meaning: |_, _| None, is_scoped: |_| true };

struct Machine {
    _folder: tempfile::TempDir,
    cache: Cache,
    remote: Remote,
}

fn machine(shared: &Path) -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("cache");
    let cache = Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let address = format!("file://{}", shared.display()).parse().unwrap();
    let remote = Remote::open(address, Settings::default(), RULES, cache.clone()).unwrap();
    Machine { _folder: folder, cache, remote }
}

fn key() -> Digest {
    Digest::of(b"stage")
}

fn contents() -> Vec<Vec<u8>> {
    (0..OBJECTS as u32).map(|number| number.to_le_bytes().repeat(100)).collect()
}

fn push(shared: &Path) {
    let Machine { _folder, cache, remote } = machine(shared);
    let put = |bytes: &Vec<u8>| (cache.put(bytes).unwrap(), bytes.len() as u64);
    let objects: Vec<(Digest, u64)> = contents().iter().map(put).collect();
    cache.commit().unwrap();
    let outcome = Fresh {
        key: key(),
        name: "stage".into(),
        table: Table(3),
        value: Bytes::from_static(b"outcome"),
        summary: key(),
        objects: objects.iter().map(|(digest, _)| *digest).collect(),
    };
    let (records, outcomes, logs) = (Vec::new(), vec![outcome], Vec::new());
    remote.push(Push { objects, records, outcomes, logs, progress: &|_, _| {} }).unwrap();
}

fn volume(shared: &Path) -> PathBuf {
    let pack = std::fs::read_dir(shared.join("packs")).unwrap().next().unwrap().unwrap();
    pack.path().join("volume-0001.pack")
}

/// The number of objects that a new machine gets, and whether a damaged file was named.
fn pulled(shared: &Path) -> (u64, bool) {
    let Machine { _folder, cache, remote } = machine(shared);
    remote.outcome(&key()).unwrap().unwrap();
    let wanted: Vec<Digest> = contents().iter().map(|bytes| Digest::of(bytes)).collect();
    remote.pull(&wanted, &|_, _| {}).unwrap();
    for (digest, bytes) in wanted.iter().zip(contents()) {
        if cache.contains(digest).unwrap() {
            assert_eq!(cache.read(digest).unwrap(), bytes);
        }
    }
    (remote.brought().0, remote.has_damaged())
}

#[test]
fn all_but_the_damaged_objects_of_a_pack_are_pulled() {
    let shared = tempfile::tempdir().unwrap();
    push(shared.path());
    assert_eq!(pulled(shared.path()), (OBJECTS as u64, false));
    let path = volume(shared.path());
    let whole = std::fs::read(&path).unwrap();
    for part in 1..30 {
        let mut damaged = whole.clone();
        let at = [whole.len() * part / 31, whole.len() / 2];
        at.iter().for_each(|at| damaged[*at] ^= 1);
        std::fs::write(&path, damaged).unwrap();
        let (objects, is_named) = pulled(shared.path());
        assert!(objects + 2 >= OBJECTS as u64 && is_named, "{at:?}: {objects}");
    }
}
