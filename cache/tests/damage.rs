//! Flipped bits, truncated and missing files: detected and remade, never served.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::sync::Arc;

use cache::fs::fault::EIO;
use cache::fs::{Call, Fault, FaultFs, Fs, MemoryFs};
use cache::stat::{Section, StatEntry, StatIndex};
use cache::{Access, Cache, CacheError, Digest, LOOSE_SIZE, Table, VerifyOptions, VerifyReport};
use camino::{Utf8Path, Utf8PathBuf};
use common::{DIR, open};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

const TABLE: Table = Table(7);
const STAT: Digest = Digest::from_bytes([9; 32]);

struct Fixture {
    fs: MemoryFs,
    objects: Vec<Vec<u8>>,
    records: Vec<(Digest, Vec<u8>)>,
}

fn fixture() -> Fixture {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let objects: Vec<Vec<u8>> = (1..6u8).map(|item| vec![item; usize::from(item) * 8]).collect();
    let mut records = Vec::new();
    for bytes in &objects {
        let digest = cache.put(bytes).unwrap();
        let value = digest.as_bytes().repeat(if bytes[0] == 3 { 33 } else { 1 });
        cache.record(TABLE, &digest, value.clone()).unwrap();
        records.push((digest, value));
    }
    cache.commit().unwrap();
    let mut index = StatIndex::default();
    index.put_section(STAT, vec![StatEntry::absent("a/b".into(), STAT)]);
    index.save(&cache).unwrap();
    Fixture { fs, objects, records }
}

fn verify(cache: &Cache, repair: bool) -> VerifyReport {
    cache.verify(VerifyOptions { repair, read_data: true }, &|_, _| ()).unwrap()
}

fn lost(result: &Result<bytes::Bytes, CacheError>) -> bool {
    matches!(result, Err(CacheError::Missing { .. } | CacheError::Damaged { .. }))
}

impl Fixture {
    /// Tests if everything is there; panics if anything wrong is served.
    fn is_whole(&self, cache: &Cache, place: &str) -> bool {
        let mut whole = true;
        for bytes in &self.objects {
            let digest = Digest::of(bytes);
            let read = cache.read(&digest);
            match &read {
                Ok(found) => assert_eq!(found, bytes, "{place}"),
                Err(_) => {
                    assert!(lost(&read), "{place}: {read:?}");
                    assert!(!cache.contains(&digest).unwrap(), "{place}: still said to be there");
                    whole = false;
                }
            }
        }
        for (key, value) in &self.records {
            match cache.get(TABLE, key).unwrap() {
                Some(found) => assert_eq!(found, value, "{place}"),
                None => whole = false,
            }
        }
        whole
    }

    /// Puts missing objects again, as the engine would.
    fn remake(&self, cache: &Cache) {
        for bytes in &self.objects {
            cache.put(bytes).unwrap();
        }
        for (key, value) in &self.records {
            if cache.get(TABLE, key).unwrap().is_none() {
                cache.record(TABLE, key, value.clone()).unwrap();
            }
        }
        cache.commit().unwrap();
    }

    /// Damages a copy and checks that the damage is found, not served, and repairable.
    fn survives(&self, path: &Utf8Path, bytes: &[u8], place: &str) {
        let damaged = self.fs.duplicate();
        damaged.overwrite(path, bytes).unwrap();
        let looked_at = damaged.duplicate();
        let cache = match Cache::open(DIR.into(), Arc::new(damaged.clone()), Access::ReadWrite) {
            Ok(cache) => cache,
            Err(CacheError::DamagedMark { .. }) => return,
            Err(error) => panic!("{place}: {error:?}"),
        };
        let whole = self.is_whole(&cache, place);
        let looking = open(&looked_at);
        let is_told = !looking.notes().is_empty();
        let report = verify(&looking, true);
        assert!(whole || is_told || !report.is_clean(), "{place}: a loss was not found");
        drop(looking);
        let healed = open(&looked_at);
        self.remake(&healed);
        assert!(self.is_whole(&healed, place), "{place}: not whole after repair");
        let report = verify(&healed, false);
        assert!(report.is_clean(), "{place}: {:?}", report.damages);
        self.remake(&cache);
        assert!(self.is_whole(&cache, place), "{place}: not whole after remaking");
    }

