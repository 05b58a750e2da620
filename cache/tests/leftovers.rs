//! Remains of dead processes and of people in a cache folder never prevent opening it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use crate::common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use cache::fs::fault::{EACCES, EIO};
use cache::fs::{Call, Fault, FaultFs, Fs, MemoryFs, RealFs};
use cache::stat::StatIndex;
use cache::{Access, Cache, CacheError, Digest, Table, VerifyOptions};
use camino::{Utf8Path, Utf8PathBuf};
use common::{DIR, open, open_over};

const LEFT: &str = "/cache/staging/77-left";

/// A cache with a folder of a dead process in `staging/`.
fn left() -> MemoryFs {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    cache.put(b"kept").unwrap();
    cache.commit().unwrap();
    drop(cache);
    fs.create_dir_all(&Utf8Path::new(LEFT).join("inner")).unwrap();
    fs.write_new(&Utf8Path::new(LEFT).join("inner/file"), b"half").unwrap();
    fs
}

fn staging(fs: &MemoryFs) -> Vec<String> {
    let entries = fs.read_dir("/cache/staging".into()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn what_cannot_be_removed_is_put_aside_and_told_once_with_the_cause() {
    let fs = left();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    faulty.set(vec![Fault::Every { call: Call::RemoveFile, error: EACCES }]);
    let cache = open_over(Arc::clone(&faulty) as Arc<dyn Fs>);
    let [note] = &cache.notes()[..] else { panic!("{:?}", cache.notes()) };
    for part in ["/cache/staging/77-left.stuck", "/inner/file`", "denied", "cache gc --yes"] {
        assert!(note.contains(part), "{note}");
    }
    assert_eq!(cache.read(&Digest::of(b"kept")).unwrap(), &b"kept"[..]);
    drop(cache);
    let cache = open_over(Arc::clone(&faulty) as Arc<dyn Fs>);
    assert_eq!(cache.notes(), [""; 0], "it was told already");
    let emptied = cache.empty_trash(Duration::from_secs(3600)).unwrap();
    assert_eq!((emptied.bytes, emptied.stays.len()), (0, 1), "{emptied:?}");
    faulty.set(Vec::new());
    assert_eq!(cache.empty_trash(Duration::from_secs(3600)).unwrap().bytes, 4);
    assert_eq!(staging(&fs), [""; 0]);
}

#[test]
fn what_can_neither_be_removed_nor_renamed_is_marked_and_told_once() {
    let fs = left();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    let denied = |call| Fault::Every { call, error: EACCES };
    faulty.set([Call::RemoveFile, Call::RemoveDir, Call::Rename].map(denied).to_vec());
    assert_eq!(open_over(Arc::clone(&faulty) as Arc<dyn Fs>).notes().len(), 1);
    assert_eq!(open_over(Arc::clone(&faulty) as Arc<dyn Fs>).notes(), [""; 0]);
    faulty.set(Vec::new());
    open_over(faulty).empty_trash(Duration::ZERO).unwrap();
    assert_eq!(staging(&fs), [""; 0]);
}

#[test]
fn whatever_fails_while_leftovers_are_swept_the_cache_opens() {
    for call in [Call::RemoveFile, Call::RemoveDir] {
        for error in [EIO, EACCES] {
            let fs = left();
            let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
            faulty.set(vec![Fault::Every { call, error }]);
            let cache = open_over(faulty);
            assert_eq!(cache.notes().len(), 1, "{call:?} {error}: {:?}", cache.notes());
            assert!(cache.contains(&Digest::of(b"kept")).unwrap());
        }
    }
}

/// A cache on the disk of this machine.
fn on_disk() -> (tempfile::TempDir, Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let cache = Utf8PathBuf::from_path_buf(dir.path().join("cache")).unwrap();
    drop(on_disk_opened(&cache));
    (dir, cache)
}

fn on_disk_opened(dir: &Utf8Path) -> Cache {
    Cache::open(dir, Arc::new(RealFs), Access::ReadWrite).unwrap()
}

#[test]
fn names_that_are_not_utf8_and_closed_folders_are_swept() {
    let (_dir, cache) = on_disk();
    let left = cache.join("staging/77-left");
    let odd = left.as_std_path().join(OsStr::from_bytes(b"not \xff utf-8"));
    std::fs::create_dir_all(odd.join("inner")).unwrap();
    std::fs::write(odd.join(OsStr::from_bytes(b"\xc3\x28")), "half").unwrap();
    for mode in [0o555, 0o000] {
        let closed = left.join(format!("closed-{mode}"));
        std::fs::create_dir_all(closed.join("deeper")).unwrap();
        std::fs::write(closed.join("deeper/file"), "half").unwrap();
        for folder in [closed.join("deeper"), closed] {
            std::fs::set_permissions(folder, PermissionsExt::from_mode(mode)).unwrap();
        }
    }
    let opened = on_disk_opened(&cache);
    assert_eq!(opened.notes(), [""; 0]);
    assert_eq!(std::fs::read_dir(cache.join("staging")).unwrap().count(), 0);
    let own = opened.staging().unwrap();
    std::fs::write(own.path().as_std_path().join(OsStr::from_bytes(b"\xff")), "half").unwrap();
    opened.stats().unwrap();
    drop(own);
    assert_eq!(std::fs::read_dir(cache.join("staging")).unwrap().count(), 0);
}

#[test]
fn names_that_are_not_utf8_anywhere_in_the_cache_are_in_nobodys_way() {
    let (_dir, cache) = on_disk();
    let odd = OsStr::from_bytes(b"odd-\xff");
    for folder in ["", "packs", "objects", "locks", "trash", "staging"] {
        let folder = cache.join(folder);
        std::fs::create_dir_all(folder.as_std_path().join(odd).join(odd)).unwrap();
    }
    std::fs::create_dir_all(cache.join("trash/000000000001-0000000a").as_std_path().join(odd))
        .unwrap();
    let opened = on_disk_opened(&cache);
    opened.put(b"kept").unwrap();
    opened.commit().unwrap();
    opened.stats().unwrap();
    assert!(opened.verify(VerifyOptions { repair: true, read_data: true }, &|_, _| {}).is_ok());
    opened.restore_trash().unwrap();
    assert_eq!(opened.empty_trash(Duration::ZERO).unwrap().stays, [""; 0]);
    assert!(!cache.join("trash/000000000001-0000000a").exists());
}

/// The number of a process that has ended.
fn ended() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

#[test]
fn half_written_files_of_dead_processes_are_removed_from_the_cache_folder() {
    let (_dir, cache) = on_disk();
    let (dead, living) = (ended(), std::os::unix::process::parent_id());
    let half = |name: &str, age: u64| {
        let path = cache.join(name);
        let file = std::fs::File::create_new(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(age)).unwrap();
        path
    };
    let left = half(&format!(".throstle-{dead}-0-0123abcd"), 3600);
    let kept = [
        // Perhaps of a process on another machine, which may still write it.
        half(&format!(".throstle-{dead}-1-0123abcd"), 0),
        half(&format!(".throstle-{living}-0-0123abcd"), 3600),
        half(".throstle-notes", 3600),
        half(&format!(".throstle-{dead}-0-0123abcd-copy"), 3600),
    ];
    let reader = Cache::open(&cache, Arc::new(RealFs), Access::ReadOnly).unwrap();
    assert!(left.exists(), "a reader removes nothing");
    drop(reader);
    assert_eq!(on_disk_opened(&cache).notes(), [""; 0]);
    assert!(!left.exists());
    assert!(kept.iter().all(|path| path.exists()));
}

/// Replaces a file by a folder.
fn misplace(fs: &MemoryFs, path: &Utf8Path) {
    if fs.exists(path).unwrap() {
        fs.remove_file(path).unwrap();
    }
    fs.create_dir(path).unwrap();
}

#[test]
fn a_folder_in_the_place_of_any_file_is_told_and_costs_what_the_file_had() {
    let files = ["ledger.redb", "stat.idx", "LOSSES", "locks/ledger", "locks/claims"];
    for name in files.into_iter().chain(["packs/000001.pack"]) {
        let fs = left();
        misplace(&fs, &Utf8Path::new(DIR).join(name));
        let reader = Cache::open(DIR.into(), Arc::new(fs.clone()), Access::ReadOnly).unwrap();
        let options = VerifyOptions { repair: false, read_data: true };
        let seen = reader.verify(options, &|_, _| {}).unwrap();
        assert!(seen.damages.iter().any(|damage| damage.path.ends_with(name)), "{name}: {seen:?}");
        let cache = open(&fs);
        let notes = cache.notes();
        assert!(
            notes.iter().any(|note| note.contains(name) && note.contains("regular file")),
            "{notes:?}"
        );
        let is_pack = name.ends_with(".pack");
        assert_eq!(cache.contains(&Digest::of(b"kept")).unwrap(), !is_pack, "{name}");
        StatIndex::load(&cache).unwrap();
        cache.put(b"more").unwrap();
        cache.commit().unwrap();
        cache.clear_losses().unwrap();
        let found = cache.verify(options, &|_, _| {}).unwrap();
        assert!(found.is_clean(), "{name}: {found:?}");
        drop(cache);
        assert_eq!(open(&fs).notes(), [""; 0], "{name}");
    }
}

#[test]
fn a_folder_in_the_place_of_a_large_object_is_a_damaged_object() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let large = cache.put(&vec![3; cache::LOOSE_SIZE as usize]).unwrap();
    cache.commit().unwrap();
    let text = large.to_string();
    misplace(&fs, &Utf8Path::new(DIR).join("objects").join(&text[..2]).join(&text[2..]));
    assert!(cache.read(&large).unwrap_err().is_lost_object());
    cache.put(&vec![3; cache::LOOSE_SIZE as usize]).unwrap();
    cache.commit().unwrap();
    assert_eq!(cache.read(&large).unwrap().len(), cache::LOOSE_SIZE as usize);
}

#[test]
fn any_flipped_bit_of_the_mark_is_told_as_damage_with_what_to_do() {
    let fs = left();
    let mark = Utf8Path::new(DIR).join("FORMAT");
    let whole = fs.read(&mark).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs.overwrite(&mark, &bytes).unwrap();
        for access in [Access::ReadWrite, Access::ReadOnly] {
            let error = Cache::open(DIR.into(), Arc::new(fs.clone()), access).unwrap_err();
            assert!(matches!(error, CacheError::DamagedMark { .. }), "bit {bit}: {error}");
            let text = error.to_string();
            assert!(text.contains("/cache/FORMAT") && text.contains("remove that file"), "{text}");
        }
    }
    fs.remove_file(&mark).unwrap();
    assert_eq!(open(&fs).read(&Digest::of(b"kept")).unwrap(), &b"kept"[..]);
    let other = MemoryFs::new();
    other.create_dir(DIR.into()).unwrap();
    other.write_new(&mark, b"of another program, which has a mark of the same name\n").unwrap();
    let error = Cache::open(DIR.into(), Arc::new(other), Access::ReadWrite).unwrap_err();
    assert!(matches!(error, CacheError::NotACache { .. }), "{error}");
}

