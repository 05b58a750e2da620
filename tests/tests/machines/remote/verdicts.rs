//! Verdicts on items in a remote, retries, and forged outcomes.

use std::sync::Arc;

use bytes::Bytes;
use cache::fs::RealFs;
use cache::{Access, Cache, Digest, Table};
use camino::Utf8Path;
use engine::record::{PortValue, StageRecord, decode, encode};
use remote::{Fresh, Outcome, Push, Remote, Settings};
use stage_core::{Bucket, Dataset};

use super::machines::{MANIFEST, Shared, another, first, machine, run, run_with, warnings};

#[test]
fn a_retry_wins_over_the_verdicts_of_the_remote() {
    let shared = Shared::new();
    let flag = tempfile::tempdir().unwrap();
    let flag = flag.path().join("up");
    // Fails for one item while the server is away.
    let flag_path = flag.to_str().unwrap();
    let command = format!("test {{text}} != 'Sana c.' -o -e {flag_path} && printf %s {{text}}");
    let manifest = MANIFEST.replace(
        "fields = [\"text\"]\ncommand = \"printf %s {text} | wc -w > {out.words}\"",
        &{
            format!(
                "fields = [\"text\"]\nquarantine = 0.5\ncommand = \"{command} > {{out.words}}\""
            )
        },
    );
    assert_ne!(manifest, MANIFEST);
    let one = machine(&manifest);
    let ran = run(&one, &shared);
    assert_eq!(ran.quarantined("words"), 1, "{}", ran.errors);
    // Another machine takes the verdict over.
    let other = another(&one);
    let ran = run(&other, &shared);
    assert_eq!((ran.executed().get("words"), ran.quarantined("words")), (None, 1));
    std::fs::write(&flag, "").unwrap();
    other.printed(&["retry", "words", "--remote", &shared.url()]);
    let ran = run(&other, &shared);
    assert_eq!((ran.executed()["words"], ran.quarantined("words")), (1, 0), "{:?}", warnings(&ran));
    assert_eq!(other.files("out").len(), one.files("out").len() + 1);
    let told = warnings(&ran);
    assert!(told.iter().any(|note| note.contains("from before `retry`")), "{told:?}");
    // It stays so.
    run_with(&other, &["--remote", &shared.url()]).assert_nothing_done();
    assert!(other.printed(&["push", "--remote", &shared.url()]).contains("is up to date"));
}

/// Pushes a list that names a part that nobody has; returns it and its pack.
fn push_list(shared: &Shared) -> (Digest, Digest) {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("cache");
    let cache = Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let address = shared.url().parse().unwrap();
    let rules = engine::mirror::rules();
    let remote = Remote::open(address, Settings::default(), rules, cache.clone()).unwrap();
    let bucket = Bucket { number: 0, chunk: Digest::of(b"nothing"), items: 5 };
    let list = Dataset { bits: 0, buckets: vec![bucket] }.encode();
    let root = cache.put(&list).unwrap();
    cache.commit().unwrap();
    let key = Digest::of(b"forged");
    let outcome = Fresh {
        key,
        name: "forged".into(),
        table: Table(3),
        value: Bytes::new(),
        summary: key,
        objects: vec![root],
    };
    let objects = vec![(root, list.len() as u64)];
    remote.push(Push { objects, outcomes: vec![outcome], ..Push::nothing() }).unwrap();
    let written = shared.path().join(format!("results/{key}"));
    let written = Outcome::decode(&std::fs::read(written).unwrap(), &key).unwrap();
    (root, written.packs[0])
}

#[test]
fn a_forged_outcome_that_names_a_missing_list_is_not_used() {
    let shared = Shared::new();
    let one = first(&shared);
    let results = shared.files("results");
    let (list, pack) = push_list(&shared);
    // The list itself, or a part of it, is missing.
    for (root, packs) in [(Digest::of(b"nothing"), Vec::new()), (list, vec![pack])] {
        for path in &results {
            let key: Digest = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let whole = std::fs::read(path).unwrap();
            let mut outcome = Outcome::decode(&whole, &key).unwrap();
            let mut record = decode::<StageRecord>(&outcome.value).unwrap();
            let mut values = record.outputs.values_mut();
            let Some(PortValue::Dataset { root: named, .. }) = values.next() else { continue };
            *named = root;
            outcome.value = encode(&record);
            outcome.packs.clone_from(&packs);
            std::fs::write(path, outcome.encode()).unwrap();
            let other = another(&one);
            let ran = run_with(&other, &["--remote", &shared.url()]);
            assert_eq!(ran.last()["status"], "done", "{:?} {}", warnings(&ran), ran.errors);
            assert_eq!(other.files("out"), one.files("out"));
            if root == list {
                let told = warnings(&ran);
                assert!(told.iter().any(|note| note.contains("a list of its items")), "{told:?}");
            }
            std::fs::write(path, whole).unwrap();
        }
    }
}
