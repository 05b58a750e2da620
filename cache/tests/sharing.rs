//! Several threads, handles and processes on one cache at a time.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::time::Duration;

use cache::fs::{Call, Interceptor, Layer, MemoryFs, RealFs};
use cache::{Access, Cache, CacheError, Digest, Table, VerifyOptions};
use camino::Utf8Path;
use common::open;

const TABLE: Table = Table(3);
const ITEMS: u32 = 60;

fn real(dir: &Utf8Path) -> Cache {
    Cache::open(dir, Arc::new(RealFs), Access::ReadWrite).unwrap()
}

fn temporary() -> (tempfile::TempDir, camino::Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(dir.path()).unwrap().join("cache");
    (dir, path)
}

fn item(number: u32) -> (Digest, Vec<u8>) {
    (Digest::of(&number.to_le_bytes()), number.to_le_bytes().repeat(300))
}

/// The behaviour of an engine: every missing item is claimed, made and committed.
fn make_all(cache: &Cache, made: &AtomicUsize) {
    for number in 0..ITEMS {
        let (key, bytes) = item(number);
        while cache.get(TABLE, &key).unwrap().is_none() {
            let Some(_claim) = cache.claim(&key).unwrap() else {
                assert!(cache.wait_for(&key, Duration::from_secs(60)).unwrap(), "a deadlock");
                continue;
            };
            // Another thread may have finished it between the look-up and the claim.
            if cache.get(TABLE, &key).unwrap().is_some() {
                break;
            }
            made.fetch_add(1, Ordering::SeqCst);
            let digest = cache.put(&bytes).unwrap();
            cache.record(TABLE, &key, digest.as_bytes().to_vec()).unwrap();
            cache.commit().unwrap();
        }
    }
}

fn assert_complete(cache: &Cache) {
    for number in 0..ITEMS {
        let (key, bytes) = item(number);
        let value = cache.get(TABLE, &key).unwrap().unwrap();
        assert_eq!(value, &Digest::of(&bytes).as_bytes()[..]);
        assert_eq!(cache.read(&Digest::of(&bytes)).unwrap(), bytes);
    }
    let options = VerifyOptions { repair: false, read_data: true };
    assert!(cache.verify(options, &|_, _| ()).unwrap().is_clean());
}

#[test]
fn threads_share_one_handle_and_do_each_item_once() {
    let fs = MemoryFs::new();
    let cache = open(&fs);
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| make_all(&cache, &made));
        }
    });
    assert_eq!(made.into_inner(), ITEMS as usize);
    assert_complete(&cache);
}

#[test]
fn handles_on_a_real_folder_do_each_item_once() {
    let (_guard, dir) = temporary();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| make_all(&real(&dir), &made));
        }
    });
    assert_eq!(made.into_inner(), ITEMS as usize);
    assert_complete(&real(&dir));
}