#[test]
fn a_mark_that_is_no_file_is_written_again_where_the_tag_says_that_it_is_a_cache() {
    let fs = left();
    let mark = Utf8Path::new(DIR).join("FORMAT");
    misplace(&fs, &mark);
    let reader = Cache::open(DIR.into(), Arc::new(fs.clone()), Access::ReadOnly).unwrap_err();
    assert!(matches!(reader, CacheError::Misplaced { .. }), "{reader}");
    let cache = open(&fs);
    let notes = cache.notes();
    assert!(notes.iter().any(|note| note.contains("/cache/FORMAT`, which was not a regular file")));
    assert_eq!(cache.read(&Digest::of(b"kept")).unwrap(), &b"kept"[..]);
    drop(cache);
    assert_eq!(open(&fs).notes(), [""; 0]);
    // Without the tag the folder may belong to anybody.
    misplace(&fs, &mark);
    fs.remove_file("/cache/CACHEDIR.TAG".into()).unwrap();
    let error = Cache::open(DIR.into(), Arc::new(fs), Access::ReadWrite).unwrap_err();
    assert!(matches!(error, CacheError::Misplaced { .. }), "{error}");
}

#[test]
fn pipes_sockets_and_links_in_the_place_of_the_mark_are_put_aside() {
    let (_dir, cache) = on_disk();
    let mark = cache.join("FORMAT");
    let elsewhere = cache.join("elsewhere");
    let put: [(&str, &dyn Fn()); 4] = [
        ("pipe", &|| {
            nix::unistd::mkfifo(mark.as_std_path(), nix::sys::stat::Mode::S_IRUSR).unwrap()
        }),
        ("socket", &|| drop(std::os::unix::net::UnixListener::bind(&mark).unwrap())),
        ("link in a ring", &|| std::os::unix::fs::symlink("FORMAT", &mark).unwrap()),
        ("link to a folder", &|| std::os::unix::fs::symlink("packs", &mark).unwrap()),
    ];
    for (what, put) in put {
        std::fs::rename(&mark, &elsewhere).unwrap();
        put();
        let error = Cache::open(&cache, Arc::new(RealFs), Access::ReadOnly).unwrap_err();
        assert!(error.to_string().contains("FORMAT` is a "), "{what}: {error}");
        assert_eq!(on_disk_opened(&cache).notes().len(), 1, "{what}");
        assert_eq!(on_disk_opened(&cache).notes(), [""; 0], "{what}");
        assert_eq!(std::fs::read(&mark).unwrap(), std::fs::read(&elsewhere).unwrap(), "{what}");
    }
}

