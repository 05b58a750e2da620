//! Missing packs, and pack numbers that are used only once.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::sync::Arc;

use cache::fs::{Fs, MemoryFs};
use cache::{Access, Cache, Digest, Table, VerifyOptions};
use camino::Utf8PathBuf;
use common::{DIR, open, reopen};

const SHORT: Table = Table(1);
const LONG: Table = Table(2);
/// The bytes of the entry of an object in a file of its own.
const NOTE: usize = 64;
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
        assert_eq!(damage.what, "the pack is missing: lost 50 objects and 100 records");

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

        // The pack comes back.
        fs.write_new(&pack(1), &lost).unwrap();
        let cache = open(&fs);
        assert_eq!(cache.contains_all(&objects).unwrap(), [true; 50]);
        assert!(cache.verify(READING, &|_, _| {}).unwrap().is_clean());
    }
}

#[test]
fn a_pack_that_is_cut_off_is_told_as_one_and_leaves_no_damage_behind() {
    let whole = MemoryFs::new();
    let cache = open(&whole);
    let objects = fill(&cache, 1);
    let large = vec![9; cache::LOOSE_SIZE as usize];
    let loose = cache.put(&large).unwrap();
    cache.commit().unwrap();
    drop(cache);
    let bytes = whole.read(&pack(1)).unwrap();
    for length in (0..bytes.len()).step_by(bytes.len() / 60).chain([bytes.len() - 1]) {
        let fs = whole.duplicate();
        fs.overwrite(&pack(1), &bytes[..length]).unwrap();
        let place = format!("cut to {length} of {}", bytes.len());
        for read_data in [true, false] {
            let reader = Cache::open(DIR.into(), Arc::new(fs.clone()), Access::ReadOnly).unwrap();
            let options = VerifyOptions { repair: false, read_data };
            let found = reader.verify(options, &|_, _| {}).unwrap();
            // The last entry is that of the large object, which the index does not need any more.
            let cuts_note_only = length + NOTE > bytes.len();
            assert_eq!(found.damages.len(), usize::from(!cuts_note_only), "{place}: {found:?}");
            let is_told = |what: &str| what.starts_with("the pack is truncated: ");
            assert!(found.damages.iter().all(|damage| is_told(&damage.what)), "{place}: {found:?}");
        }
        let cache = open(&fs);
        let notes = cache.notes();
        assert!(notes.iter().all(|note| note.contains("000001.pack`: the pack is truncated: ")));
        assert!(cache.verify(READING, &|_, _| {}).unwrap().is_clean(), "{place}");
        for (object, is_there) in objects.iter().zip(cache.contains_all(&objects).unwrap()) {
            assert_eq!(cache.read(object).is_ok(), is_there, "{place}");
            assert_eq!(cache.get(SHORT, object).unwrap().unwrap(), vec![1; 10], "{place}");
        }
        // Entries written from here on are found in every way.
        let again = fill(&cache, 1);
        let cache = reopen(&fs, cache);
        assert_eq!(cache.notes(), [""; 0], "{place}");
        assert!(cache.verify(READING, &|_, _| {}).unwrap().is_clean(), "{place}");
        for rebuild in [false, true] {
            if rebuild {
                cache.rebuild_index().unwrap();
            }
            for object in &again {
                assert!(cache.read(object).is_ok(), "{place}");
                assert_eq!(cache.get(LONG, object).unwrap().unwrap(), vec![1; 3000], "{place}");
            }
            assert_eq!(cache.read(&loose).unwrap(), large, "{place}");
        }
    }
}

#[test]
fn a_pack_that_is_cut_off_while_another_process_writes_it_is_left_alone() {
    let fs = MemoryFs::new();
    let writer = open(&fs);
    let objects = fill(&writer, 1);
    let bytes = fs.read(&pack(1)).unwrap();
    // Half of the objects, which come before the records.
    fs.overwrite(&pack(1), &bytes[..25 * 52]).unwrap();
    let beside = open(&fs);
    let there = beside.contains_all(&objects).unwrap();
    assert!(there.iter().any(|there| *there) && there.iter().any(|there| !there));
    fill(&beside, 2);
    drop((writer, beside));
    let cache = open(&fs);
    assert!(cache.verify(READING, &|_, _| {}).unwrap().is_clean());
    assert_eq!(cache.contains_all(&objects).unwrap(), there);
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
        // Without the index, no record has the number.
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
