//! Archives that others change meanwhile, invalid archives, and full disks.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::sync::Arc;

use cache::fs::fault::ENOSPC;
use cache::fs::{Fault, FaultFs, Fs, LockKind, MemoryFs, Open};
use cache::{Access, Cache, CacheError, Digest};
use common::archive::*;
use common::{open, open_over};

/// The reason that an archive is refused for.
fn reason<T: std::fmt::Debug>(result: Result<T, CacheError>) -> String {
    match result {
        Err(CacheError::Archive { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_two_that_pack_into_one_folder_the_second_is_refused() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    fs.create_dir_all("/a".into()).unwrap();
    let first = fs.open("/a/PACKING".into(), Open::CreateNew).unwrap();
    assert!(first.try_lock(LockKind::Exclusive).unwrap());
    fs.write_new("/a/volume-0001.part".into(), b"").unwrap();
    assert!(reason(pack_to(&cache, "/a", &[])).contains("another `pack-cache`"));
    assert!(fs.exists("/a/volume-0001.part".into()).unwrap(), "it is in use");
    // Dead: its remains disturb nobody.
    drop(first);
    pack_to(&cache, "/a", &[]).unwrap();
    let names: Vec<String> =
        fs.read_dir("/a".into()).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["ARCHIVE", "volume-0001.pack", "volume-0002.pack"]);
}

#[test]
fn a_file_that_only_has_the_name_of_a_volume_is_not_removed() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    fs.create_dir_all("/a".into()).unwrap();
    fs.write_new("/a/volume-0007.pack".into(), b"of somebody else").unwrap();
    assert!(reason(pack_to(&cache, "/a", &[])).contains("`volume-0007.pack`"));
    assert_eq!(fs.read("/a/volume-0007.pack".into()).unwrap(), b"of somebody else");
}

#[test]
fn an_archive_of_a_newer_format_is_told_as_such() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fs.create_dir_all("/a".into()).unwrap();
    fs.write_new("/a/ARCHIVE".into(), b"throstle archive 2\nwhatever\n").unwrap();
    let told = reason(unpack_into(&cache, &["/a"]));
    assert!(told.contains("format 2") && told.contains("newer program"), "{told}");
}

#[test]
fn records_of_tables_that_are_not_taken_stay_where_they_are() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let key = Digest::of(b"key");
    for table in [RECORDS, FOREIGN] {
        cache.record(table, &key, vec![1]).unwrap();
    }
    cache.commit().unwrap();
    pack_to(&cache, "/a", &[]).unwrap();
    let other = elsewhere(&fs);
    assert_eq!(unpack_into(&other, &["/a"]).unwrap().records, 1);
    assert!(other.get(RECORDS, &key).unwrap().is_some());
    assert_eq!(other.get(FOREIGN, &key).unwrap(), None);
}

/// The base was packed again, which makes it another archive even under the same name.
#[test]
fn an_overlay_over_a_base_that_was_replaced_says_so() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    pack_to(&cache, "/base", &[]).unwrap();
    fill(&cache, 2);
    pack_to(&cache, "/overlay", &["/base"]).unwrap();
    fs.remove_dir_all("/base".into()).unwrap();
    let unrelated = Cache::open("/unrelated".into(), Arc::new(fs.clone()), Access::ReadWrite);
    pack_to(&unrelated.unwrap(), "/base", &[]).unwrap();
    let other = elsewhere(&fs);
    let taken = unpack_into(&other, &["/base", "/overlay"]).unwrap();
    assert_eq!((taken.without_base, taken.damages), (vec!["/overlay".into()], vec![]));
    assert!(other.has_losses());
}

/// Another volume than the one in the base when the overlay was written.
#[test]
fn a_base_with_a_volume_of_another_archive_is_not_built_on() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    pack_to(&cache, "/base", &[]).unwrap();
    let unrelated = elsewhere(&fs);
    fill(&unrelated, 7);
    pack_to(&unrelated, "/b", &[]).unwrap();
    fs.remove_file("/base/volume-0002.pack".into()).unwrap();
    fs.rename("/b/volume-0001.pack".into(), "/base/volume-0002.pack".into()).unwrap();
    let refused = pack_to(&cache, "/overlay", &["/base"]);
    assert!(matches!(refused, Err(CacheError::DamagedArchive { .. })), "{refused:?}");
    assert!(!fs.exists("/overlay/ARCHIVE".into()).unwrap());
}

/// The mark is shared: unpacking must neither set it without a loss nor remove a mark that another
/// process has set meanwhile.
#[test]
fn losses_that_others_note_during_an_unpacking_stay_noted() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    pack_to(&cache, "/a", &[]).unwrap();
    let other = elsewhere(&fs);
    let note = |_: u64, _: u64| {
        fs.open("/elsewhere/LOSSES".into(), Open::Create).unwrap();
    };
    assert!(unpack_watched(&other, &["/a"], &note).unwrap().damages.is_empty());
    assert!(other.has_losses());
}

#[test]
fn an_object_that_is_swept_before_its_record_has_come_in_is_missed() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    let packed = pack_to(&cache, "/a", &[]).unwrap();
    let other = elsewhere(&fs);
    let sweep = |done: u64, total: u64| {
        if done == total {
            let cache = elsewhere(&fs);
            let plan = cache.sweep_plan(&|_| false, &|_, _, _| true).unwrap();
            cache.sweep(plan).unwrap();
        }
    };
    assert_eq!(unpack_watched(&other, &["/a"], &sweep).unwrap().records, packed.records);
    assert!(other.has_losses());
}

#[test]
fn a_disk_that_is_full_while_packing_is_told_and_gets_its_room_back() {
    let fs = MemoryFs::new();
    fill(&open(&fs), 1);
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    let cache = open_over(faulty.clone());
    for bytes in [0, 1 << 20, 5 << 20, LARGE as u64] {
        faulty.set(vec![Fault::Space { bytes, error: ENOSPC }]);
        let refused = pack_to(&cache, "/a", &[]).unwrap_err();
        assert!(refused.is_no_space(), "{bytes}: {refused:?}");
        faulty.set(vec![]);
        assert_eq!(fs.read_dir("/a".into()).unwrap(), [], "{bytes}");
    }
    pack_to(&cache, "/a", &[]).unwrap();
}

#[test]
fn a_disk_that_is_full_while_unpacking_is_told_and_leaves_a_sound_cache() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    fill(&cache, 1);
    pack_to(&cache, "/a", &[]).unwrap();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    let open_elsewhere =
        || Cache::open("/elsewhere".into(), faulty.clone(), Access::ReadWrite).unwrap();
    drop(open_elsewhere());
    for bytes in [0, 1 << 20, LARGE as u64 + 1] {
        let other = open_elsewhere();
        faulty.set(vec![Fault::Space { bytes, error: ENOSPC }]);
        let refused = unpack_into(&other, &["/a"]).unwrap_err();
        assert!(refused.is_no_space(), "{bytes}: {refused:?}");
        drop(other);
        faulty.set(vec![]);
        assert_sound(&elsewhere(&fs));
    }
    let other = elsewhere(&fs);
    assert!(unpack_into(&other, &["/a"]).unwrap().damages.is_empty());
    assert_has(&other, 1);
}
