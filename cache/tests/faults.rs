//! Single failing operations: the error names the place, nothing breaks, and a rerun finishes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::error::Error;
use std::sync::Arc;

use cache::fs::fault::{EACCES, EINTR, EIO, EMFILE, ENOLCK, ENOSPC, ESTALE};
use cache::fs::{Call, Fault, FaultFs, Fs, FsError, MemoryFs};
use cache::{CacheError, Digest, Table};
use common::work::{Promised, check, contents, finish, work};
use common::{open, open_over};

/// The work on a file system with faults, and its result.
fn run(faults: Vec<Fault>) -> (MemoryFs, Arc<FaultFs>, Promised, Result<(), CacheError>) {
    let fs = MemoryFs::new();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    faulty.set(faults);
    let mut promised = Promised::default();
    let result = work(Arc::clone(&faulty) as Arc<dyn Fs>, &mut promised);
    (fs, faulty, promised, result)
}

fn file_error(error: &CacheError) -> &FsError {
    let mut cause: &dyn Error = error;
    loop {
        if let Some(found) = cause.downcast_ref::<FsError>() {
            return found;
        }
        if let CacheError::Fs(found) = error {
            return found;
        }
        cause = cause.source().unwrap_or_else(|| panic!("no file error behind {error:?}"));
    }
}

fn every_operation_failing_with(errno: i32) {
    let mut operation = 0;
    loop {
        let (fs, faulty, promised, result) = run(vec![Fault::Nth { operation, error: errno }]);
        if faulty.struck() == 0 {
            assert!(operation > 200, "only {operation} operations were seen");
            return;
        }
        let place = format!("operation {operation} fails with {errno}");
        if let Err(error) = &result {
            let found = file_error(error);
            assert!(found.path.as_str().starts_with("/"), "{place}: {error:?}");
            assert!(!found.call.is_empty());
        }
        check(&fs, &promised, &place);
        if operation % 7 == 0 {
            finish(&fs, &place);
        }
        operation += 1;
    }
}

#[test]
fn any_operation_may_fail_with_an_io_error() {
    every_operation_failing_with(EIO);
}

#[test]
fn any_operation_may_be_denied() {
    every_operation_failing_with(EACCES);
}

#[test]
fn any_operation_may_find_no_free_handle() {
    every_operation_failing_with(EMFILE);
}

#[test]
fn any_operation_may_find_the_disk_full() {
    every_operation_failing_with(ENOSPC);
}

#[test]
fn interrupted_operations_are_repeated() {
    for operation in (0..600).step_by(3) {
        let (_, faulty, _, result) = run(vec![Fault::Nth { operation, error: EINTR }]);
        assert!(result.is_ok(), "operation {operation}: {result:?}");
        if faulty.struck() == 0 {
            break;
        }
    }
}

#[test]
fn short_writes_are_continued() {
    let (fs, _, promised, result) = run(vec![Fault::ShortWrites { limit: 100 }]);
    assert!(result.is_ok());
    check(&fs, &promised, "short writes");
}

