//! Measures what the cache costs: putting, committing, looking up, opening, and
//! checking a stat index, beside the bare cost of the same on this machine.
//!
//! `cargo run --release -p cache --example costs [folder]`
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use cache::fs::{CountingFs, Fs, RealFs};
use cache::stat::{StatIndex, check, hash_file};
use cache::{Access, Cache, Digest, Table};
use camino::{Utf8Path, Utf8PathBuf};

const TABLE: Table = Table(1);
const OBJECTS: u32 = 100_000;

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = work();
    println!("{what:<52} {:>10.2} ms", start.elapsed().as_secs_f64() * 1000.0);
    value
}

fn open(dir: &Utf8Path) -> Cache {
    Cache::open(dir, Arc::new(RealFs), Access::ReadWrite).unwrap()
}

fn main() {
    let guard = match std::env::args().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let base = Utf8PathBuf::from_path_buf(guard.path().to_owned()).unwrap();
    store(&base.join("cache"));
    stat(&base);
}

fn store(dir: &Utf8Path) {
    let cache = timed("make an empty cache", || open(dir));
    timed("commit one object of 2 KB", || {
        cache.put(&[1; 2000]).unwrap();
        cache.commit().unwrap();
    });
    let mut keys = Vec::new();
    timed("put 100,000 objects of 2 KB with records, commits of 10,000", || {
        for number in 0..OBJECTS {
            let mut bytes = number.to_le_bytes().repeat(500);
            bytes[0] ^= 1;
            let digest = cache.put(&bytes).unwrap();
            cache.record(TABLE, &digest, vec![0; 100]).unwrap();
            keys.push(digest);
            if number % 10_000 == 9_999 {
                cache.commit().unwrap();
            }
        }
    });
    let stats = cache.stats().unwrap();
    let (packs, index) = (stats.pack_bytes, stats.index_bytes);
    println!("  objects {} bytes, packs {packs}, index {index}", stats.object_bytes);
    timed("commit one more object", || {
        cache.put(&[2; 2000]).unwrap();
        cache.commit().unwrap();
    });
    timed("look 10,000 records up, first time", || {
        cache.get_many(TABLE, &keys[..10_000]).unwrap();
    });
    timed("look 10,000 records up again", || {
        cache.get_many(TABLE, &keys[..10_000]).unwrap();
    });
    timed("contains, 10,000 objects at once", || cache.contains_all(&keys[..10_000]).unwrap());
    timed("contains, 10,000 objects one by one", || {
        keys[..10_000].iter().for_each(|key| _ = cache.contains(key).unwrap());
    });
    timed("read 10,000 objects", || {
        keys[..10_000].iter().for_each(|key| _ = cache.read(key).unwrap());
    });
    drop(cache);
    timed("open and look 10 records up", || open(dir).get_many(TABLE, &keys[..10]).unwrap());
    let counting = Arc::new(CountingFs::new(Arc::new(RealFs)));
    let cache = Cache::open(dir, Arc::clone(&counting) as Arc<dyn Fs>, Access::ReadWrite).unwrap();
    cache.get_many(TABLE, &keys[..10]).unwrap();
    println!("  operations: {:?}", counting.counts());
    counting.reset();
    cache.put(&[3; 2000]).unwrap();
    cache.commit().unwrap();
    println!("  operations of a commit: {:?}", counting.counts());
    timed("tidy the index", || cache.tidy().unwrap());
    println!("  index {} bytes", cache.stats().unwrap().index_bytes);
    timed("build the index anew", || cache.rebuild_index().unwrap());
}

fn stat(base: &Utf8Path) {
    let mut names = Vec::new();
    for number in 0..100_000u32 {
        let name = format!("speaker-{:03}/{number:06}.wav", number / 1000);
        let path = base.join(&name);
        if number % 1000 == 0 {
            std::fs::create_dir(path.parent().unwrap()).unwrap();
        }
        std::fs::write(path, number.to_le_bytes()).unwrap();
        names.push(name);
    }
    let mut entries = Vec::new();
    timed("hash 100,000 files of 4 bytes", || {
        for name in &names {
            let (_, mut entry) = hash_file(&RealFs, &base.join(name)).unwrap();
            entry.path.clone_from(name);
            entry.hashed_ns += 3_600_000_000_000;
            entries.push(entry);
        }
    });
    let cache = open(&base.join("cache"));
    let key = Digest::of(b"clips");
    let mut index = StatIndex::default();
    index.put_section(key, entries);
    timed("save the stat index", || index.save(&cache).unwrap());
    for _ in 0..3 {
        timed("bare: two threads, one stat a file", || bare(base, &names));
        timed("load the stat index and check 100,000 files", || {
            let index = StatIndex::load(&cache).unwrap();
            assert!(check(base, index.section(&key).unwrap(), 2).is_empty());
        });
    }
}

fn bare(base: &Utf8Path, names: &[String]) {
    std::thread::scope(|scope| {
        for half in names.chunks(names.len() / 2) {
            scope.spawn(move || {
                half.iter().for_each(|name| _ = std::fs::metadata(base.join(name)).unwrap());
            });
        }
    });
}
