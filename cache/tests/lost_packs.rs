//! Packs that are gone, and numbers that are used once.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use cache::{Access, Cache, Digest, Table, VerifyOptions};
use camino::Utf8PathBuf;
use common::{DIR, open, reopen};

const SHORT: Table = Table(1);
const LONG: Table = Table(2);
const READING: VerifyOptions = VerifyOptions { repair: false, read_data: true };

fn pack(number: u32) -> Utf8PathBuf {
    format!("{DIR}/packs/{number:06}.pack").into()
}

fn packs(fs: &MemoryFs) -> Vec<String> {
    let entries = fs.read_dir(format!("{DIR}/packs").as_str().into()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// Objects, with short and long records about them.
fn fill(cache: &Cache, seed: u8) -> Vec<Digest> {
    let objects: Vec<Digest> =
        (0..50).map(|number| cache.put(&[seed, number, 7, 7]).unwrap()).collect();
    for object in &objects {
        cache.record(SHORT, object, vec![seed; 10]).unwrap();
        cache.record(LONG, object, vec![seed; 3000]).unwrap();
    }
    cache.commit().unwrap();
    objects
}

#[test]
fn a_lost_pack_is_told_as_one_and_leaves_no_damage_behind() {
    for read_data in [true, false] {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        let objects = fill(&cache, 1);
        drop(cache);
        let lost = fs.read(&pack(1)).unwrap();
        fs.remove_file(&pack(1)).unwrap();
        let reader = Cache::open(DIR.into(), Arc::new(fs.clone()), Access::ReadOnly).unwrap();
        let options = VerifyOptions { repair: false, read_data };
        let found = reader.verify(options, &|_, _| {}).unwrap();
        let [damage] = &found.damages[..] else { panic!("{:?}", found.damages) };
        assert_eq!(damage.path, pack(1));
        assert_eq!(damage.what, "the pack is gone, with 50 objects and 100 records in it");

        let cache = open(&fs);
        let notes = cache.notes();
        assert!(notes.len() == 1 && notes[0].contains("000001.pack"), "{notes:?}");
        assert!(cache.has_losses());
        assert_eq!(cache.contains_all(&objects).unwrap(), [false; 50]);
        for object in &objects {
            assert_eq!(cache.get(SHORT, object).unwrap().unwrap(), vec![1; 10]);
            assert!(cache.get(LONG, object).unwrap().is_none());
        }
        assert!(cache.verify(options, &|_, _| {}).unwrap().is_clean());
        fill(&cache, 2);
        let cache = reopen(&fs, cache);
        assert_eq!(cache.notes(), [""; 0]);
        assert!(cache.verify(options, &|_, _| {}).unwrap().is_clean());
        cache.rebuild_index().unwrap();
        assert_eq!(cache.get(SHORT, &objects[0]).unwrap().unwrap(), vec![1; 10], "it was logged");
        assert_eq!(packs(&fs), ["000002.pack"]);
        drop(cache);

        // The pack is found again.
        fs.write_new(&pack(1), &lost).unwrap();
        let cache = open(&fs);
        assert_eq!(cache.contains_all(&objects).unwrap(), [true; 50]);
        assert!(cache.verify(READING, &|_, _| {}).unwrap().is_clean());
    }
}

#[test]
fn the_number_of_a_pack_is_never_used_again() {
    let fs = MemoryFs::new();
    for number in 1..6 {
        let cache = open(&fs);
        fill(&cache, number);
        drop(cache);
        assert_eq!(packs(&fs), [format!("{number:06}.pack")]);
        fs.remove_file(&pack(number.into())).unwrap();
        // Without the index nothing in it knows the number.
        fs.remove_file(format!("{DIR}/ledger.redb").as_str().into()).unwrap();
    }
}

#[test]
fn a_pack_that_is_removed_while_it_is_written_is_written_no_more() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    fs.remove_file(&pack(1)).unwrap();
    let objects = fill(&cache, 2);
    assert_eq!(packs(&fs), ["000002.pack"]);
    let cache = reopen(&fs, cache);
    assert_eq!(cache.contains_all(&objects).unwrap(), [true; 50]);
}