#[test]
fn a_full_disk_is_named_and_the_rest_is_kept_for_later() {
    let fs = MemoryFs::new();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    let cache = open_over(Arc::clone(&faulty) as Arc<dyn Fs>);
    let before = cache.put(&[1; 5000]).unwrap();
    cache.commit().unwrap();
    faulty.set(vec![Fault::Space { bytes: 3000, error: ENOSPC }]);
    let after = cache.put(&[2; 5000]).unwrap();
    cache.record(Table(0), &after, vec![1]).unwrap();
    for _ in 0..3 {
        match cache.commit() {
            Err(CacheError::NoSpace { needed, path, .. }) => {
                assert!(needed >= 5000, "{needed}");
                assert!(path.as_str().contains("/cache/packs/"), "{path}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(cache.read(&before).unwrap(), vec![1; 5000]);
        assert_eq!(cache.read(&after).unwrap(), vec![2; 5000]);
    }
    faulty.set(Vec::new());
    cache.commit().unwrap();
    drop(cache);
    let cache = open(&fs.crash());
    assert_eq!(cache.read(&before).unwrap(), vec![1; 5000]);
    assert_eq!(cache.read(&after).unwrap(), vec![2; 5000]);
    assert!(cache.get(Table(0), &after).unwrap().is_some());
}

#[test]
fn at_any_amount_of_space_the_work_goes_on_once_there_is_more() {
    for bytes in (0..60_000).step_by(1777) {
        let (fs, _, promised, result) = run(vec![Fault::Space { bytes, error: ENOSPC }]);
        let place = format!("{bytes} bytes of space");
        match result {
            Err(CacheError::NoSpace { .. } | CacheError::Fs(_)) => {}
            other => panic!("{place}: {other:?}"),
        }
        check(&fs, &promised, &place);
        finish(&fs, &place);
    }
}

#[test]
fn after_a_failed_sync_everything_is_written_again_elsewhere() {
    let fs = MemoryFs::new();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    let cache = open_over(Arc::clone(&faulty) as Arc<dyn Fs>);
    let first = cache.put(b"first").unwrap();
    cache.commit().unwrap();
    let second = cache.put(b"second").unwrap();
    // The first sync of a commit is that of the pack.
    faulty.set(vec![Fault::NthOf { call: Call::SyncData, operation: 0, error: EIO }]);
    assert!(cache.commit().is_err());
    assert!(cache.pending_bytes() > 0);
    cache.commit().unwrap();
    let packs: Vec<_> =
        fs.files().into_iter().filter(|(path, _)| path.extension() == Some("pack")).collect();
    assert_eq!(packs.len(), 2, "the pack whose sync failed was used again");
    drop(cache);
    let cache = open(&fs.crash());
    assert_eq!(cache.read(&first).unwrap(), &b"first"[..]);
    assert_eq!(cache.read(&second).unwrap(), &b"second"[..]);
}

#[test]
fn any_failing_sync_in_a_commit_loses_nothing() {
    let mut nth = 0;
    loop {
        let fs = MemoryFs::new();
        let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
        let cache = open_over(Arc::clone(&faulty) as Arc<dyn Fs>);
        let first = cache.put(b"first").unwrap();
        cache.commit().unwrap();
        let second = cache.put(b"second").unwrap();
        faulty.set(vec![Fault::NthOf { call: Call::SyncData, operation: nth, error: EIO }]);
        let result = cache.commit();
        if faulty.struck() == 0 {
            assert!(nth > 1);
            return;
        }
        if result.is_err() {
            cache.commit().unwrap();
        }
        for cache in [&cache, &open(&fs.crash())] {
            assert_eq!(cache.read(&first).unwrap(), &b"first"[..], "sync {nth}");
            assert_eq!(cache.read(&second).unwrap(), &b"second"[..], "sync {nth}");
        }
        nth += 1;
    }
}

#[test]
fn without_locks_the_cache_works_and_says_so() {
    let faults = [Call::Lock, Call::LockRange].map(|call| Fault::Every { call, error: ENOLCK });
    let (fs, faulty, promised, result) = run(faults.to_vec());
    assert!(result.is_ok(), "{result:?}");
    check(&fs, &promised, "no locks");
    let cache = open_over(faulty as Arc<dyn Fs>);
    assert_eq!(cache.notes().len(), 1, "{:?}", cache.notes());
    let key = Digest::of(b"item");
    let claim = cache.claim(&key).unwrap();
    assert!(claim.is_some());
    assert!(cache.claim(&key).unwrap().is_none(), "claims still hold within the process");
    drop(cache);
    assert_eq!(contents(&fs).len(), 14);
}

#[test]
fn a_lock_on_a_file_that_the_disk_has_forgotten_is_taken_again() {
    for call in [Call::Lock, Call::LockRange] {
        let mut operation = 0;
        loop {
            let fault = Fault::NthOf { call, operation, error: ESTALE };
            let (fs, faulty, promised, result) = run(vec![fault]);
            let place = format!("{call:?} {operation}");
            assert!(result.is_ok(), "{place}: {result:?}");
            let claim = open_over(Arc::clone(&faulty) as Arc<dyn Fs>).claim(&Digest::of(b"item"));
            assert!(claim.unwrap().is_some(), "{place}");
            let struck = faulty.struck();
            check(&fs, &promised, &place);
            if struck == 0 {
                assert!(operation > 0, "{call:?} was never asked for");
                break;
            }
            operation += 1;
        }
    }
    let stale = [Call::Lock, Call::LockRange].map(|call| Fault::Every { call, error: ESTALE });
    let (_, _, _, result) = run(stale.to_vec());
    assert!(result.is_err(), "a disk that stays away is an error, and not waited for");
}
