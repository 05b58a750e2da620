//! Work that uses most of the cache, and the conditions that hold after an interruption anywhere.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use cache::{Access, Cache, CacheError, Digest, LOOSE_SIZE, Table, VerifyOptions};

use super::DIR;

pub const RESULTS: Table = Table(1);
pub const LATEST: Table = Table(2);
pub const ROUNDS: u8 = 3;

/// The promises of past commits.
#[derive(Debug, Default, Clone)]
pub struct Promised {
    pub objects: Vec<Digest>,
    pub results: Vec<(Digest, Vec<u8>)>,
    /// The last round with a finished commit.
    pub round: u8,
}

pub fn small(round: u8, item: u8) -> Vec<u8> {
    let mut bytes = vec![round; 700 + usize::from(item)];
    bytes[0] = item;
    bytes
}

pub fn large() -> Vec<u8> {
    vec![0xab; LOOSE_SIZE as usize]
}

/// Each round puts objects, records which item made which, and commits.
pub fn work(fs: Arc<dyn Fs>, promised: &mut Promised) -> Result<(), CacheError> {
    for round in 1..=ROUNDS {
        // Opened anew each time, as by the next run.
        let cache = Cache::open(DIR.into(), Arc::clone(&fs), Access::ReadWrite)?;
        let mut made = Promised::default();
        for item in 0..4 {
            let digest = cache.put(&small(round, item))?;
            let key = Digest::of(&[round, item]);
            cache.record(RESULTS, &key, digest.as_bytes().to_vec())?;
            made.objects.push(digest);
            made.results.push((key, digest.as_bytes().to_vec()));
        }
        if round == 2 {
            let digest = cache.put(&large())?;
            let key = Digest::of(b"large");
            cache.record(RESULTS, &key, digest.as_bytes().to_vec())?;
            made.objects.push(digest);
            made.results.push((key, digest.as_bytes().to_vec()));
        }
        cache.record(LATEST, &Digest::of(b"round"), vec![round; 2000])?;
        cache.commit()?;
        promised.objects.extend(made.objects);
        promised.results.extend(made.results);
        promised.round = promised.round.max(round);
    }
    Ok(())
}

/// Opens the cache after an interruption and checks every promise.
pub fn check(fs: &MemoryFs, promised: &Promised, place: &str) {
    let cache = Cache::open(DIR.into(), Arc::new(fs.clone()), Access::ReadWrite)
        .unwrap_or_else(|error| panic!("{place}: cannot open: {error}: {error:?}"));
    for digest in &promised.objects {
        let read = cache.read(digest);
        assert!(read.is_ok(), "{place}: a committed object is lost: {read:?}");
    }
    for (key, value) in &promised.results {
        let found = cache.get(RESULTS, key).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]), "{place}: a committed record is lost");
    }
    for (_, value) in cache.scan(RESULTS).unwrap() {
        let digest = Digest::from_bytes(value[..].try_into().unwrap());
        assert!(cache.read(&digest).is_ok(), "{place}: a record without its object");
    }
    let latest = cache.get(LATEST, &Digest::of(b"round")).unwrap();
    let latest = latest.map_or(0, |value| value[0]);
    assert!(latest >= promised.round, "{place}: round {latest} after {}", promised.round);
    let report =
        cache.verify(VerifyOptions { repair: false, read_data: true }, &|_, _| ()).unwrap();
    assert!(report.is_clean(), "{place}: {:?}", report.damages);
}

/// Repeats the work and compares with the result of an undisturbed run.
pub fn finish(fs: &MemoryFs, place: &str) {
    let again = work(Arc::new(fs.clone()), &mut Promised::default());
    assert!(again.is_ok(), "{place}: the next run fails: {again:?}");
    let undisturbed = MemoryFs::new();
    work(Arc::new(undisturbed.clone()), &mut Promised::default()).unwrap();
    assert_eq!(contents(fs), contents(&undisturbed), "{place}: the outcome differs");
    let names: Vec<_> = fs.files().into_iter().map(|(path, _)| path).collect();
    let left = names.iter().find(|path| path.as_str().contains("/staging/"));
    assert_eq!(left, None, "{place}: something stayed in staging");
}

/// All records with the bytes of their objects.
pub fn contents(fs: &MemoryFs) -> BTreeMap<(u8, Digest), Vec<u8>> {
    let cache = Cache::open(DIR.into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap();
    let mut contents = BTreeMap::new();
    for (key, value) in cache.scan(RESULTS).unwrap() {
        let digest = Digest::from_bytes(value[..].try_into().unwrap());
        contents.insert((1, key), cache.read(&digest).unwrap().to_vec());
    }
    for (key, value) in cache.scan(LATEST).unwrap() {
        contents.insert((2, key), value.to_vec());
    }
    contents
}
