//! Unwanted entries go to the trash, wanted ones stay, and all of them can be restored.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::time::Duration;

use cache::fs::{Fs, MemoryFs};
use cache::{Cache, Digest, LOOSE_SIZE, SweepPlan, SweepReport, Table, VerifyOptions};
use common::{open, reopen};

const TABLE: Table = Table(1);

/// Objects 0 to 19 of 1,000 bytes, two large ones, and a record for each.
fn fill(cache: &Cache) -> Vec<(Digest, Vec<u8>)> {
    let small = (0..20u8).map(|item| vec![item; 1000]);
    let large = (100..102u8).map(|item| vec![item; LOOSE_SIZE as usize]);
    let objects: Vec<_> = small.chain(large).map(|bytes| (Digest::of(&bytes), bytes)).collect();
    for (digest, bytes) in &objects {
        cache.put(bytes).unwrap();
        cache.record(TABLE, digest, vec![bytes[0]]).unwrap();
    }
    cache.commit().unwrap();
    objects
}

/// Keeps the first small objects and their records.
fn sweep(cache: &Cache, objects: &[(Digest, Vec<u8>)], keep: usize) -> SweepReport {
    let kept = |digest: &Digest| objects[..keep].iter().any(|(other, _)| other == digest);
    let plan = cache.sweep_plan(&kept, &|_, key, _| kept(key)).unwrap();
    cache.sweep(plan).unwrap()
}

fn assert_holds(cache: &Cache, objects: &[(Digest, Vec<u8>)], there: impl Fn(usize) -> bool) {
    for (index, (digest, bytes)) in objects.iter().enumerate() {
        assert_eq!(cache.contains(digest).unwrap(), there(index), "object {index}");
        let record = cache.get(TABLE, digest).unwrap();
        assert_eq!(record.is_some(), there(index), "record {index}");
        if there(index) {
            assert_eq!(&cache.read(digest).unwrap(), bytes);
        }
    }
    let options = VerifyOptions { repair: false, read_data: true };
    let report = cache.verify(options, &|_, _| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.damages);
}

#[test]
fn a_sweep_keeps_what_is_live_and_wins_the_rest() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects = fill(&cache);
    let before = cache.stats().unwrap();
    let report = sweep(&cache, &objects, 5);
    assert_eq!(
        report,
        SweepReport { objects: 17, records: 17, packs: 1, busy_packs: 0, leased: 0 }
    );
    assert_holds(&cache, &objects, |index| index < 5);
    let after = cache.stats().unwrap();
    assert_eq!((after.objects, after.loose), (5, 0));
    assert!(after.pack_bytes < before.pack_bytes / 2);
    assert!(after.trash_bytes > 2 * LOOSE_SIZE);
    let won = cache.empty_trash(Duration::ZERO).unwrap().bytes;
    assert_eq!(won, after.trash_bytes);
    assert_eq!(cache.stats().unwrap().trash_bytes, 0);
    assert_holds(&reopen(&fs, cache), &objects, |index| index < 5);
}

#[test]
fn a_plan_changes_nothing() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects = fill(&cache);
    let before = fs.files();
    let plan = cache.sweep_plan(&|_| false, &|_, _, _| false).unwrap();
    assert_eq!(plan.objects().count(), 22);
    assert!(plan.bytes > 2 * LOOSE_SIZE + 20_000);
    assert!(fs.files() == before);
    assert_holds(&cache, &objects, |_| true);
}

#[test]
fn what_is_put_again_after_the_plan_stays() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects = fill(&cache);
    let plan = cache.sweep_plan(&|_| false, &|_, _, _| true).unwrap();
    cache.sweep(plan.clone()).unwrap();
    for (_, bytes) in &objects {
        cache.put(bytes).unwrap();
    }
    cache.commit().unwrap();
    cache.sweep(plan).unwrap();
    assert_holds(&cache, &objects[..20], |_| true);
}

#[test]
fn the_trash_gives_everything_back() {
    for keep in [0, 5, 15] {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        let objects = fill(&cache);
        sweep(&cache, &objects, keep);
        assert_holds(&cache, &objects, |index| index < keep);
        cache.restore_trash().unwrap();
        assert_holds(&cache, &objects, |_| true);
        let cache = reopen(&fs, cache);
        cache.rebuild_index().unwrap();
        assert_holds(&cache, &objects, |_| true);
        assert_eq!(cache.stats().unwrap().trash_bytes, 0);
    }
}

#[test]
fn a_swept_record_does_not_come_back_with_a_new_index() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects = fill(&cache);
    // More than half is kept, so the pack stays and still has the swept records.
    assert_eq!(sweep(&cache, &objects, 15).packs, 0);
    cache.rebuild_index().unwrap();
    for (index, (digest, _)) in objects.iter().enumerate() {
        assert_eq!(cache.get(TABLE, digest).unwrap().is_some(), index < 15);
    }
}

#[test]
fn a_pack_that_another_process_writes_is_left_alone() {
    let fs = MemoryFs::new();
    let (busy, sweeper) = (open(&fs), open(&fs));
    let objects = fill(&busy);
    let report = sweep(&sweeper, &objects, 0);
    assert_eq!((report.packs, report.busy_packs), (0, 1));
    busy.put(b"more").unwrap();
    busy.commit().unwrap();
    assert_eq!(sweeper.read(&Digest::of(b"more")).unwrap(), &b"more"[..]);
}

