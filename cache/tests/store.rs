//! The guarantees of a cache in normal operation.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::sync::Arc;

use cache::fs::{Call, CountingFs, Fault, FaultFs, Fs, MemoryFs, Open, RealFs, RetryFs};
use cache::{Access, Cache, CacheError, Committed, Digest, LOOSE_SIZE, Link, Materialised, Table};
use camino::Utf8Path;
use common::{DIR, open, open_over, reopen};

#[test]
fn what_was_put_is_read_before_and_after_the_commit() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let digest = cache.put(b"song").unwrap();
    assert_eq!(cache.read(&digest).unwrap(), &b"song"[..]);
    cache.commit().unwrap();
    assert_eq!(cache.read(&digest).unwrap(), &b"song"[..]);
    assert_eq!(reopen(&fs, cache).read(&digest).unwrap(), &b"song"[..]);
}

#[test]
fn many_objects_are_read_with_one_look_into_the_index() {
    let fs = Arc::new(CountingFs::new(Arc::new(MemoryFs::new())));
    let cache = Cache::open(DIR.into(), fs.clone(), Access::ReadWrite).unwrap();
    let mut digests: Vec<Digest> = (0..40u8).map(|n| cache.put(&[n; 9]).unwrap()).collect();
    cache.commit().unwrap();
    digests.push(Digest::of(b"missing"));
    digests.push(cache.put(b"pending").unwrap());
    let read = |digests: &[Digest]| {
        fs.reset();
        let mut found = Vec::new();
        cache.read_each(digests, &mut |at, bytes| found.push((at, bytes.ok()))).unwrap();
        (found, fs.count(Call::Lock))
    };
    let (found, locks) = read(&digests);
    let expected = (0..40).map(|n| (usize::from(n), Some(vec![n; 9].into())));
    let rest = [(40, None), (41, Some("pending".into()))];
    assert_eq!(found, expected.chain(rest).collect::<Vec<_>>());
    assert_eq!(locks, read(&digests[..1]).1);
}

#[test]
fn many_megabytes_of_small_objects_are_on_a_disk_as_they_were_put_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let dir = Utf8Path::from_path(folder.path()).unwrap().join("cache");
    let open = || Cache::open(&dir, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let contents: Vec<Vec<u8>> =
        (0..9_000u32).map(|n| n.to_le_bytes().repeat(100 + n as usize % 400)).collect();
    let cache = open();
    let digests: Vec<Digest> = contents.iter().map(|bytes| cache.put(bytes).unwrap()).collect();
    assert_eq!(cache.commit().unwrap().objects, 9_000);
    drop(cache);
    let cache = open();
    for (digest, bytes) in digests.iter().zip(&contents) {
        assert_eq!(cache.read(digest).unwrap(), bytes);
        assert_eq!(cache.put(bytes).unwrap(), *digest);
    }
    assert_eq!(cache.commit().unwrap().objects, 0, "stored objects are not written again");
}

#[test]
fn large_objects_lie_in_read_only_files_of_their_own() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let bytes = vec![7u8; LOOSE_SIZE as usize];
    let digest = cache.put(&bytes).unwrap();
    assert_eq!(cache.read(&digest).unwrap(), bytes);
    cache.commit().unwrap();
    let text = digest.to_string();
    let path = format!("{DIR}/objects/{}/{}", &text[..2], &text[2..]);
    assert!(fs.metadata(path.as_str().into()).unwrap().readonly);
    let cache = reopen(&fs, cache);
    assert_eq!(cache.size(&digest).unwrap(), Some(LOOSE_SIZE));
    assert_eq!(cache.read(&digest).unwrap(), bytes);
}

#[test]
fn records_are_visible_at_once_and_the_last_one_wins() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let key = Digest::of(b"key");
    cache.record(Table(1), &key, b"old".to_vec()).unwrap();
    cache.commit().unwrap();
    cache.record(Table(1), &key, b"new".to_vec()).unwrap();
    assert_eq!(cache.get(Table(1), &key).unwrap().unwrap(), &b"new"[..]);
    assert_eq!(cache.get(Table(2), &key).unwrap(), None);
    cache.commit().unwrap();
    let cache = reopen(&fs, cache);
    assert_eq!(cache.get_many(Table(1), &[key]).unwrap(), [Some(bytes::Bytes::from("new"))]);
    cache.forget(Table(1), &key).unwrap();
    assert_eq!(cache.scan(Table(1)).unwrap(), []);
    cache.commit().unwrap();
    assert_eq!(reopen(&fs, cache).get(Table(1), &key).unwrap(), None);
}