    fn file(&self, name: &str) -> (Utf8PathBuf, Vec<u8>) {
        self.fs.files().into_iter().find(|(path, _)| path.as_str().ends_with(name)).unwrap()
    }
}

fn flip(bytes: &[u8], position: usize) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[position] ^= 1 << (position % 8);
    flipped
}

#[test]
fn a_flipped_bit_anywhere_in_a_small_file_is_found_or_harmless() {
    let fixture = fixture();
    for (path, bytes) in fixture.fs.files() {
        if path.extension() == Some("redb") {
            continue;
        }
        for position in 0..bytes.len() {
            let place = format!("{path} at {position}");
            fixture.survives(&path, &flip(&bytes, position), &place);
        }
    }
}

#[test]
fn a_flipped_bit_in_the_index_is_found_or_harmless() {
    let fixture = fixture();
    let (path, bytes) = fixture.file("ledger.redb");
    // Most of the file is empty; of the rest, some bytes everywhere.
    let used = (0..bytes.len()).filter(|position| bytes[*position] != 0).step_by(13);
    for position in used {
        let place = format!("index at {position}");
        fixture.survives(&path, &flip(&bytes, position), &place);
    }
}

#[test]
fn a_pack_cut_anywhere_loses_only_what_was_cut() {
    let fixture = fixture();
    let (path, bytes) = fixture.file("000001.pack");
    for length in 0..bytes.len() {
        fixture.survives(&path, &bytes[..length], &format!("cut at {length}"));
    }
}

#[test]
fn a_pack_of_zeros_or_nothing_is_found() {
    let fixture = fixture();
    let (path, bytes) = fixture.file("000001.pack");
    fixture.survives(&path, &vec![0; bytes.len()], "zeros");
    fixture.survives(&path, b"", "nothing");
}

#[test]
fn a_missing_pack_means_missing_objects() {
    let fixture = fixture();
    let (path, _) = fixture.file("000001.pack");
    fixture.fs.remove_file(&path).unwrap();
    let cache = open(&fixture.fs);
    let digest = Digest::of(&fixture.objects[0]);
    assert!(!cache.contains(&digest).unwrap());
    fixture.remake(&cache);
    assert!(fixture.is_whole(&cache, "missing pack"));
}

#[test]
fn a_lost_or_garbled_index_is_built_again_and_equal() {
    let fixture = fixture();
    let (path, bytes) = fixture.file("ledger.redb");
    let garbage: Vec<u8> = (0..bytes.len()).map(|at| (at * 31 % 251) as u8).collect();
    for wrong in [None, Some(&b""[..]), Some(&b"x"[..]), Some(&garbage), Some(&bytes[..5000])] {
        let fs = fixture.fs.duplicate();
        match wrong {
            None => fs.remove_file(&path).unwrap(),
            Some(wrong) => fs.overwrite(&path, wrong).unwrap(),
        }
        let cache = open(&fs);
        assert!(fixture.is_whole(&cache, "rebuilt"));
        assert_eq!(cache.scan(TABLE).unwrap(), open(&fixture.fs).scan(TABLE).unwrap());
        assert_eq!(cache.stats().unwrap().objects, 5);
        assert!(verify(&cache, false).is_clean());
    }
}

#[test]
fn a_read_only_cache_without_its_index_reads_all_the_same() {
    let fixture = fixture();
    fixture.fs.remove_file(&fixture.file("ledger.redb").0).unwrap();
    fixture.fs.set_readonly_mount(true);
    let fs = Arc::new(fixture.fs.clone());
    let cache = Cache::open(DIR.into(), fs, Access::ReadOnly).unwrap();
    assert!(fixture.is_whole(&cache, "read-only"));
}

