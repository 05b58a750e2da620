//! After any edit of an archive's files, only packed entries come out of it, and missing ones are
//! reported.
#![allow(clippy::unwrap_used)]

use crate::common;

use cache::fs::{Fs, MemoryFs};
use cache::{Cache, Digest};
use camino::Utf8PathBuf;
use common::archive::*;
use common::open;
use proptest::prelude::*;

const FOLDER: &str = "/a";
/// The overlay is small, so every position is likely to hit something.
const BASE: &str = "/base";

/// An edit of one file. Positions are relative to its length.
#[derive(Debug, Clone)]
enum Edit {
    Flip(f64),
    Cut(f64),
    Zero(f64, f64),
    Insert(f64, Vec<u8>),
    /// A part is repeated after itself.
    Double(f64, f64),
    Remove,
    /// The file is swapped with the next one.
    Swap,
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = || 0.0..1.0f64;
    prop_oneof![
        4 => place().prop_map(Edit::Flip),
        2 => place().prop_map(Edit::Cut),
        2 => (place(), place()).prop_map(|(from, to)| Edit::Zero(from, to)),
        2 => (place(), prop::collection::vec(any::<u8>(), 1..100)).prop_map(|(at, bytes)| Edit::Insert(at, bytes)),
        2 => (place(), place()).prop_map(|(from, to)| Edit::Double(from, to)),
        1 => Just(Edit::Remove),
        2 => Just(Edit::Swap),
    ]
}

fn range(bytes: &[u8], one: f64, other: f64) -> std::ops::Range<usize> {
    let at = |part: f64| (part * bytes.len() as f64) as usize;
    at(one.min(other))..at(one.max(other))
}

fn edited(mut bytes: Vec<u8>, edit: &Edit) -> Vec<u8> {
    match edit {
        Edit::Flip(at) => {
            let at = range(&bytes, 0.0, *at).end;
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 4);
        }
        Edit::Cut(at) => bytes.truncate(range(&bytes, 0.0, *at).end),
        Edit::Zero(from, to) => {
            let range = range(&bytes, *from, *to);
            bytes[range].fill(0);
        }
        Edit::Insert(at, more) => {
            let at = range(&bytes, 0.0, *at).end;
            bytes.splice(at..at, more.iter().copied());
        }
        Edit::Double(from, to) => {
            let range = range(&bytes, *from, *to);
            let again = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, again);
        }
        Edit::Remove | Edit::Swap => {}
    }
    bytes
}

fn apply(fs: &MemoryFs, number: usize, edit: &Edit) {
    let files = fs.read_dir(FOLDER.into()).unwrap();
    let Some(count) = Some(files.len()).filter(|count| *count > 0) else { return };
    let path = |at: usize| Utf8PathBuf::from(FOLDER).join(&files[at % count].name);
    let (path, next) = (path(number), path(number + 1));
    let (bytes, other) = (fs.read(&path).unwrap(), fs.read(&next).unwrap());
    let replace = |path: &Utf8PathBuf, bytes: &[u8]| {
        fs.remove_file(path).unwrap();
        fs.write_new(path, bytes).unwrap();
    };
    match edit {
        Edit::Remove => fs.remove_file(&path).unwrap(),
        Edit::Swap => {
            replace(&path, &other);
            replace(&next, &bytes);
        }
        _ => replace(&path, &edited(bytes, edit)),
    }
}

fn records(cache: &Cache) -> Vec<(Digest, Vec<u8>)> {
    let records = cache.scan(RECORDS).unwrap();
    let mut records: Vec<_> =
        records.into_iter().map(|(key, value)| (key, value.to_vec())).collect();
    records.sort();
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_was_not_packed_comes_out_of_an_archive(
        edits in prop::collection::vec((0..8usize, edit()), 1..4)
    ) {
        let fs = MemoryFs::new();
        let cache = open(&fs);
        fill_small(&cache, 1);
        pack_to(&cache, BASE, &[]).unwrap();
        fill_small(&cache, 2);
        pack_in_volumes_of(4_000, &cache, FOLDER, &[BASE]).unwrap();
        for (number, edit) in &edits {
            apply(&fs, *number, edit);
        }
        let other = elsewhere(&fs);
        let whole = records(&cache);
        match unpack_into(&other, &[BASE, FOLDER]) {
            Err(_) => prop_assert_eq!(records(&other), vec![], "refused before anything came in"),
            Ok(taken) => {
                let found = records(&other);
                for record in &found {
                    prop_assert!(whole.contains(record), "{:?}", record);
                }
                let keys: Vec<Digest> = whole.iter().map(|(key, _)| *key).collect();
                let there = other.contains_all(&keys).unwrap();
                if found != whole || there.contains(&false) {
                    prop_assert!(!taken.damages.is_empty() || !taken.without_base.is_empty());
                    prop_assert!(other.has_losses());
                }
            }
        }
        assert_sound(&other);
        // A valid entry wins over a damaged one.
        pack_in_volumes_of(4_000, &cache, "/whole", &[BASE]).unwrap();
        unpack_into(&other, &[BASE, "/whole"]).unwrap();
        prop_assert_eq!(records(&other), whole);
        assert_has_small(&other, 1);
        assert_has_small(&other, 2);
    }
}