#[test]
fn a_long_record_comes_back_whole() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let (key, value) = (Digest::of(b"key"), vec![3u8; 100_000]);
    cache.record(Table(0), &key, value.clone()).unwrap();
    cache.commit().unwrap();
    assert_eq!(reopen(&fs, cache).get(Table(0), &key).unwrap().unwrap(), value);
}

#[test]
fn the_same_bytes_are_stored_once() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    cache.put(&[5; 1000]).unwrap();
    cache.put(&[5; 1000]).unwrap();
    assert_eq!(cache.pending_bytes(), 1000);
    cache.commit().unwrap();
    cache.put(&[5; 1000]).unwrap();
    assert_eq!(cache.commit().unwrap(), Committed::default());
}

#[test]
fn a_staged_file_becomes_an_object() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let staging = cache.staging().unwrap();
    for (name, size) in [("small", 10), ("large", LOOSE_SIZE as usize + 1)] {
        let (path, bytes) = (staging.path().join(name), vec![9u8; size]);
        fs.write_new(&path, &bytes).unwrap();
        let (digest, length) = cache.put_file(&path).unwrap();
        assert_eq!((digest, length), (Digest::of(&bytes), size as u64));
        assert!(!fs.exists(&path).unwrap());
        cache.commit().unwrap();
        assert_eq!(cache.read(&digest).unwrap(), bytes);
    }
}

#[test]
fn a_staging_folder_goes_with_its_owner() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let (kept, dropped) = (cache.staging().unwrap(), cache.staging().unwrap());
    let gone = dropped.path().to_owned();
    drop(dropped);
    assert!(!fs.exists(&gone).unwrap());
    let _other = open(&fs);
    assert!(fs.exists(kept.path()).unwrap(), "a living owner's folder was swept");
    let killed = fs.kill();
    open(&killed);
    assert!(!killed.exists(kept.path()).unwrap(), "a dead owner's folder stayed");
}

/// A worker ends a moment after its engine was killed.
#[test]
fn a_folder_in_which_somebody_still_writes_is_swept_later() {
    const ENOENT: i32 = 2;
    const ENOTEMPTY: i32 = 39;
    for (call, error) in [(Call::RemoveFile, ENOENT), (Call::RemoveDir, ENOTEMPTY)] {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        let staging = cache.staging().unwrap();
        fs.write_new(&staging.path().join("half"), b"so").unwrap();
        let killed = fs.kill();
        let faulty = Arc::new(FaultFs::new(Arc::new(killed.clone())));
        faulty.set(vec![Fault::Every { call, error }]);
        open_over(faulty.clone());
        assert!(faulty.struck() > 0);
        assert!(killed.exists(staging.path()).unwrap());
        open(&killed);
        assert!(!killed.exists(staging.path()).unwrap(), "it stayed");
    }
}

#[test]
fn a_materialised_file_is_left_alone_while_it_is_right() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let digests = [cache.put(b"small").unwrap(), cache.put(&vec![1; 2 << 20]).unwrap()];
    cache.commit().unwrap();
    for (digest, link, how) in [
        (&digests[0], Link::Copy, Materialised::Copied),
        (&digests[0], Link::Hard, Materialised::Copied),
        (&digests[1], Link::Copy, Materialised::Copied),
        (&digests[1], Link::Hard, Materialised::Linked),
    ] {
        let target = format!("/out/{} {link:?}", digest.short());
        let target = target.as_str().into();
        assert_eq!(cache.materialise(digest, target, link).unwrap(), how);
        assert_eq!(fs.read(target).unwrap(), cache.read(digest).unwrap());
        assert_eq!(cache.materialise(digest, target, link).unwrap(), Materialised::Unchanged);
        fs.remove_file(target).unwrap();
        fs.write_new(target, b"edited").unwrap();
        assert_eq!(cache.materialise(digest, target, link).unwrap(), how);
        assert_eq!(Digest::of(&fs.read(target).unwrap()), *digest);
    }
}

