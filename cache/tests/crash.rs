//! Power cuts and kills at every possible point.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::sync::Arc;

use cache::fs::fault::EIO;
use cache::fs::{Fault, FaultFs, Fs, MemoryFs};
use cache::{Access, Cache, CacheError, Digest, VerifyOptions};
use common::work::{Promised, check, finish, work};

/// A machine with a boot id, on which the index is synced later, or one without.
fn machine(tells: bool) -> MemoryFs {
    let fs = MemoryFs::new();
    if tells {
        common::start(&fs, "first");
    }
    fs
}

/// The restarted machine with the remaining contents of its disk.
fn started_anew(disk: MemoryFs) -> MemoryFs {
    if disk.exists("/proc".into()).unwrap() {
        common::start(&disk, "second");
    }
    disk
}

/// Runs the work with every operation failing after the n-th sync; None if it finished.
fn cut_after(syncs: u64, tells: bool) -> Option<(MemoryFs, Promised)> {
    let fs = machine(tells);
    fs.stop_after(syncs);
    let mut promised = Promised::default();
    let result = work(Arc::new(fs.clone()), &mut promised);
    result.is_err().then_some((fs, promised))
}

/// Cuts the power after each sync and returns the number of syncs.
fn cuts(tells: bool, disks: impl Fn(&MemoryFs, u64) -> Vec<MemoryFs>) -> u64 {
    let mut cuts = 0;
    while let Some((fs, promised)) = cut_after(cuts, tells) {
        for (seed, disk) in disks(&fs, cuts).into_iter().enumerate() {
            let place = format!("cut after sync {cuts}, disk {seed}");
            let found = started_anew(disk);
            check(&found, &promised, &place);
            finish(&found, &place);
        }
        cuts += 1;
    }
    cuts
}

fn in_orders(orders: u64) -> impl Fn(&MemoryFs, u64) -> Vec<MemoryFs> {
    move |fs, cuts| (0..orders).map(|seed| fs.crash_reordered(seed * 1000 + cuts)).collect()
}

#[test]
fn after_a_power_cut_at_any_sync_every_promise_holds() {
    let cuts = cuts(false, |fs, _| vec![fs.crash()]);
    assert!(cuts > 30, "only {cuts} syncs were seen");
}

#[test]
fn unsynced_writes_may_reach_the_disk_in_any_order() {
    cuts(false, in_orders(6));
}

#[test]
fn an_index_that_was_to_be_synced_later_survives_a_power_cut_at_any_sync() {
    let cuts = cuts(true, |fs, _| vec![fs.crash()]);
    assert!(cuts > 20, "only {cuts} syncs were seen");
}

#[test]
fn an_index_that_was_to_be_synced_later_may_reach_the_disk_in_any_order() {
    cuts(true, in_orders(12));
}

/// Runs the work with every operation failing from the n-th on.
fn dead_from(operation: u64, tells: bool) -> Option<(MemoryFs, Promised)> {
    let fs = machine(tells);
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    faulty.set(vec![Fault::From { operation, error: EIO }]);
    let mut promised = Promised::default();
    let result = work(Arc::clone(&faulty) as Arc<dyn Fs>, &mut promised);
    result.is_err().then_some((fs, promised))
}

/// Kills the work at each operation and returns the number of operations.
fn kills(tells: bool) -> u64 {
    let mut operation = 0;
    while let Some((fs, promised)) = dead_from(operation, tells) {
        let place = format!("killed at operation {operation}");
        let found = fs.kill();
        check(&found, &promised, &place);
        if operation % 5 == 0 {
            finish(&found, &place);
        }
        operation += 1;
    }
    operation
}

#[test]
fn after_a_kill_at_any_operation_every_promise_holds() {
    for tells in [false, true] {
        let operations = kills(tells);
        assert!(operations > 200, "only {operations} operations were seen");
    }
}

#[test]
fn after_a_power_cut_at_any_operation_every_promise_holds() {
    for tells in [false, true] {
        let mut operation = 0;
        while let Some((fs, promised)) = dead_from(operation, tells) {
            let place = format!("power cut at operation {operation}");
            check(&started_anew(fs.crash()), &promised, &place);
            check(&started_anew(fs.crash_reordered(operation)), &promised, &place);
            operation += 1;
        }
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
    [false, true].into_iter().for_each(sweeps_are_cut);
}

fn sweeps_are_cut(tells: bool) {
    let prepared = machine(tells);
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
        let disks = [(fs.kill(), "killed"), (started_anew(fs.crash()), "power cut")];
        for (found, how) in disks {
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
