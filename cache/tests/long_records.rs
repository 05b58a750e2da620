//! Records of any length: they are stored in parts, which are kept as long as the record.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use cache::fs::MemoryFs;
use cache::{Access, Archiving, Cache, Digest, Kept, Table, VerifyOptions};
use common::archive::unpack_into;
use common::{open, reopen};

const TABLE: Table = Table(3);

/// The list of a million items: longer than any entry of a pack may be.
const LENGTH: usize = 70 << 20;

fn lines(length: usize, seed: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 40);
    for line in 0.. {
        bytes.extend_from_slice(format!("clip-{seed}-{line:08}: no such file\n").as_bytes());
        if bytes.len() >= length {
            bytes.truncate(length);
            return bytes;
        }
    }
    bytes
}

fn key(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn assert_has(cache: &Cache, name: &str, value: &[u8]) {
    let found = cache.get(TABLE, &key(name)).unwrap().unwrap();
    assert!(found == value, "{name}: {} bytes in place of {}", found.len(), value.len());
    let many = cache.get_many(TABLE, &[key(name), key("none")]).unwrap();
    assert!(many[0].as_deref() == Some(value) && many[1].is_none());
    assert!(
        cache.scan(TABLE).unwrap().iter().any(|(own, found)| *own == key(name) && found == value)
    );
}

#[test]
fn a_record_may_be_longer_than_an_entry() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let value = lines(LENGTH, 1);
    cache.record(TABLE, &key("a"), value.clone()).unwrap();
    assert_has(&cache, "a", &value);
    cache.commit().unwrap();
    let cache = reopen(&fs, cache);
    assert_has(&cache, "a", &value);
    cache.rebuild_index().unwrap();
    assert_has(&cache, "a", &value);
    let options = VerifyOptions { repair: false, read_data: true };
    assert!(cache.verify(options, &|_, _| {}).unwrap().is_clean());
}

#[test]
fn a_change_in_the_middle_writes_few_bytes() {
    let cache = open(&MemoryFs::new());
    let mut value = lines(20 << 20, 1);
    cache.record(TABLE, &key("a"), value.clone()).unwrap();
    cache.commit().unwrap();
    let before = cache.stats().unwrap().pack_bytes;
    value.splice(7_000_000..7_000_000, *b"clip-new: no such file\n");
    cache.record(TABLE, &key("a"), value.clone()).unwrap();
    cache.commit().unwrap();
    assert_has(&cache, "a", &value);
    let written = cache.stats().unwrap().pack_bytes - before;
    assert!(written < 3 << 20, "{written} bytes were written");
}

#[test]
fn the_parts_are_swept_with_their_record_and_not_before() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let value = lines(5 << 20, 1);
    for name in ["kept", "gone"] {
        let value = if name == "kept" { value.clone() } else { lines(5 << 20, 2) };
        cache.record(TABLE, &key(name), value).unwrap();
    }
    cache.commit().unwrap();
    let is_live = |_: Table, own: &Digest, _: &[u8]| *own == key("kept");
    let plan = cache.sweep_plan(&|_| false, &is_live).unwrap();
    cache.sweep(plan).unwrap();
    let cache = reopen(&fs, cache);
    assert_has(&cache, "kept", &value);
    assert!(cache.get(TABLE, &key("gone")).unwrap().is_none());
    let parts = cache.stats().unwrap().objects;
    assert!((5..60).contains(&parts), "{parts}");
    cache.restore_trash().unwrap();
    assert_has(&cache, "gone", &lines(5 << 20, 2));
    cache.sweep(cache.sweep_plan(&|_| false, &|_, _, _| false).unwrap()).unwrap();
    cache.empty_trash(Duration::ZERO).unwrap();
    assert_eq!(cache.stats().unwrap().objects, 0);
}

#[test]
fn a_record_without_one_of_its_parts_is_none() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    cache.record(TABLE, &key("a"), lines(5 << 20, 1)).unwrap();
    cache.commit().unwrap();
    // The parts are ordinary objects: here they are lost.
    let plan = cache.sweep_plan(&|_| false, &|_, _, _| true).unwrap();
    assert_eq!(plan.objects().count(), 0);
    let (path, mut bytes) =
        fs.files().into_iter().find(|(path, _)| path.extension() == Some("pack")).unwrap();
    bytes[2 << 20] ^= 1;
    drop(cache);
    fs.overwrite(&path, &bytes).unwrap();
    let cache = open(&fs);
    assert!(cache.get(TABLE, &key("a")).unwrap().is_none());
    cache.record(TABLE, &key("a"), lines(5 << 20, 1)).unwrap();
    cache.commit().unwrap();
    assert_has(&reopen(&fs, cache), "a", &lines(5 << 20, 1));
}

#[test]
fn an_archive_has_the_parts_of_what_it_keeps() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let value = lines(5 << 20, 1);
    cache.record(TABLE, &key("a"), value.clone()).unwrap();
    cache.commit().unwrap();
    let kept = Kept { object: &|_| false, record: &|_, _| true };
    let (folder, volume_bytes) = ("/a".into(), 1 << 20);
    let how = Archiving { folder, bases: &[], volume_bytes, progress: &|_, _| {} };
    cache.archive(&kept, &how).unwrap();
    let other = Cache::open("/other".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap();
    let taken = unpack_into(&other, &["/a"]).unwrap();
    assert!(taken.damages.is_empty() && taken.records == 1, "{taken:?}");
    assert_has(&other, "a", &value);
}