#[test]
fn a_file_that_is_written_in_place_changes_no_object() {
    for above_fs in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(folder.path()).unwrap();
        let real: Arc<dyn Fs> = Arc::new(RealFs);
        let fs = if above_fs { Arc::new(RetryFs::new(real)) } else { real };
        let cache = Cache::open(&base.join("cache"), fs, Access::ReadWrite).unwrap();
        let digest = cache.put(&vec![1; 2 << 20]).unwrap();
        let target = base.join("out/file");
        for is_pending in [true, false] {
            cache.materialise(&digest, &target, Link::Copy).unwrap();
            let file = RealFs.open(&target, Open::ReadWrite).unwrap();
            file.write_all_at(b"somebody's", 100).unwrap();
            assert!(cache.read(&digest).is_ok(), "pending: {is_pending}");
            cache.commit().unwrap();
        }
    }
}

#[test]
fn a_name_of_an_object_becomes_a_file_for_itself_and_back() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let digest = cache.put(&vec![1; 2 << 20]).unwrap();
    cache.commit().unwrap();
    let target = "/out/file".into();
    for (link, how) in [
        (Link::Hard, Materialised::Linked),
        (Link::Copy, Materialised::Copied),
        (Link::Hard, Materialised::Linked),
    ] {
        assert!(!cache.is_linked_as(link, &digest, target).unwrap());
        assert_eq!(cache.materialise(&digest, target, link).unwrap(), how);
        assert!(cache.is_linked_as(link, &digest, target).unwrap());
    }
}

#[test]
fn another_handle_sees_what_was_committed() {
    let fs = MemoryFs::new();
    let (writer, reader) = (open(&fs), open(&fs));
    let digest = writer.put(b"song").unwrap();
    assert!(!reader.contains(&digest).unwrap());
    assert!(!reader.refresh().unwrap());
    writer.commit().unwrap();
    assert!(reader.refresh().unwrap());
    assert!(!reader.refresh().unwrap());
    assert!(!writer.refresh().unwrap(), "a cache's own commit is no news to it");
    assert_eq!(reader.contains_all(&[digest, Digest::of(b"x")]).unwrap(), [true, false]);
}

#[test]
fn a_newer_format_is_refused_with_both_versions() {
    let fs = MemoryFs::new();
    drop(open(&fs));
    let start = "throstle cache 3 ";
    let mark = format!("{start}{}\n", &Digest::of(start.as_bytes()).to_string()[..16]);
    fs.overwrite(format!("{DIR}/FORMAT").as_str().into(), mark.as_bytes()).unwrap();
    let error = Cache::open(DIR.into(), std::sync::Arc::new(fs), Access::ReadWrite).unwrap_err();
    assert!(matches!(error, CacheError::NewerFormat { found: 3, known: 2, .. }));
    assert_eq!(
        error.to_string(),
        "the cache `/cache` has format 3, this program knows 2: \
         use a newer program or another cache folder"
    );
}

#[test]
fn an_older_format_is_taken_over_by_who_writes_and_left_by_who_reads() {
    let fs = MemoryFs::new();
    drop(open(&fs));
    let mark = camino::Utf8PathBuf::from(format!("{DIR}/FORMAT"));
    fs.overwrite(&mark, b"throstle cache 1\n").unwrap();
    Cache::open(DIR.into(), std::sync::Arc::new(fs.clone()), Access::ReadOnly).unwrap();
    assert_eq!(fs.read(&mark).unwrap(), b"throstle cache 1\n");
    drop(open(&fs));
    assert_eq!(fs.crash().read(&mark).unwrap(), b"throstle cache 2\n");
}

#[test]
fn a_read_only_cache_reads_and_says_that_it_cannot_write() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let digest = cache.put(b"song").unwrap();
    cache.commit().unwrap();
    drop(cache);
    fs.set_readonly_mount(true);
    let cache = Cache::open(DIR.into(), std::sync::Arc::new(fs), Access::ReadOnly).unwrap();
    assert_eq!(cache.read(&digest).unwrap(), &b"song"[..]);
    assert!(matches!(cache.put(b"x"), Err(CacheError::ReadOnly { .. })));
    assert!(matches!(cache.commit(), Err(CacheError::ReadOnly { .. })));
}

#[test]
fn reading_where_there_is_no_cache_says_so() {
    let fs = std::sync::Arc::new(MemoryFs::new());
    let error = Cache::open("/none".into(), fs, Access::ReadOnly).unwrap_err();
    assert_eq!(error.to_string(), "there is no cache in `/none`");
}
