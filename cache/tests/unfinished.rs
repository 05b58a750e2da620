//! A process dies while it changes the index: the next change checks the index first.
#![allow(clippy::unwrap_used)]

use crate::common;

use std::sync::Arc;

use cache::fs::fault::EIO;
use cache::fs::{Fault, FaultFs, Fs, MemoryFs};
use cache::{Access, Cache, Digest, Table, VerifyOptions};
use camino::{Utf8Path, Utf8PathBuf};
use common::{DIR, open};

const TABLE: Table = Table(3);

fn path(name: &str) -> Utf8PathBuf {
    Utf8Path::new(DIR).join(name)
}

fn record(cache: &Cache, number: u32) {
    let key = Digest::of(&number.to_le_bytes());
    cache.record(TABLE, &key, vec![7; 100]).unwrap();
}

/// A cache with an index of some hundred pages.
fn filled() -> MemoryFs {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    (0..600).for_each(|number| record(&cache, number));
    cache.commit().unwrap();
    fs
}

/// The number of unfinished changes in the lock file.
fn unfinished(fs: &MemoryFs) -> u64 {
    let bytes = fs.read(&path("locks/ledger")).unwrap();
    u64::from_le_bytes(bytes[16..24].try_into().unwrap())
}

fn set_unfinished(fs: &MemoryFs, number: u64) {
    let file = fs.open(&path("locks/ledger"), cache::fs::Open::ReadWrite).unwrap();
    file.write_all_at(&number.to_le_bytes(), 16).unwrap();
}

/// Tests if the index was rebuilt; that leaves a mark.
fn was_rebuilt(fs: &MemoryFs) -> bool {
    fs.exists(&path("LOSSES")).unwrap()
}

fn change(fs: &MemoryFs) {
    let cache = open(fs);
    record(&cache, 9999);
    cache.commit().unwrap();
}

/// The same with one bit of this page flipped.
fn damaged(fs: &MemoryFs, page: usize) -> MemoryFs {
    let fs = fs.duplicate();
    let mut bytes = fs.read(&path("ledger.redb")).unwrap();
    bytes[page * 4104 + 3000] ^= 4;
    fs.overwrite(&path("ledger.redb"), &bytes).unwrap();
    fs
}

fn index_is_sound(fs: &MemoryFs) -> bool {
    let options = VerifyOptions { repair: false, read_data: false };
    open(fs).verify(options, &|_, _| ()).unwrap().is_clean()
}

#[test]
fn a_change_that_came_to_its_end_leaves_nothing_to_look_at() {
    let fs = filled();
    change(&fs);
    assert_eq!(unfinished(&fs), 0);
}

#[test]
fn damage_out_of_the_way_of_a_change_is_healed_after_a_death_alone() {
    let fs = filled();
    let pages = fs.read(&path("ledger.redb")).unwrap().len() / 4104;
    let mut unseen = 0;
    for page in 1..pages {
        let [quiet, after_death] = [damaged(&fs, page), damaged(&fs, page)];
        change(&quiet);
        unseen += u32::from(!index_is_sound(&quiet));
        set_unfinished(&after_death, 1);
        change(&after_death);
        assert!(index_is_sound(&after_death), "page {page}");
        assert_eq!(unfinished(&after_death), 0);
    }
    assert!(unseen > 10, "{unseen} of {pages} pages were not looked at by the change");
}

#[test]
fn a_sound_index_survives_one_death_and_is_built_anew_after_two() {
    for (deaths, anew) in [(0, false), (1, false), (2, true), (u64::MAX, true)] {
        let fs = filled();
        set_unfinished(&fs, deaths);
        change(&fs);
        assert_eq!(was_rebuilt(&fs), anew, "{deaths} deaths");
        assert_eq!(unfinished(&fs), 0, "{deaths} deaths");
    }
}

#[test]
fn a_kill_anywhere_in_a_change_costs_no_new_index() {
    let world = filled();
    let mut in_the_middle = 0;
    for operation in 0.. {
        let fs = world.duplicate();
        let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
        let cache = Cache::open(DIR.into(), faulty.clone(), Access::ReadWrite).unwrap();
        record(&cache, 5000);
        faulty.set(vec![Fault::From { operation, error: EIO }]);
        let result = cache.commit();
        let found = fs.kill();
        let deaths = unfinished(&found);
        assert!(deaths <= 1, "{deaths} deaths at operation {operation}");
        in_the_middle += deaths;
        change(&found);
        assert!(!was_rebuilt(&found), "killed at operation {operation}");
        assert!(index_is_sound(&found), "killed at operation {operation}");
        if result.is_ok() {
            break;
        }
    }
    assert!(in_the_middle > 5, "only {in_the_middle} kills were in the middle of a change");
}
