//! Bringing everything from a remote to a machine that has nothing: many small objects against one
//! large one from the same store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cache::fs::RealFs;
use cache::{Access, Cache, Digest, Table as Records};
use camino::Utf8Path;
use remote::{Fresh, Listed, Place, Push, Refusal, Remote, Rules, Settings};

use crate::arguments::Arguments;
use crate::clock::{medians_in_turn, timed};
use crate::table::{Table, milliseconds};

const ROUNDS: usize = 7;
const OBJECTS: usize = 10_000;
const SIZE: usize = 2_000;
const RULES: Rules = Rules { prefers: |_, _, _| false, takes: |_| true };

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let objects = arguments.scaled(OBJECTS);
    let small: Vec<Bytes> = (0..objects).map(|number| noise(number as u64, SIZE)).collect();
    let large = vec![noise(1 << 40, objects * SIZE)];
    for (store, at_once, request) in [
        ("a folder in memory", None, 0),
        ("a store of 200 MB/s and 10 ms a request", Some(200), 10),
    ] {
        let pull = |contents: &[Bytes]| {
            let place = Arc::new(Simulated {
                files: Mutex::default(),
                line: Mutex::new(()),
                megabytes: at_once,
                request: Duration::from_millis(request),
            });
            fill(&place, contents);
            timed(|| empty(&place, contents)).0
        };
        let (many, one) = medians_in_turn(ROUNDS, || pull(&small), || pull(&large));
        let ratio = one.as_secs_f64() / many.as_secs_f64();
        table.judged(
            &format!("cold pull of {objects} objects of 2 kB from {store}"),
            "at least 80 % of the rate of one object of the same size in all".into(),
            format!("{} against {}: {:.0} %", milliseconds(many), milliseconds(one), ratio * 100.0),
            ratio >= 0.8,
        );
    }
}

fn noise(seed: u64, size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes.into()
}

fn key() -> Digest {
    Digest::of(b"stage")
}

fn machine(place: &Arc<Simulated>) -> (tempfile::TempDir, Cache, Remote) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("cache");
    let cache = Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let address = "file:///simulated".parse().unwrap();
    let remote =
        Remote::at(Arc::clone(place) as _, address, Settings::default(), RULES, cache.clone());
    (folder, cache, remote)
}

fn fill(place: &Arc<Simulated>, contents: &[Bytes]) {
    let (_folder, cache, remote) = machine(place);
    let put = |bytes: &Bytes| (cache.put(bytes).unwrap(), bytes.len() as u64);
    let objects: Vec<(Digest, u64)> = contents.iter().map(put).collect();
    cache.commit().unwrap();
    let outcome = Fresh {
        key: key(),
        name: "stage".into(),
        table: Records(3),
        value: Bytes::from_static(b"outcome"),
        summary: key(),
        objects: objects.iter().map(|(digest, _)| *digest).collect(),
    };
    let (records, outcomes, logs) = (Vec::new(), vec![outcome], Vec::new());
    remote.push(Push { objects, records, outcomes, logs, progress: &|_, _| {} }).unwrap();
}

fn empty(place: &Arc<Simulated>, contents: &[Bytes]) {
    let (_folder, _cache, remote) = machine(place);
    remote.outcome(&key()).unwrap().unwrap();
    let wanted = remote.known_objects().unwrap();
    let (objects, _) = remote.pull(&wanted, &|_, _| {}).unwrap();
    assert_eq!(objects, contents.len() as u64);
}

/// A store in memory, on a line that all requests share.
#[derive(Debug)]
struct Simulated {
    files: Mutex<BTreeMap<String, Bytes>>,
    line: Mutex<()>,
    /// A second, if it is limited.
    megabytes: Option<u64>,
    /// The time to the first byte.
    request: Duration,
}

impl Simulated {
    fn wait(&self, bytes: usize) {
        std::thread::sleep(self.request);
        if let Some(megabytes) = self.megabytes {
            let _line = self.line.lock().unwrap();
            std::thread::sleep(Duration::from_nanos(bytes as u64 * 1_000 / megabytes));
        }
    }
}

impl Place for Simulated {
    fn get(&self, name: &str, _: u64) -> Result<Option<Bytes>, Refusal> {
        let found = self.files.lock().unwrap().get(name).cloned();
        self.wait(found.as_ref().map_or(0, Bytes::len));
        Ok(found)
    }

    fn part(&self, name: &str, offset: u64, length: u64) -> Result<Option<Bytes>, Refusal> {
        let Some(whole) = self.files.lock().unwrap().get(name).cloned() else { return Ok(None) };
        let end = ((offset + length) as usize).min(whole.len());
        self.wait(end - offset as usize);
        Ok(Some(whole.slice(offset as usize..end)))
    }

    fn put(&self, name: &str, bytes: Bytes) -> Result<bool, Refusal> {
        Ok(self.files.lock().unwrap().insert(name.to_owned(), bytes).is_none())
    }

    fn put_file(&self, name: &str, file: &Utf8Path) -> Result<(), Refusal> {
        self.put(name, std::fs::read(file).unwrap().into()).map(drop)
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Refusal> {
        Ok(self.files.lock().unwrap().get(name).map(|bytes| bytes.len() as u64))
    }

    fn list(&self, _: &str) -> Result<Vec<Listed>, Refusal> {
        Ok(Vec::new())
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
}
