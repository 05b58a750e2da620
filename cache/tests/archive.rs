//! Archives: packed entries come back, in parts and after accidents.
#![allow(clippy::unwrap_used)]

use crate::common;

use cache::fs::{Fs, MemoryFs, Open};
use cache::{CacheError, Digest};
use camino::Utf8PathBuf;
use common::archive::*;
use common::open;

#[test]
fn what_is_packed_comes_back_whole_over_several_volumes() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    let packed = pack_to(&cache, "/a", &[]).unwrap();
    assert_eq!((packed.objects, packed.records, packed.volumes), (21, 21, 2));
    let sizes = fs.read_dir("/a".into()).unwrap();
    let size = |name: &str| fs.metadata(&Utf8PathBuf::from("/a").join(name)).unwrap().size;
    assert!(sizes.iter().all(|file| size(&file.name) <= VOLUME));
    let other = elsewhere(&fs);
    let taken = unpack_into(&other, &["/a"]).unwrap();
    assert_eq!((taken.objects, taken.records, taken.bytes), (21, 21, packed.bytes));
    assert!(taken.damages.is_empty() && taken.without_base.is_empty());
    assert!(!other.has_losses());
    drop(other);
    let other = elsewhere(&fs);
    assert_has(&other, 1);
    assert_sound(&other);
    let again = unpack_into(&other, &["/a"]).unwrap();
    assert_eq!((again.objects, again.records), (0, 0));
}

#[test]
fn an_overlay_has_what_the_base_has_not_and_comes_back_over_it() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    pack_to(&cache, "/base", &[]).unwrap();
    fill(&cache, 2);
    let changed = Digest::of(&large(1));
    cache.record(RECORDS, &changed, vec![9]).unwrap();
    cache.commit().unwrap();
    let overlay = pack_to(&cache, "/overlay", &["/base"]).unwrap();
    assert_eq!((overlay.objects, overlay.records, overlay.in_bases), (21, 22, 41));
    let other = elsewhere(&fs);
    let alone = unpack_into(&other, &["/overlay"]).unwrap();
    assert_eq!(alone.without_base, ["/overlay"]);
    assert!(other.has_losses(), "records may speak of what only the base has");
    let both = unpack_into(&other, &["/base", "/overlay"]).unwrap();
    assert!(both.without_base.is_empty() && both.damages.is_empty());
    assert_eq!(other.get(RECORDS, &changed).unwrap().unwrap(), [9][..]);
    assert_has(&other, 2);
    assert_eq!(other.read(&changed).unwrap(), large(1));
}

#[test]
fn of_two_values_the_preferred_one_stays() {
    let fs = MemoryFs::new();
    let (cache, other) = (open(&fs), elsewhere(&fs));
    let keys = [Digest::of(b"a"), Digest::of(b"b")];
    for (cache, values) in [(&cache, [1u8, 5]), (&other, [2, 4])] {
        for (key, value) in keys.iter().zip(values) {
            cache.record(RECORDS, key, vec![value]).unwrap();
        }
        cache.commit().unwrap();
    }
    pack_to(&cache, "/a", &[]).unwrap();
    assert_eq!(unpack_into(&other, &["/a"]).unwrap().records, 1);
    let values = other.get_many(RECORDS, &keys).unwrap();
    assert_eq!(values, [vec![2], vec![5]].map(|value| Some(value.into())));
}

#[test]
fn a_flipped_bit_anywhere_is_named_and_costs_one_entry() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    pack_to(&cache, "/a", &[]).unwrap();
    for (path, step) in [("/a/volume-0001.pack", 1_211_953), ("/a/volume-0002.pack", 421_949)] {
        let size = fs.metadata(path.into()).unwrap().size;
        for at in (16..size).step_by(step).chain([size - 1]) {
            flip(&fs, path, at);
            let memory = MemoryFs::new();
            let other = elsewhere(&memory);
            // The archive is on another file system than the cache unpacked from it.
            for file in fs.read_dir("/a".into()).unwrap() {
                memory.create_dir_all("/a".into()).unwrap();
                let path: Utf8PathBuf = format!("/a/{}", file.name).into();
                memory.write_new(&path, &fs.read(&path).unwrap()).unwrap();
            }
            let taken = unpack_into(&other, &["/a"]).unwrap();
            let named = taken.damages.iter().any(|damage| damage.path == path);
            assert!(named, "{path} at {at}: {:?}", taken.damages);
            assert!(taken.objects + taken.records >= 41, "{path} at {at}: {taken:?}");
            assert!(other.has_losses());
            assert_sound(&other);
            flip(&fs, path, at);
        }
    }
}