/// Starts this test program again, to run the test of that name in another process.
fn process(test: &str, dir: &Utf8Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args([&format!("sharing::{test}"), "--exact", "--nocapture", "--include-ignored"])
        .env("CACHE_TEST_FOLDER", dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The folder to work in, in another process.
fn folder() -> Option<camino::Utf8PathBuf> {
    std::env::var("CACHE_TEST_FOLDER").ok().map(Into::into)
}

#[test]
#[ignore = "the body of the processes that other tests start"]
fn process_that_makes_all_items() {
    if let Some(dir) = folder() {
        make_all(&real(&dir), &AtomicUsize::new(0));
    }
}

#[test]
fn eight_processes_share_a_cache() {
    let (_guard, dir) = temporary();
    let processes: Vec<_> = (0..8).map(|_| process("process_that_makes_all_items", &dir)).collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        // A reader on changed pages would panic inside, and recover by rebuilding the index.
        assert!(output.status.success() && !errors.contains("panicked"), "{errors}");
    }
    let cache = real(&dir);
    assert_complete(&cache);
    assert_eq!(cache.stats().unwrap().records[&TABLE], u64::from(ITEMS));
}

#[test]
fn killed_processes_leave_a_cache_that_others_finish() {
    let (_guard, dir) = temporary();
    for round in 0..12 {
        let mut child = process("process_that_makes_all_items", &dir);
        std::thread::sleep(Duration::from_millis(5 + round * 9));
        child.kill().unwrap();
        child.wait().unwrap();
        if dir.join("FORMAT").exists() {
            let options = VerifyOptions { repair: false, read_data: true };
            let report = real(&dir).verify(options, &|_, _| ()).unwrap();
            assert!(report.is_clean(), "{:?}", report.damages);
        }
    }
    let cache = real(&dir);
    make_all(&cache, &AtomicUsize::new(0));
    assert_complete(&cache);
    assert_eq!(std::fs::read_dir(dir.join("staging")).unwrap().count(), 0);
}

#[test]
#[ignore = "the body of the processes that other tests start"]
fn process_that_holds_a_claim() {
    if let Some(dir) = folder() {
        let cache = real(&dir);
        let _claim = cache.claim(&Digest::of(b"held")).unwrap().unwrap();
        std::fs::write(dir.join("claimed"), b"").unwrap();
        // Until it is killed.
        std::io::stdin().read_line(&mut String::new()).unwrap();
    }
}

#[test]
fn a_claim_dies_with_its_process() {
    let (_guard, dir) = temporary();
    let cache = real(&dir);
    let mut child = process("process_that_holds_a_claim", &dir);
    while !dir.join("claimed").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the process ended early");
        std::thread::sleep(Duration::from_millis(2));
    }
    let key = Digest::of(b"held");
    assert!(cache.claim(&key).unwrap().is_none());
    assert!(!cache.wait_for(&key, Duration::ZERO).unwrap());
    assert!(cache.claim(&Digest::of(b"other")).unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(cache.wait_for(&key, Duration::from_secs(60)).unwrap());
    assert!(cache.claim(&key).unwrap().is_some());
}

#[test]
fn a_key_is_claimed_once_also_within_a_process() {
    let (_guard, dir) = temporary();
    let (one, other) = (real(&dir), real(&dir));
    let key = Digest::of(b"item");
    let claim = one.claim(&key).unwrap().unwrap();
    assert!(one.claim(&key).unwrap().is_none());
    assert!(other.claim(&key).unwrap().is_none());
    drop(claim);
    assert!(other.claim(&key).unwrap().is_some());
}

#[test]
fn readers_beside_sweeps_see_a_miss_at_worst() {
    let (_guard, dir) = temporary();
    let (writer, reader) = (real(&dir), real(&dir));
    let kept: Vec<Vec<u8>> = (0..40u8).map(|number| vec![number; 3000]).collect();
    let digests: Vec<Digest> = kept.iter().map(|bytes| writer.put(bytes).unwrap()).collect();
    writer.commit().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                for (digest, bytes) in digests.iter().zip(&kept) {
                    match reader.read(digest) {
                        Ok(found) => assert_eq!(found, bytes),
                        Err(CacheError::Missing { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
        });
        for round in 0..15u32 {
            for number in 0..100u32 {
                writer.put(&(round * 1000 + number).to_le_bytes().repeat(500)).unwrap();
            }
            writer.commit().unwrap();
            let plan = writer.sweep_plan(&|digest| digests.contains(digest), &|_, _, _| true);
            writer.sweep(plan.unwrap()).unwrap();
        }
        stop.store(true, Ordering::SeqCst);
    });
    for (digest, bytes) in digests.iter().zip(&kept) {
        assert_eq!(&reader.read(digest).unwrap(), bytes, "a live object was swept");
    }
}

/// At each sync of the index, when all pages of a change are written: the number of records that
/// another thread can read.
#[derive(Debug, Default)]
struct ReadersAtSyncs {
    cache: OnceLock<Cache>,
    found: Mutex<Vec<Option<usize>>>,
}

impl Interceptor for ReadersAtSyncs {
    fn before(&self, call: Call, path: &Utf8Path) -> std::io::Result<()> {
        let is_sync = call == Call::SyncData && path.file_name() == Some("ledger.redb");
        if let (Some(cache), true) = (self.cache.get().cloned(), is_sync) {
            let (sender, receiver) = mpsc::channel();
            std::thread::spawn(move || sender.send(readable(&cache)));
            let found = receiver.recv_timeout(Duration::from_secs(60)).ok();
            self.found.lock().unwrap().push(found);
        }
        Ok(())
    }
}

const RECORDS: u32 = 3000;

fn readable(cache: &Cache) -> usize {
    let is_right = |number: &u32| {
        let (key, bytes) = item(*number);
        cache.get(TABLE, &key).unwrap().is_some_and(|value| value == bytes[..100])
    };
    (0..RECORDS).filter(is_right).count()
}

#[test]
fn a_change_of_the_index_keeps_no_reader_of_its_process_waiting() {
    let fs = Arc::new(Layer::over(Arc::new(MemoryFs::new()), ReadersAtSyncs::default()));
    let cache = Cache::open("/cache".into(), fs.clone(), Access::ReadWrite).unwrap();
    for number in 0..RECORDS {
        let (key, bytes) = item(number);
        cache.record(TABLE, &key, bytes[..100].to_vec()).unwrap();
    }
    cache.commit().unwrap();
    let readers = fs.interceptor();
    for round in 1..4 {
        assert!(cache.get(TABLE, &item(0).0).unwrap().is_some());
        for number in (0..RECORDS).map(|number| round * RECORDS + number) {
            cache.record(TABLE, &item(number).0, vec![1; 100]).unwrap();
        }
        readers.cache.get_or_init(|| cache.clone());
        cache.commit().unwrap();
    }
    let found = readers.found.lock().unwrap();
    assert!(found.len() >= 3, "the index was synced {} times", found.len());
    assert!(found.iter().all(|found| *found == Some(RECORDS as usize)), "{found:?}");
}