#[test]
fn the_index_built_again_has_the_last_value_and_no_forgotten_record() {
    let fs = MemoryFs::new();
    let (first, second) = (open(&fs), open(&fs));
    let [kept, gone] = [Digest::of(b"kept"), Digest::of(b"gone")];
    for (cache, value) in [(&first, 1), (&second, 2), (&first, 3), (&second, 4)] {
        cache.record(TABLE, &kept, vec![value]).unwrap();
        cache.record(TABLE, &gone, vec![value]).unwrap();
        cache.commit().unwrap();
    }
    first.forget(TABLE, &gone).unwrap();
    first.commit().unwrap();
    let before = first.scan(TABLE).unwrap();
    assert_eq!(before, [(kept, bytes::Bytes::from(vec![4]))]);
    first.rebuild_index().unwrap();
    for cache in [&first, &second, &open(&fs)] {
        assert_eq!(cache.scan(TABLE).unwrap(), before);
    }
}

#[test]
fn a_broken_stat_index_is_an_empty_one() {
    let fixture = fixture();
    let (path, bytes) = fixture.file("stat.idx");
    assert!(StatIndex::load(&open(&fixture.fs)).unwrap().section(&STAT).is_some());
    for length in 0..bytes.len() {
        fixture.fs.overwrite(&path, &bytes[..length]).unwrap();
        assert!(StatIndex::load(&open(&fixture.fs)).unwrap().section(&STAT).is_none());
    }
    for position in 0..bytes.len() {
        fixture.fs.overwrite(&path, &flip(&bytes, position)).unwrap();
        assert!(StatIndex::load(&open(&fixture.fs)).unwrap().section(&STAT).is_none());
    }
}

#[test]
fn a_damaged_object_is_reported_once_kept_for_study_and_then_missing() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let large = vec![1; LOOSE_SIZE as usize];
    let digests = [cache.put(b"small").unwrap(), cache.put(&large).unwrap()];
    cache.commit().unwrap();
    for (path, bytes) in fs.files() {
        if path.as_str().contains("/objects/") {
            fs.overwrite(&path, &flip(&bytes, 77)).unwrap();
        } else if path.extension() == Some("pack") {
            let at = bytes.windows(5).position(|window| window == b"small").unwrap();
            fs.overwrite(&path, &flip(&bytes, at)).unwrap();
        }
    }
    for digest in &digests {
        let error = cache.read(digest).unwrap_err();
        assert!(matches!(error, CacheError::Damaged { .. }), "{error:?}");
        assert!(!cache.contains(digest).unwrap());
        assert!(matches!(cache.read(digest), Err(CacheError::Missing { .. })));
        let kept = format!("{DIR}/trash/damaged/{digest}");
        assert!(fs.exists(kept.as_str().into()).unwrap());
    }
    cache.put(b"small").unwrap();
    cache.put(&large).unwrap();
    cache.commit().unwrap();
    let cache = common::reopen(&fs, cache);
    assert_eq!(cache.read(&digests[0]).unwrap(), &b"small"[..]);
    assert_eq!(cache.read(&digests[1]).unwrap(), large);
}

#[test]
fn a_large_object_that_is_empty_zeroed_or_gone_is_made_again() {
    for wrong in [Some(vec![]), Some(vec![0; LOOSE_SIZE as usize]), None] {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        let large = vec![1; LOOSE_SIZE as usize];
        let digest = cache.put(&large).unwrap();
        cache.commit().unwrap();
        let (path, _) =
            fs.files().into_iter().find(|(path, _)| path.as_str().contains("/objects/")).unwrap();
        match &wrong {
            Some(wrong) => fs.overwrite(&path, wrong).unwrap(),
            None => fs.remove_file(&path).unwrap(),
        }
        let found = verify(&cache, false);
        assert_eq!(found.damages.len(), 1);
        assert_eq!((found.damages[0].object, &found.damages[0].path), (Some(digest), &path));
        assert!(lost(&cache.read(&digest)));
        cache.put(&large).unwrap();
        cache.commit().unwrap();
        assert_eq!(open(&fs).read(&digest).unwrap(), large);
    }
}

