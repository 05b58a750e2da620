#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use cache::Access;
use cache::fs::MemoryFs;
use stage_core::Value;

use super::*;

fn open(fs: &MemoryFs, folder: &str) -> Cache {
    Cache::open(folder.into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap()
}

/// Packs everything, regardless of garbage collection.
fn pack_all(cache: &Cache, folder: &str) {
    let kept = Kept { object: &|_| true, record: &|_, _| true };
    let (folder, volume_bytes) = (folder.into(), 1 << 30);
    let how = Archiving { folder, bases: &[], volume_bytes, progress: &|_, _| {} };
    cache.archive(&kept, &how).unwrap();
}

fn unpack_from(cache: &Cache, folder: &str) {
    let taken = unpack(cache, &[folder.into()], &|_, _| {}).unwrap();
    assert!(taken.damages.is_empty());
}

/// `pack` leaves them out, but an archive may come from another program.
#[test]
fn what_only_holds_on_the_machine_that_wrote_it_is_not_taken_from_an_archive() {
    let fs = MemoryFs::new();
    let (foreign, own) = (open(&fs, "/foreign"), open(&fs, "/own"));
    let key = Digest::of(b"key");
    for table in [EXPORT, EXPORTS, LIMIT, LAST] {
        foreign.record(table, &key, vec![1]).unwrap();
    }
    own.record(EXPORT, &key, vec![2]).unwrap();
    foreign.commit().unwrap();
    own.commit().unwrap();
    pack_all(&foreign, "/archive");
    unpack_from(&own, "/archive");
    let at = |table| own.get(table, &key).unwrap().map(|value| value[0]);
    assert_eq!([EXPORT, EXPORTS, LIMIT, LAST].map(at), [Some(2), None, None, Some(1)]);
}

fn checkpoint(run: u64, step: f64) -> Vec<u8> {
    let state = [("step", Value::Number(step))].into_iter().collect();
    let (pipeline, parent, seconds) = ("p".into(), None, 1.0);
    encode(&CheckpointRecord { pipeline, run, parent, states: vec![state], seconds })
}

#[test]
fn of_the_checkpoints_of_a_run_the_furthest_counts_in_whichever_order_they_come() {
    let fs = MemoryFs::new();
    let key = Digest::of(b"training");
    let older = [(1, 900.0), (2, 100.0), (2, 200.0), (3, 10.0)];
    for (at, (run, step)) in older.into_iter().enumerate() {
        let cache = open(&fs, &format!("/session-{at}"));
        cache.record(CHECKPOINT, &key, checkpoint(run, step)).unwrap();
        cache.commit().unwrap();
        pack_all(&cache, &format!("/archive-{at}"));
    }
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let cache = open(&fs, &format!("/cache{order:?}"));
        for at in order {
            unpack_from(&cache, &format!("/archive-{at}"));
        }
        assert_eq!(cache.get(CHECKPOINT, &key).unwrap().unwrap(), checkpoint(2, 200.0));
        unpack_from(&cache, "/archive-3");
        assert_eq!(cache.get(CHECKPOINT, &key).unwrap().unwrap(), checkpoint(3, 10.0));
    }
}