#[test]
fn a_cache_that_is_moved_away_while_it_is_used_is_an_error_and_does_not_come_back() {
    for elsewhere in [Some("/moved"), None] {
        let fs = left();
        let cache = open(&fs);
        cache.put(b"before").unwrap();
        cache.commit().unwrap();
        let large = cache.put(&vec![5; cache::LOOSE_SIZE as usize]).unwrap();
        cache.put(b"after").unwrap();
        cache.record(Table(1), &large, vec![1]).unwrap();
        match elsewhere {
            Some(to) => fs.rename(DIR.into(), to.into()).unwrap(),
            None => fs.remove_dir_all(DIR.into()).unwrap(),
        }
        let is_gone = |error: &CacheError| matches!(error, CacheError::Gone { .. });
        assert!(is_gone(&cache.commit().unwrap_err()));
        assert!(is_gone(&cache.staging().unwrap_err()));
        assert!(is_gone(&cache.refresh().unwrap_err()));
        let mut index = StatIndex::default();
        index.put_section(large, Vec::new());
        assert!(is_gone(&index.save(&cache).unwrap_err()));
        assert!(!fs.exists(DIR.into()).unwrap());
        // It is not mixed with a new one in its place either.
        let new = open(&fs);
        assert!(is_gone(&cache.commit().unwrap_err()));
        assert!(new.get(Table(1), &large).unwrap().is_none());
        drop(cache);
        assert!(!new.contains(&Digest::of(b"before")).unwrap());
        if let Some(moved) = elsewhere {
            let moved = Cache::open(moved.into(), Arc::new(fs), Access::ReadWrite).unwrap();
            assert_eq!(moved.read(&Digest::of(b"before")).unwrap(), &b"before"[..]);
            assert!(!moved.contains(&large).unwrap());
        }
    }
}