#[test]
fn sizes_alone_show_what_is_cut_or_gone() {
    let fixture = fixture();
    let (path, bytes) = fixture.file("000001.pack");
    fixture.fs.overwrite(&path, &bytes[..bytes.len() - 1]).unwrap();
    let options = VerifyOptions { repair: false, read_data: false };
    let fs = Arc::new(fixture.fs.clone());
    let reader = Cache::open(DIR.into(), fs, Access::ReadOnly).unwrap();
    let report = reader.verify(options, &|_, _| ()).unwrap();
    assert_eq!(report.damages.len(), 1, "{:?}", report.damages);
    assert_eq!(report.damages[0].path, path);
}

#[test]
fn verify_goes_on_behind_a_place_that_cannot_be_read() {
    let fs = MemoryFs::new();
    let faulty = Arc::new(FaultFs::new(Arc::new(fs.clone())));
    let cache = common::open_over(Arc::clone(&faulty) as Arc<dyn Fs>);
    let digests: Vec<Digest> =
        (0..8u8).map(|item| cache.put(&vec![item; 900_000]).unwrap()).collect();
    cache.commit().unwrap();
    let mut unclean = 0;
    for nth in 0.. {
        faulty.set(vec![Fault::NthOf { call: Call::Read, operation: nth, error: EIO }]);
        let report = cache.verify(VerifyOptions { repair: false, read_data: true }, &|_, _| ());
        if faulty.struck() == 0 {
            break;
        }
        // Without the index no damage can be detected here: that is an error.
        if let Ok(report) = report
            && !report.is_clean()
        {
            unclean += 1;
            assert!(report.damages.len() < digests.len(), "{:?}", report.damages);
        }
    }
    assert!(unclean >= 7, "each megabyte of the pack fails once, {unclean} were noticed");
}

/// Bytes at some position that are removed, and others that are inserted.
fn edit() -> impl Strategy<Value = (Index, usize, Vec<u8>)> {
    (any::<Index>(), 0..80_usize, vec(any::<u8>(), 0..80))
}

fn edited(bytes: &[u8], edits: &[(Index, usize, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (place, gone, come) in edits {
        let start = place.index(bytes.len() + 1);
        let end = (start + gone).min(bytes.len());
        bytes.splice(start..end, come.iter().copied());
    }
    bytes
}

proptest! {
    #[test]
    fn an_edited_pack_does_no_harm(edits in vec(edit(), 1..5)) {
        let fixture = fixture();
        let (path, bytes) = fixture.file("000001.pack");
        fixture.survives(&path, &edited(&bytes, &edits), &format!("{edits:?}"));
    }

    #[test]
    fn any_bytes_as_a_pack_do_no_harm(bytes in vec(any::<u8>(), 0..400)) {
        let fixture = fixture();
        let (path, _) = fixture.file("000001.pack");
        fixture.survives(&path, &bytes, "any bytes");
    }

    #[test]
    fn an_edited_stat_index_does_no_harm(edits in vec(edit(), 1..5)) {
        let fixture = fixture();
        let (path, bytes) = fixture.file("stat.idx");
        let damaged = edited(&bytes, &edits);
        fixture.fs.overwrite(&path, &damaged).unwrap();
        let index = StatIndex::load(&open(&fixture.fs)).unwrap();
        let entry = StatEntry::absent("a/b".into(), STAT);
        let is_whole = |section: &Section| section.iter().eq([entry.clone()]);
        prop_assert!(index.section(&STAT).is_none_or(is_whole));
    }
}
