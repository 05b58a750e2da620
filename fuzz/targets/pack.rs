//! Any bytes as a pack in a cache that has lost its index: it opens, serves nothing that fails
//! its digest, and takes in new objects.
#![no_main]

use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use cache::{Access, Cache, Digest};
use camino::Utf8Path;
use libfuzzer_sys::fuzz_target;

const FOLDER: &str = "/cache";

fuzz_target!(|bytes: &[u8]| {
    let fs = MemoryFs::new();
    drop(open(&fs));
    let pack = Utf8Path::new(FOLDER).join("packs/000001.pack");
    fs.write_new(&pack, bytes).unwrap();
    let cache = open(&fs);
    let digest = cache.put(b"new").unwrap();
    cache.commit().unwrap();
    assert_eq!(open(&fs).read(&digest).unwrap(), &b"new"[..]);
    if let Ok(found) = cache.read(&Digest::of(b"old")) {
        assert_eq!(found, &b"old"[..]);
    }
});

fn open(fs: &MemoryFs) -> Cache {
    Cache::open(FOLDER.into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap()
}
