//! The index is synced later on machines with a boot id; after the next boot it is checked before
//! it is trusted.
#![allow(clippy::unwrap_used)]

use crate::common;

use cache::fs::{Fs, MemoryFs, Open};
use cache::{Access, Cache, Digest, Table};
use camino::Utf8Path;
use common::{DIR, open, start};

const TABLE: Table = Table(3);
/// The bytes of a page and its checksum.
const UNIT: usize = 4104;

fn commit(fs: &MemoryFs, number: u32) {
    let cache = open(fs);
    cache.record(TABLE, &key(number), number.to_le_bytes().to_vec()).unwrap();
    cache.commit().unwrap();
}

fn key(number: u32) -> Digest {
    Digest::of(&number.to_le_bytes())
}

fn knows(cache: &Cache, number: u32) -> bool {
    cache.get(TABLE, &key(number)).unwrap().is_some()
}

fn file(name: &str) -> camino::Utf8PathBuf {
    Utf8Path::new(DIR).join(name)
}

/// A cache with one commit, on a machine with a boot id.
fn filled() -> MemoryFs {
    let fs = MemoryFs::new();
    start(&fs, "first");
    commit(&fs, 1);
    fs
}

/// The same with an index in which every page but the first is damaged.
fn with_damaged_index(fs: &MemoryFs) -> MemoryFs {
    let fs = fs.duplicate();
    let mut bytes = fs.read(&file("ledger.redb")).unwrap();
    bytes[UNIT..].chunks_mut(UNIT).for_each(|unit| unit[100] ^= 1);
    fs.overwrite(&file("ledger.redb"), &bytes).unwrap();
    fs
}

fn was_rebuilt(fs: &MemoryFs) -> bool {
    fs.exists(&file("LOSSES")).unwrap()
}

/// The boot id in the lock file.
fn mark(fs: &MemoryFs) -> Vec<u8> {
    fs.read(&file("locks/ledger")).unwrap().get(24..40).unwrap_or(&[0; 16]).to_vec()
}

#[test]
fn a_commit_is_one_sync_where_starts_are_told_and_several_where_not() {
    for (tells, expected) in [(true, 1..=1), (false, 3..=5)] {
        let fs = MemoryFs::new();
        if tells {
            start(&fs, "first");
        }
        commit(&fs, 1);
        let before = fs.syncs();
        commit(&fs, 2);
        let syncs = fs.syncs() - before;
        assert!(expected.contains(&syncs), "{syncs} syncs, starts told: {tells}");
    }
}

#[test]
fn what_a_power_cut_took_from_the_index_is_taken_from_the_packs() {
    let fs = filled();
    commit(&fs, 2);
    let found = fs.crash();
    start(&found, "second");
    let cache = open(&found);
    assert!(knows(&cache, 1) && knows(&cache, 2));
}

#[test]
fn a_sound_index_is_believed_after_a_restart_and_marked_with_it() {
    let fs = filled();
    let before = mark(&fs);
    start(&fs, "second");
    assert!(knows(&open(&fs), 1));
    assert!(!was_rebuilt(&fs));
    assert_ne!(mark(&fs), before);
    assert_ne!(mark(&fs), [0; 16]);
}

#[test]
fn an_index_that_did_not_reach_the_disk_whole_is_built_anew_after_a_restart() {
    let fs = with_damaged_index(&filled());
    start(&fs, "second");
    drop(open(&fs));
    assert!(was_rebuilt(&fs));
    assert!(knows(&open(&fs), 1));
}

#[test]
fn a_cache_that_cannot_be_written_is_read_from_its_packs_after_a_restart() {
    let fs = with_damaged_index(&filled());
    start(&fs, "second");
    fs.set_readonly_mount(true);
    let cache = Cache::open(DIR.into(), std::sync::Arc::new(fs.clone()), Access::ReadOnly).unwrap();
    assert!(knows(&cache, 1));
    assert!(!was_rebuilt(&fs));
}

#[test]
fn a_machine_that_does_not_tell_its_starts_looks_once_and_syncs_from_then_on() {
    let fs = filled();
    fs.remove_file("/proc/sys/kernel/random/boot_id".into()).unwrap();
    commit(&fs, 2);
    assert_eq!(mark(&fs), [0; 16]);
    let cache = open(&fs.crash());
    assert!(knows(&cache, 1) && knows(&cache, 2));
}

#[test]
fn a_mark_that_is_torn_is_doubted() {
    let fs = filled();
    let lock = fs.open(&file("locks/ledger"), Open::ReadWrite).unwrap();
    lock.write_all_at(&[1], 24).unwrap();
    let fs = with_damaged_index(&fs);
    assert!(knows(&open(&fs), 1));
    assert!(was_rebuilt(&fs));
}