#[test]
fn young_trash_stays_even_when_the_clock_goes_back() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects = fill(&cache);
    sweep(&cache, &objects, 0);
    let day = Duration::from_secs(86_400);
    let now = fs.now();
    assert_eq!(cache.empty_trash(day).unwrap().bytes, 0);
    for clock in [now - day.as_nanos() as i64, 0] {
        fs.set_clock(clock);
        assert_eq!(cache.empty_trash(Duration::from_secs(1)).unwrap().bytes, 0);
    }
    fs.set_clock(now + 2 * day.as_nanos() as i64);
    assert!(cache.empty_trash(day).unwrap().bytes > 0);
}

#[test]
fn no_key_and_no_content_depends_on_the_clock() {
    let contents = |clock: i64| {
        let fs = MemoryFs::new();
        fs.set_clock(clock);
        let cache = open(&fs);
        let objects = fill(&cache);
        assert_holds(&cache, &objects, |_| true);
        cache.scan(TABLE).unwrap()
    };
    assert_eq!(contents(0), contents(i64::MAX / 2));
    assert_eq!(contents(-86_400_000_000_000), contents(0));
}

#[test]
fn many_small_objects_are_few_files_and_little_more_than_their_bytes() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let (count, size) = (3000u32, 8192usize);
    for number in 0..count {
        let mut bytes = vec![0u8; size];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        cache.put(&bytes).unwrap();
    }
    cache.commit().unwrap();
    let files = fs.files();
    assert!(files.len() < 12, "{} files", files.len());
    let stored: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let unique = count as usize * size;
    assert!(stored as f64 <= unique as f64 * 1.05, "{stored} bytes for {unique}");
}

#[test]
fn tidying_makes_a_worn_index_smaller_and_loses_nothing() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let mut keys = Vec::new();
    for round in 0..40u32 {
        for number in 0..500u32 {
            let key = Digest::of(&(round * 1000 + number).to_le_bytes());
            cache.record(TABLE, &key, key.as_bytes().repeat(10)).unwrap();
            keys.push(key);
        }
        cache.commit().unwrap();
    }
    let before = cache.stats().unwrap().index_bytes;
    assert!(cache.tidy().unwrap());
    assert!(cache.stats().unwrap().index_bytes < before);
    assert!(!cache.tidy().unwrap(), "there is nothing more to free");
    for cache in [&cache, &open(&fs.crash())] {
        for key in &keys {
            let value = cache.get(TABLE, key).unwrap();
            assert_eq!(value.unwrap(), key.as_bytes().repeat(10));
        }
    }
}

/// Puts the file of a large object in its place, as a process does that dies before it records it.
fn leave(fs: &MemoryFs, item: u8) -> Digest {
    let bytes = vec![item; LOOSE_SIZE as usize];
    let digest = Digest::of(&bytes);
    let text = digest.to_string();
    let folder = format!("/cache/objects/{}", &text[..2]);
    fs.create_dir_all(folder.as_str().into()).unwrap();
    fs.write_new(format!("{folder}/{}", &text[2..]).as_str().into(), &bytes).unwrap();
    digest
}

fn orphans(cache: &Cache) -> SweepPlan {
    let mut plan = SweepPlan::default();
    cache.plan_orphans(&mut plan).unwrap();
    plan
}

#[test]
fn a_large_object_that_was_never_recorded_is_swept_and_can_be_restored() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects = fill(&cache);
    assert_eq!(orphans(&cache).orphans(), 0);
    let left = leave(&fs, 7);
    let plan = orphans(&cache);
    assert_eq!((plan.orphans(), plan.bytes), (1, LOOSE_SIZE));
    // A commit of this process has recorded another one meanwhile.
    let late = leave(&fs, 8);
    let both = orphans(&cache);
    cache.put(&vec![8; LOOSE_SIZE as usize]).unwrap();
    cache.commit().unwrap();
    let cache = reopen(&fs, cache);
    assert_eq!(cache.sweep(both).unwrap().objects, 1);
    assert_eq!((cache.contains(&left).unwrap(), cache.contains(&late).unwrap()), (false, true));
    assert_eq!(orphans(&cache).orphans(), 0);
    assert_holds(&cache, &objects, |_| true);
    assert_eq!(cache.restore_trash().unwrap().objects, 1);
    assert_eq!(cache.read(&left).unwrap()[0], 7);
}

#[test]
fn a_young_large_object_stays_while_another_process_may_record_it() {
    let fs = MemoryFs::new();
    let (cache, other) = (open(&fs), open(&fs));
    leave(&fs, 7);
    let staging = other.staging().unwrap();
    assert_eq!(cache.sweep(orphans(&cache)).unwrap().objects, 0);
    drop(staging);
    assert_eq!(cache.sweep(orphans(&cache)).unwrap().objects, 1);
}

#[test]
fn room_is_made_inside_packs_that_are_rewritten() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects = fill(&cache);
    let kept = |digest: &Digest| objects[..5].iter().any(|(other, _)| other == digest);
    let plan = cache.sweep_plan(&kept, &|_, key, _| kept(key)).unwrap();
    // A pack that is being written stays as it is.
    assert_eq!(cache.make_room(&plan).unwrap(), 2 * LOOSE_SIZE);
    let cache = reopen(&fs, cache);
    // Fifteen small objects with headers of 48 bytes.
    assert_eq!(cache.make_room(&plan).unwrap(), 15 * 1_048);
    cache.sweep(plan).unwrap();
    assert_holds(&cache, &objects, |index| index < 5);
}
