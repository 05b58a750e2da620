//! The plug is pulled, or the process killed, at every point there is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use cache::fs::fault::EIO;
use cache::fs::{Fault, FaultFs, Fs, MemoryFs};
use cache::{Access, Cache, CacheError, Digest, VerifyOptions};
use common::work::{Promised, check, finish, work};

/// Runs the work with everything failing after the n-th sync; None when it came to its end.
fn cut_after(syncs: u64) -> Option<(MemoryFs, Promised)> {
    let fs = MemoryFs::new();
    fs.stop_after(syncs);
    let mut promised = Promised::default();
    let result = work(Arc::new(fs.clone()), &mut promised);
    result.is_err().then_some((fs, promised))
}

#[test]
fn after_a_power_cut_at_any_sync_every_promise_holds() {
    let mut cuts = 0;
    while let Some((fs, promised)) = cut_after(cuts) {
        let place = format!("cut after sync {cuts}");
        let found = fs.crash();
        check(&found, &promised, &place);
        finish(&found, &place);
        cuts += 1;
    }
    assert!(cuts > 30, "only {cuts} syncs were seen");
}

#[test]
fn unsynced_writes_may_reach_the_disk_in_any_order() {
    let mut cuts = 0;
    while let Some((fs, promised)) = cut_after(cuts) {
        for seed in 0..6 {
            let place = format!("cut after sync {cuts}, order {seed}");
            let found = fs.crash_reordered(seed * 1000 + cuts);
            check(&found, &promised, &place);
            finish(&found, &place);
        }
        cuts += 1;
    }
}

/// Runs the work with every operation failing from the n-th on.
fn dead_from(operation: u64) -> Option<(MemoryFs, Promised)> {
    let fs = MemoryFs::new();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    faulty.set(vec![Fault::From { operation, error: EIO }]);
    let mut promised = Promised::default();
    let result = work(Arc::clone(&faulty) as Arc<dyn Fs>, &mut promised);
    result.is_err().then_some((fs, promised))
}

#[test]
fn after_a_kill_at_any_operation_every_promise_holds() {
    let mut operation = 0;
    while let Some((fs, promised)) = dead_from(operation) {
        let place = format!("killed at operation {operation}");
        let found = fs.kill();
        check(&found, &promised, &place);
        if operation % 5 == 0 {
            finish(&found, &place);
        }
        operation += 1;
    }
    assert!(operation > 200, "only {operation} operations were seen");
}

#[test]
fn after_a_power_cut_at_any_operation_every_promise_holds() {
    let mut operation = 0;
    while let Some((fs, promised)) = dead_from(operation) {
        let place = format!("power cut at operation {operation}");
        check(&fs.crash(), &promised, &place);
        check(&fs.crash_reordered(operation), &promised, &place);
        operation += 1;
    }
}

#[test]
fn a_torn_tail_is_cut_and_written_over() {
    let fs = MemoryFs::new();
    work(Arc::new(fs.clone()), &mut Promised::default()).unwrap();
    let (path, whole) = pack(&fs);
    let mut torn = whole.clone();
    torn.extend_from_slice(&whole[16..400]);
    fs.overwrite(&path, &torn).unwrap();
    drop(common::open(&fs));
    assert_eq!(pack(&fs).1, whole);
}

fn pack(fs: &MemoryFs) -> (camino::Utf8PathBuf, Vec<u8>) {
    fs.files().into_iter().find(|(path, _)| path.as_str().ends_with("000001.pack")).unwrap()
}

#[test]
fn a_sweep_that_is_cut_anywhere_keeps_what_is_live() {
    let prepared = MemoryFs::new();
    let cache = common::open(&prepared);
    let live: Vec<Vec<u8>> = (0..3u8).map(|item| vec![item; 500]).collect();
    let dead: Vec<Vec<u8>> = (10..20u8).map(|item| vec![item; 500]).collect();
    for bytes in live.iter().chain(&dead) {
        let digest = cache.put(bytes).unwrap();
        cache.record(common::work::RESULTS, &digest, vec![bytes[0]]).unwrap();
    }
    cache.put(&common::work::large()).unwrap();
    cache.commit().unwrap();
    drop(cache);
    let is_live = |digest: &Digest| live.iter().any(|bytes| Digest::of(bytes) == *digest);
    let sweep = |fs: Arc<dyn Fs>| -> Result<(), CacheError> {
        let cache = Cache::open(common::DIR.into(), fs, Access::ReadWrite)?;
        let plan = cache.sweep_plan(&is_live, &|_, key, _| is_live(key))?;
        cache.sweep(plan).map(drop)
    };
    let assert_live = |fs: &MemoryFs, place: &str| {
        let cache = common::open(fs);
        for bytes in &live {
            let digest = Digest::of(bytes);
            assert_eq!(&cache.read(&digest).unwrap(), bytes, "{place}");
            let record = cache.get(common::work::RESULTS, &digest).unwrap();
            assert_eq!(record.unwrap(), vec![bytes[0]], "{place}");
        }
        let options = VerifyOptions { repair: true, read_data: true };
        cache.verify(options, &|_, _| ()).unwrap();
        let report = cache.verify(options, &|_, _| ()).unwrap();
        assert!(report.is_clean(), "{place}: {:?}", report.damages);
    };
    for operation in 0.. {
        let fs = prepared.duplicate();
        let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
        faulty.set(vec![Fault::From { operation, error: EIO }]);
        let result = sweep(faulty);
        for (found, how) in [(fs.kill(), "killed"), (fs.crash(), "power cut")] {
            let place = format!("{how} at operation {operation}");
            assert_live(&found, &place);
            sweep(Arc::new(found.clone())).unwrap();
            assert_live(&found, &place);
        }
        if result.is_ok() {
            assert!(operation > 100, "only {operation} operations were seen");
            return;
        }
    }
}