#[test]
fn a_missing_or_short_volume_is_named_and_the_rest_comes_in() {
    for is_missing in [true, false] {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        fill(&cache, 1);
        pack_to(&cache, "/a", &[]).unwrap();
        let path = "/a/volume-0002.pack";
        if is_missing {
            fs.remove_file(path.into()).unwrap()
        } else {
            fs.open(path.into(), Open::ReadWrite).unwrap().set_len(1000).unwrap()
        }
        let other = elsewhere(&fs);
        let taken = unpack_into(&other, &["/a"]).unwrap();
        let named: Vec<&str> = taken.damages.iter().map(|damage| damage.path.as_str()).collect();
        assert_eq!(named, [path]);
        // Only the first piece of the large object is there.
        assert_eq!((taken.objects, other.contains(&Digest::of(&large(1))).unwrap()), (20, false));
        assert_sound(&other);
    }
}

#[test]
fn a_record_that_was_forgotten_is_no_damage() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill_small(&cache, 1);
    cache.forget(RECORDS, &Digest::of(b"small 1 0")).unwrap();
    cache.commit().unwrap();
    let packed = pack_to(&cache, "/a", &[]).unwrap();
    assert_eq!((packed.records, packed.damaged), (19, vec![]));
    assert!(unpack_into(&elsewhere(&fs), &["/a"]).unwrap().damages.is_empty());
}

#[test]
fn what_is_damaged_in_the_cache_is_named_and_left_out() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    let object = Digest::of(&large(1));
    flip(&fs, cache.file_of(&object).unwrap().unwrap().as_str(), 2 << 20);
    let packed = pack_to(&cache, "/a", &[]).unwrap();
    assert_eq!((packed.objects, packed.damaged), (20, vec![object]));
    let other = elsewhere(&fs);
    assert!(unpack_into(&other, &["/a"]).unwrap().damages.is_empty());
    assert!(!other.contains(&object).unwrap());
    assert!(other.has_losses(), "its record is not believed");
}

#[test]
fn a_folder_without_a_whole_archive_is_refused_and_so_is_one_that_has_one() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    let refused = |result: Result<(), CacheError>| {
        let is_told = |error: &CacheError| {
            matches!(error, CacheError::Archive { .. } | CacheError::DamagedArchive { .. })
        };
        assert!(result.as_ref().is_err_and(is_told), "{result:?}");
    };
    refused(unpack_into(&cache, &["/nowhere"]).map(drop));
    refused(pack_to(&cache, "/a", &["/nowhere"]).map(drop));
    pack_to(&cache, "/a", &[]).unwrap();
    refused(pack_to(&cache, "/a", &[]).map(drop));
    flip(&fs, "/a/ARCHIVE", 40);
    refused(unpack_into(&cache, &["/a"]).map(drop));
    assert!(!cache.has_losses(), "nothing was begun");
}

/// Cuts the power after every sync of the packing.
#[test]
fn a_torn_archive_is_never_believed_and_is_written_again() {
    for cut in 0.. {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        fill(&cache, 1);
        fs.stop_after(cut);
        if pack_to(&cache, "/a", &[]).is_ok() {
            assert!(cut > 4, "only {cut} syncs were seen");
            return;
        }
        let fs = fs.crash();
        let cache = open(&fs);
        if unpack_into(&elsewhere(&fs), &["/a"]).is_err() {
            pack_to(&cache, "/a", &[]).unwrap();
        }
        let other = elsewhere(&fs);
        assert!(unpack_into(&other, &["/a"]).unwrap().damages.is_empty(), "cut {cut}");
        assert_has(&other, 1);
    }
}

/// Cuts the power after every sync of the unpacking.
#[test]
fn an_unpacking_that_was_cut_off_is_known_to_have_losses_and_is_done_again() {
    for cut in 0.. {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        fill(&cache, 1);
        pack_to(&cache, "/base", &[]).unwrap();
        fill(&cache, 2);
        pack_to(&cache, "/overlay", &["/base"]).unwrap();
        let other = elsewhere(&fs);
        fs.stop_after(cut);
        let taken = unpack_into(&other, &["/base", "/overlay"]);
        if taken.is_ok_and(|taken| taken.damages.is_empty()) {
            assert!(cut > 6, "only {cut} syncs were seen");
            return;
        }
        let fs = fs.crash();
        let other = elsewhere(&fs);
        let objects: Vec<Digest> =
            other.scan(RECORDS).unwrap().into_iter().map(|(key, _)| key).collect();
        let are_there = other.contains_all(&objects).unwrap().iter().all(|there| *there);
        assert!(are_there || other.has_losses(), "cut {cut}: dangling records");
        unpack_into(&other, &["/base", "/overlay"]).unwrap();
        assert_has(&other, 1);
        assert_has(&other, 2);
    }
}
