//! Bringing everything from a remote to a machine that has nothing: many small objects against one
//! large one from the same store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cache::fs::RealFs;
use cache::{Access, Cache, Digest, Table as Records};
use camino::Utf8Path;
use remote::{Address, Fresh, ListedFile, Push, Refusal, Remote, Rules, Settings, Storage};

use crate::arguments::Arguments;
use crate::clock::{medians_in_turn, timed};
use crate::table::{Table, milliseconds};

const ROUNDS: usize = 7;
const OBJECTS: usize = 10_000;
const SIZE: usize = 2_000;
const RULES: Rules =
    Rules { prefers: |_, _, _| false, takes: |_| true, meaning: |_, _| None, is_scoped: |_| true };

/// Opens a store for a machine with this cache.
type Open = Box<dyn Fn(Cache) -> Remote>;

pub fn measure(arguments: &Arguments, table: &mut Table) {
    let folder = tempfile::tempdir_in(&arguments.folder).unwrap();
    let folder = format!("file://{}", folder.path().to_str().unwrap());
    measure_store("a folder", &|name| at(&folder, name), arguments, table);
    let line = "a store of 200 MB/s and 10 ms a request";
    measure_store(line, &|_| simulated(200, 10), arguments, table);
    let Some(url) = &arguments.remote else { return };
    let address: Address = url.parse().unwrap();
    if address.is_supported() {
        measure_store(url, &|name| at(url, name), arguments, table)
    } else {
        table.plain("cold pull", format!("`{url}` needs `--features cli/cloud`"))
    }
}

/// Each store that `make` makes is filled once.
fn measure_store(
    what: &str,
    make: &dyn Fn(&str) -> Open,
    arguments: &Arguments,
    table: &mut Table,
) {
    let objects = arguments.scaled(OBJECTS);
    let small: Vec<Bytes> = (0..objects).map(|number| noise(number as u64, SIZE)).collect();
    let large = vec![noise(1 << 40, objects * SIZE)];
    let stores = [make("small"), make("large")];
    fill(&stores[0], &small);
    fill(&stores[1], &large);
    let pull = |store: &Open, contents: &[Bytes]| timed(|| empty(store, contents)).0;
    let (many, one) =
        medians_in_turn(ROUNDS, || pull(&stores[0], &small), || pull(&stores[1], &large));
    let ratio = one.as_secs_f64() / many.as_secs_f64();
    table.judged(
        &format!("cold pull of {objects} objects of 2 kB from {what}"),
        "at least 80 % of the rate of one object of the same size in all".into(),
        format!("{} against {}: {:.0} %", milliseconds(many), milliseconds(one), ratio * 100.0),
        ratio >= 0.8,
    );
}

/// A new folder of this place.
fn at(url: &str, name: &str) -> Open {
    let own = format!("{name}-{}", std::process::id());
    let address: Address = format!("{}/{own}", url.trim_end_matches('/')).parse().unwrap();
    if let Some(folder) = address.folder() {
        std::fs::create_dir_all(folder).unwrap();
    }
    Box::new(move |cache| Remote::open(address.clone(), Settings::default(), RULES, cache).unwrap())
}

fn simulated(megabytes: u64, milliseconds: u64) -> Open {
    let place = Arc::new(Simulated {
        files: Mutex::default(),
        line: Mutex::new(()),
        megabytes,
        request: Duration::from_millis(milliseconds),
    });
    let address: Address = "file:///simulated".parse().unwrap();
    Box::new(move |cache| {
        Remote::at(Arc::clone(&place) as _, address.clone(), Settings::default(), RULES, cache)
    })
}

fn noise(seed: u64, size: usize) -> Bytes {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes.into()
}

fn key() -> Digest {
    Digest::of(b"stage")
}

fn machine(store: &Open) -> (tempfile::TempDir, Cache, Remote) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("cache");
    let cache = Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let remote = store(cache.clone());
    (folder, cache, remote)
}

fn fill(store: &Open, contents: &[Bytes]) {
    let (_folder, cache, remote) = machine(store);
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

fn empty(store: &Open, contents: &[Bytes]) {
    let (_folder, _cache, remote) = machine(store);
    remote.outcome(&key()).unwrap().unwrap();
    let wanted = remote.known_objects().unwrap();
    remote.pull(&wanted, &|_, _| {}).unwrap();
    assert_eq!(remote.brought().0, contents.len() as u64);
}

/// A store in memory, on a line that all requests share.
#[derive(Debug)]
struct Simulated {
    files: Mutex<BTreeMap<String, Bytes>>,
    line: Mutex<()>,
    /// A second.
    megabytes: u64,
    /// The time to the first byte.
    request: Duration,
}

impl Simulated {
    fn wait(&self, bytes: usize) {
        std::thread::sleep(self.request);
        let _line = self.line.lock().unwrap();
        std::thread::sleep(Duration::from_nanos(bytes as u64 * 1_000 / self.megabytes));
    }
}

impl Storage for Simulated {
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

    fn list(&self, _: &str) -> Result<Vec<ListedFile>, Refusal> {
        Ok(Vec::new())
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
}
