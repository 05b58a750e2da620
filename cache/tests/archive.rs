//! Archives: what is packed comes back, in parts and after accidents.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use cache::fs::fault::ENOSPC;
use cache::fs::{Fault, FaultFs, Fs, LockKind, MemoryFs, Open};
use cache::{Access, Archived, Archiving, Cache, CacheError, Digest, Kept, TakenIn, Unpacking};
use cache::{Table, VerifyOptions};
use camino::Utf8PathBuf;
use common::{open, open_over};

const RECORDS: Table = Table(3);
/// Its records are not taken in.
const FOREIGN: Table = Table(4);
/// Large enough for one piece of a large object, and too small for two.
const VOLUME: u64 = 9 << 19;
const LARGE: usize = 5 << 20;

/// Hard to compress, and different for every seed.
fn large(seed: u32) -> Vec<u8> {
    let word = |at: u32| (at ^ seed).wrapping_mul(0x9e37_79b9).to_le_bytes();
    (0..LARGE as u32 / 4).flat_map(word).collect()
}

fn fill(cache: &Cache, seed: u32) {
    let object = cache.put(&large(seed)).unwrap();
    cache.record(RECORDS, &object, seed.to_le_bytes().to_vec()).unwrap();
    for number in 0..20 {
        let object = cache.put(format!("small {seed} {number}").as_bytes()).unwrap();
        cache.record(RECORDS, &object, vec![number; 100]).unwrap();
    }
    cache.commit().unwrap();
}

fn pack_to(cache: &Cache, folder: &str, bases: &[&str]) -> Result<Archived, CacheError> {
    let bases: Vec<Utf8PathBuf> = bases.iter().map(Utf8PathBuf::from).collect();
    let kept = Kept { object: &|_| true, record: &|_, _| true };
    let (folder, volume_bytes) = (folder.into(), VOLUME);
    cache.archive(&kept, &Archiving { folder, bases: &bases, volume_bytes, progress: &|_, _| {} })
}

fn unpack_into(cache: &Cache, folders: &[&str]) -> Result<TakenIn, CacheError> {
    unpack_watched(cache, folders, &|_, _| {})
}

fn unpack_watched(
    cache: &Cache,
    folders: &[&str],
    progress: &dyn Fn(u64, u64),
) -> Result<TakenIn, CacheError> {
    let folders: Vec<Utf8PathBuf> = folders.iter().map(Utf8PathBuf::from).collect();
    let prefers = |_: Table, own: &[u8], other: &[u8]| other > own;
    let takes = |table: Table| table != FOREIGN;
    cache.take_in(&Unpacking { folders: &folders, prefers: &prefers, takes: &takes, progress })
}

fn elsewhere(fs: &MemoryFs) -> Cache {
    Cache::open("/elsewhere".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap()
}

fn assert_has(cache: &Cache, seed: u32) {
    let object = Digest::of(&large(seed));
    assert_eq!(cache.read(&object).unwrap(), large(seed));
    assert_eq!(cache.get(RECORDS, &object).unwrap().unwrap(), seed.to_le_bytes()[..]);
    for number in 0..20u8 {
        let bytes = format!("small {seed} {number}");
        assert_eq!(cache.read(&Digest::of(bytes.as_bytes())).unwrap(), bytes.as_bytes());
        let record = cache.get(RECORDS, &Digest::of(bytes.as_bytes())).unwrap();
        assert_eq!(record.unwrap(), vec![number; 100]);
    }
}

fn assert_sound(cache: &Cache) {
    let options = VerifyOptions { read_data: true, ..VerifyOptions::default() };
    let report = cache.verify(options, &|_, _| {}).unwrap();
    assert!(report.is_clean(), "{:?}", report.damages);
}

/// In place of the file there is one with a bit flipped.
fn flip(fs: &MemoryFs, path: &str, at: u64) {
    let mut bytes = fs.read(path.into()).unwrap();
    bytes[at as usize] ^= 1;
    fs.remove_file(path.into()).unwrap();
    fs.write_new(path.into(), &bytes).unwrap();
}

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
            // The archive lies on another file system than the cache made of it.
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
        match is_missing {
            true => fs.remove_file(path.into()).unwrap(),
            false => fs.open(path.into(), Open::ReadWrite).unwrap().set_len(1000).unwrap(),
        }
        let other = elsewhere(&fs);
        let taken = unpack_into(&other, &["/a"]).unwrap();
        let named: Vec<&str> = taken.damages.iter().map(|damage| damage.path.as_str()).collect();
        assert_eq!(named, [path]);
        // Of the large object there is the first piece only.
        assert_eq!((taken.objects, other.contains(&Digest::of(&large(1))).unwrap()), (20, false));
        assert_sound(&other);
    }
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
    // Dead: what it left is in nobody's way.
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

/// The base was packed anew, which is another archive even where it has the same name.
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

/// Another volume than the one that the base had when the overlay was written over it.
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

/// The mark is one for all: an unpacking must neither need it while all is well nor take away
/// what somebody else left meanwhile.
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
