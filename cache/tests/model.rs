//! Random use of a cache, with crashes in between, compared with a map in memory.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::collections::HashMap;

use cache::fs::MemoryFs;
use cache::{Digest, Table, VerifyOptions};
use common::open;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Put(u8),
    Record(u8, u8),
    Forget(u8),
    Commit,
    /// The process ends cleanly, without a commit.
    Reopen,
    Kill,
    PowerCut(u64),
    Rebuild,
    /// Removes everything except objects below this number.
    Sweep(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12u8).prop_map(Step::Put),
        6 => (0..6u8, any::<u8>()).prop_map(|(key, value)| Step::Record(key, value)),
        2 => (0..6u8).prop_map(Step::Forget),
        5 => Just(Step::Commit),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        2 => any::<u64>().prop_map(Step::PowerCut),
        1 => Just(Step::Rebuild),
        1 => (0..12u8).prop_map(Step::Sweep),
    ]
}

#[derive(Debug, Clone, Default)]
struct Model {
    objects: HashMap<u8, bool>,
    records: HashMap<u8, u8>,
}

const TABLE: Table = Table(4);

fn bytes(item: u8) -> Vec<u8> {
    vec![item; 300 * usize::from(item) + 1]
}

fn key(number: u8) -> Digest {
    Digest::of(&[number])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cache_is_a_map_that_survives_everything(steps in prop::collection::vec(step(), 1..60)) {
        let mut fs = MemoryFs::new();
        let mut cache = open(&fs);
        let (mut now, mut committed) = (Model::default(), Model::default());
        for step in steps {
            match step {
                Step::Put(item) => {
                    cache.put(&bytes(item)).unwrap();
                    now.objects.insert(item, true);
                }
                Step::Record(number, value) => {
                    cache.record(TABLE, &key(number), vec![value]).unwrap();
                    now.records.insert(number, value);
                }
                Step::Forget(number) => {
                    cache.forget(TABLE, &key(number)).unwrap();
                    now.records.remove(&number);
                }
                Step::Commit => {
                    cache.commit().unwrap();
                    committed = now.clone();
                }
                Step::Reopen | Step::Kill | Step::PowerCut(_) => {
                    match step {
                        Step::Kill => fs = fs.kill(),
                        Step::PowerCut(seed) if seed % 2 == 0 => fs = fs.crash(),
                        Step::PowerCut(seed) => fs = fs.crash_reordered(seed),
                        _ => drop(cache),
                    }
                    cache = open(&fs);
                    now = committed.clone();
                }
                Step::Rebuild => _ = cache.rebuild_index().unwrap(),
                Step::Sweep(below) => {
                    let live = |digest: &Digest| (0..below).any(|item| Digest::of(&bytes(item)) == *digest);
                    let plan = cache.sweep_plan(&live, &|_, _, _| true).unwrap();
                    cache.commit().unwrap();
                    cache.sweep(plan).unwrap();
                    // Not certainly removed: a rebuilt index may bring swept objects back.
                    for there in now.objects.iter_mut().filter(|(item, _)| **item >= below) {
                        *there.1 = false;
                    }
                    committed = now.clone();
                }
            }
            for (item, certain) in &now.objects {
                let digest = Digest::of(&bytes(*item));
                if *certain || cache.contains(&digest).unwrap() {
                    prop_assert_eq!(cache.read(&digest).unwrap(), bytes(*item));
                }
            }
            let mut found: Vec<_> =
                cache.scan(TABLE).unwrap().into_iter().map(|(key, value)| (key, value[0])).collect();
            let mut expected: Vec<_> =
                now.records.iter().map(|(number, value)| (key(*number), *value)).collect();
            found.sort();
            expected.sort();
            prop_assert_eq!(found, expected);
        }
        let report = cache.verify(VerifyOptions { repair: false, read_data: true }, &|_, _| ()).unwrap();
        prop_assert!(report.is_clean(), "{:?}", report.damages);
    }
}
