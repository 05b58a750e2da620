#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use cache::Access;
use cache::fs::MemoryFs;
use stage_core::key::StageKey;
use stage_core::{Blob, Item, Parameters, Value};

use super::*;
use crate::record::{BEGUN, BegunRecord, RUN, encode, last_key, run_key};

const SIZE: usize = 1000;

fn cache() -> Cache {
    Cache::open("/cache".into(), Arc::new(MemoryFs::new()), Access::ReadWrite).unwrap()
}

fn keep_last(keep_runs: usize) -> GcLimits {
    GcLimits { keep_runs, kept_since: None, most_bytes: None }
}

/// Stores a blob, and the record of the item that it was made for.
fn made(cache: &Cache, name: &str, seconds: f32) -> Fields {
    let bytes: Vec<u8> = name.bytes().cycle().take(SIZE).collect();
    let digest = cache.put(&bytes).unwrap();
    let blob = Blob { digest, size: SIZE as u64, kind: "audio/wav".into() };
    let fields: Fields = [("audio", Value::Blob(Arc::new(blob)))].into_iter().collect();
    let record = ItemRecord::Done { fields: fields.clone(), notes: vec![], seconds };
    cache.record(ITEM, &item(name), encode(&record)).unwrap();
    fields
}

fn item(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// Stores the outcome of a stage that made these items; returns its key.
fn outcome(cache: &Cache, stage: &str, items: &[&str], seconds: f32) -> Digest {
    let items = items.iter().map(|name| Item::new(*name, made(cache, name, seconds))).collect();
    let parts = Dataset::build(items).unwrap();
    for chunk in &parts.chunks {
        cache.put(chunk).unwrap();
    }
    let root = cache.put(&parts.dataset.encode()).unwrap();
    let items = parts.dataset.len() as u64;
    let record = StageRecord {
        outputs: [("output".to_owned(), PortValue::Dataset { root, items })].into(),
        items,
        ..StageRecord::default()
    };
    let key = Digest::of(stage.as_bytes());
    cache.record(STAGE, &key, encode(&record)).unwrap();
    key
}

fn run(cache: &Cache, number: u64, status: Status, keys: &[(&str, Digest)], pinned: bool) {
    let record = RunRecord {
        run: number,
        pipeline: "p".into(),
        started: number as i64 * 1000,
        seconds: 1.0,
        status,
        stages: [].into(),
        keys: keys.iter().map(|(name, key)| (name.to_string(), *key)).collect(),
        licenses: [].into(),
        pinned,
    };
    cache.record(RUN, &run_key(number), encode(&record)).unwrap();
    cache.commit().unwrap();
}

/// Carries the plan out; returns the items that still have their blob and their record.
fn left(cache: &Cache, limits: &GcLimits, names: &[&str]) -> Vec<String> {
    let plan = plan(cache, limits).unwrap();
    cache.sweep(plan.sweep).unwrap();
    let is_left = |name: &&&str| {
        let bytes: Vec<u8> = name.bytes().cycle().take(SIZE).collect();
        let blob = cache.contains(&Digest::of(&bytes)).unwrap();
        let record = cache.get(ITEM, &item(name)).unwrap().is_some();
        assert_eq!(blob, record, "{name}: a record goes with its blob");
        blob
    };
    names.iter().filter(is_left).map(ToString::to_string).collect()
}

#[test]
fn what_no_kept_run_reaches_goes() {
    let cache = cache();
    let old = outcome(&cache, "old", &["a", "b"], 1.0);
    let new = outcome(&cache, "new", &["b", "c"], 1.0);
    for key in [&old, &new] {
        cache.record(MADE_OF, key, vec![1]).unwrap();
    }
    run(&cache, 1, Status::Done, &[("s", old)], false);
    run(&cache, 2, Status::Done, &[("s", new)], false);
    assert_eq!(left(&cache, &keep_last(2), &["a", "b", "c"]), ["a", "b", "c"]);
    assert_eq!(left(&cache, &keep_last(1), &["a", "b", "c"]), ["b", "c"]);
    for table in [STAGE, MADE_OF] {
        assert!(cache.get(table, &old).unwrap().is_none());
        assert!(cache.get(table, &new).unwrap().is_some());
    }
}

#[test]
fn pinned_and_young_runs_are_kept_beyond_the_last_ones() {
    let cache = cache();
    let keys: Vec<Digest> =
        ["a", "b", "c", "d"].iter().map(|name| outcome(&cache, name, &[name], 1.0)).collect();
    for (at, key) in keys.iter().enumerate() {
        run(&cache, at as u64 + 1, Status::Done, &[("s", *key)], at == 0);
    }
    let limits = GcLimits { kept_since: Some(3000), ..keep_last(1) };
    assert_eq!(left(&cache, &limits, &["a", "b", "c", "d"]), ["a", "c", "d"]);
}

#[test]
fn the_present_state_of_a_stage_counts_though_later_runs_left_it_out() {
    let cache = cache();
    let key = StageKey {
        kind: "k".into(),
        version: 1,
        parameters: Parameters::default(),
        files: [].into(),
        inputs: [].into(),
        salt: None,
        parent: None,
    };
    outcome(&cache, "x", &["a"], 1.0);
    let record = cache.get(STAGE, &Digest::of(b"x")).unwrap().unwrap();
    cache.record(STAGE, &key.digest(), record.to_vec()).unwrap();
    let last = LastRecord { key, roots: [].into(), run: 1, reasons: vec![], previous: None };
    cache.record(LAST, &last_key("p", "x"), encode(&last)).unwrap();
    let other = outcome(&cache, "other", &["b"], 1.0);
    run(&cache, 2, Status::Done, &[("other", other)], false);
    assert_eq!(left(&cache, &keep_last(1), &["a", "b"]), ["a", "b"]);
}

#[test]
fn items_of_a_run_that_is_not_finished_are_kept() {
    let cache = cache();
    let old = outcome(&cache, "old", &["a"], 1.0);
    run(&cache, 1, Status::Done, &[("s", old)], false);
    made(&cache, "half", 1.0);
    run(&cache, 2, Status::Paused, &[], false);
    assert_eq!(left(&cache, &keep_last(1), &["half"]), ["half"]);
    run(&cache, 3, Status::Done, &[], false);
    assert!(left(&cache, &keep_last(1), &["half"]).is_empty());
}

#[test]
fn items_of_a_run_that_was_killed_are_kept_whatever_became_of_its_log() {
    let cache = cache();
    run(&cache, 1, Status::Done, &[], false);
    made(&cache, "half", 1.0);
    cache.commit().unwrap();
    let begun = BegunRecord { run: 2, pipeline: "p".into(), started: 0 };
    cache.record(BEGUN, &run_key(2), encode(&begun)).unwrap();
    cache.commit().unwrap();
    assert_eq!(plan(&cache, &keep_last(1)).unwrap().unfinished, Some(2));
    assert_eq!(left(&cache, &keep_last(1), &["half"]), ["half"]);
}

#[test]
fn under_a_size_limit_the_cheapest_goes_first_and_pinned_runs_never() {
    let cache = cache();
    let cheap = outcome(&cache, "cheap", &["a", "b"], 0.1);
    let dear = outcome(&cache, "dear", &["c", "d"], 100.0);
    let pinned = outcome(&cache, "pinned", &["e"], 0.0);
    run(&cache, 1, Status::Done, &[("cheap", cheap), ("dear", dear)], false);
    run(&cache, 2, Status::Done, &[("pinned", pinned)], true);
    let limits = GcLimits { most_bytes: Some(3 * SIZE as u64 + 900), ..keep_last(3) };
    let given_up = plan(&cache, &limits).unwrap().given_up;
    assert_eq!(given_up.iter().map(|one| one.stage.as_str()).collect::<Vec<_>>(), ["cheap"]);
    assert_eq!(left(&cache, &limits, &["a", "b", "c", "d", "e"]), ["c", "d", "e"]);
    let limits = GcLimits { most_bytes: Some(1), ..keep_last(3) };
    assert_eq!(left(&cache, &limits, &["c", "d", "e"]), ["e"]);
}

/// The record of training that has saved this state.
fn checkpoint(cache: &Cache, key: &Digest, name: &str, run: u64) {
    let state = made(cache, name, 1.0);
    let record = CheckpointRecord {
        pipeline: "p".into(),
        run,
        parent: None,
        states: vec![state],
        seconds: 1.0,
    };
    cache.record(CHECKPOINT, key, encode(&record)).unwrap();
    cache.commit().unwrap();
}

#[test]
fn a_checkpoint_is_kept_as_long_as_one_of_the_last_runs_worked_on_it() {
    let cache = cache();
    let key = Digest::of(b"training");
    checkpoint(&cache, &key, "state", 1);
    // The run that made it was killed and left no record.
    run(&cache, 2, Status::Done, &[], false);
    assert_eq!(left(&cache, &keep_last(2), &["state"]), ["state"]);
    assert!(cache.get(CHECKPOINT, &key).unwrap().is_some());
    run(&cache, 3, Status::Done, &[], false);
    assert!(left(&cache, &keep_last(2), &["state"]).is_empty());
    assert!(cache.get(CHECKPOINT, &key).unwrap().is_none());
}

#[test]
fn the_checkpoint_of_a_stage_that_is_done_goes() {
    let cache = cache();
    let key = outcome(&cache, "training", &["model"], 1.0);
    checkpoint(&cache, &key, "state", 1);
    run(&cache, 1, Status::Done, &[("s", key)], false);
    assert_eq!(left(&cache, &keep_last(1), &["model", "state"]), ["model"]);
    assert!(cache.get(CHECKPOINT, &key).unwrap().is_none());
}

#[test]
fn a_checkpoint_and_the_model_it_came_from_stay_under_a_size_limit() {
    let cache = cache();
    let parent = outcome(&cache, "parent", &["model"], 1.0);
    let other = outcome(&cache, "other", &["other"], 1.0);
    let state = made(&cache, "state", 1.0);
    let record = CheckpointRecord {
        pipeline: "p".into(),
        run: 1,
        parent: Some(parent),
        states: vec![state],
        seconds: 1.0,
    };
    cache.record(CHECKPOINT, &Digest::of(b"training"), encode(&record)).unwrap();
    run(&cache, 1, Status::Done, &[("o", other)], false);
    let limits = GcLimits { most_bytes: Some(1), ..keep_last(1) };
    assert_eq!(left(&cache, &limits, &["model", "other", "state"]), ["model", "state"]);
}
