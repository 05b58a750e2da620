//! The plug is pulled, or the process killed, at every point there is.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::Arc;

use cache::fs::fault::EIO;
use cache::fs::{Fault, FaultFs, Fs, MemoryFs};
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
