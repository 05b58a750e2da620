//! The clock is wrong, and files change while they are read. No key depends on time, and no outcome
//! mixes two contents.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use cache::fs::{
    Call, DirEntry, Fs, FsFile, FsResult, Interceptor, Layer, MemoryFs, Metadata, Open,
};
use camino::{Utf8Path, Utf8PathBuf};
use engine::engine::RunOptions;
use engine::event::Status;
use throstle_tests::worlds::{TEXTS, finished, fresh};
use throstle_tests::{Lab, Ran};

const DAY: i64 = 86_400_000_000_000;
const YEAR: i64 = 365 * DAY;

/// The machine's files with another clock.
#[derive(Debug)]
struct OddClock {
    below: MemoryFs,
    shift: AtomicI64,
}

impl Fs for OddClock {
    fn open(&self, path: &Utf8Path, how: Open) -> FsResult<Box<dyn FsFile>> {
        self.below.open(path, how)
    }
    fn metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        self.below.metadata(path)
    }
    fn symlink_metadata(&self, path: &Utf8Path) -> FsResult<Metadata> {
        self.below.symlink_metadata(path)
    }
    fn resolve(&self, path: &Utf8Path) -> FsResult<Utf8PathBuf> {
        self.below.resolve(path)
    }
    fn read_dir(&self, path: &Utf8Path) -> FsResult<Vec<DirEntry>> {
        self.below.read_dir(path)
    }
    fn create_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.below.create_dir(path)
    }
    fn remove_file(&self, path: &Utf8Path) -> FsResult<()> {
        self.below.remove_file(path)
    }
    fn remove_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.below.remove_dir(path)
    }
    fn rename(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        self.below.rename(from, to)
    }
    fn hard_link(&self, original: &Utf8Path, link: &Utf8Path) -> FsResult<()> {
        self.below.hard_link(original, link)
    }
    fn reflink(&self, from: &Utf8Path, to: &Utf8Path) -> FsResult<()> {
        self.below.reflink(from, to)
    }
    fn set_readonly(&self, path: &Utf8Path) -> FsResult<()> {
        self.below.set_readonly(path)
    }
    fn sync_dir(&self, path: &Utf8Path) -> FsResult<()> {
        self.below.sync_dir(path)
    }
    fn now(&self) -> i64 {
        self.below.now() + self.shift.load(Ordering::SeqCst)
    }
}

fn at_clock(memory: &MemoryFs, shift: i64) -> Lab {
    let clock = OddClock { below: memory.clone(), shift: AtomicI64::new(shift) };
    Lab::through(memory, Arc::new(clock))
}

const SHIFTS: [i64; 5] = [-DAY, -53 * YEAR, 0, DAY, 70 * YEAR];

#[test]
fn no_outcome_depends_on_the_clock() {
    let expected = Lab::in_memory(&finished());
    for first in SHIFTS {
        let memory = fresh();
        let ran = at_clock(&memory, first).run();
        assert_eq!(ran.status, Status::Done, "{first}");
        for second in SHIFTS {
            let lab = at_clock(&memory, second);
            let again = lab.run();
            assert!(again.nothing_executed(), "{first}, then {second}: {again:?}");
            assert_eq!(lab.exports(), expected.exports());
        }
    }
}

#[test]
fn an_edit_is_seen_whatever_the_clock_says() {
    for first in SHIFTS {
        for second in SHIFTS {
            let memory = fresh();
            at_clock(&memory, first).run();
            let lab = at_clock(&memory, second);
            lab.write("data/ben1.txt", "mojn");
            assert_eq!(lab.run().executed("loud"), 1, "{first}, then {second}");
            assert_eq!(lab.read("out/ben1.txt").unwrap(), "MOJN! MOJN!");
        }
    }
}

#[test]
fn durations_are_never_negative() {
    for shift in SHIFTS {
        let ran = at_clock(&fresh(), shift).run();
        let seconds = ran.stages.values().map(|counts| counts.seconds);
        assert!(seconds.into_iter().all(|seconds| seconds >= 0.0), "{ran:?}");
    }
}

const INSTANT: i64 = 1_800_000_000_123_456_789;

/// Writes a text of the same length at the same time as an earlier one, and in the same file.
fn rewritten_in_the_instant(hashed_later: i64) -> Lab {
    let memory = fresh();
    let lab = Lab::in_memory(&memory);
    memory.set_clock(INSTANT);
    lab.write("data/ben1.txt", "moin");
    memory.set_clock(INSTANT + hashed_later);
    lab.run();
    memory.set_clock(INSTANT);
    lab.write("data/ben1.txt", "mojn");
    memory.set_clock(INSTANT + hashed_later);
    lab
}

#[test]
fn an_edit_in_the_instant_of_the_run_is_seen() {
    for hashed_later in [0, 1_000, 50_000_000] {
        let lab = rewritten_in_the_instant(hashed_later);
        assert_eq!(lab.run().executed("loud"), 1, "{hashed_later}");
        assert_eq!(lab.read("out/ben1.txt").unwrap(), "MOJN! MOJN!");
    }
}

#[test]
fn an_edit_behind_a_stat_that_was_set_back_is_found_by_verify_alone() {
    let mut lab = rewritten_in_the_instant(10_000_000_000);
    assert!(lab.run().nothing_executed(), "a stat that is clearly older is trusted");
    lab.verify = true;
    assert_eq!(lab.run().executed("loud"), 1);
    assert_eq!(lab.read("out/ben1.txt").unwrap(), "MOJN! MOJN!");
}

/// Rewrites a source at the n-th operation on it.
#[derive(Debug)]
struct Meddler {
    memory: MemoryFs,
    at: u64,
    seen: AtomicU64,
}

const MEDDLED: &str = "/lab/data/ben1.txt";
const LATER: &[u8] = b"completely other";

impl Interceptor for Meddler {
    fn before(&self, _: Call, path: &Utf8Path) -> std::io::Result<()> {
        if path == MEDDLED && self.seen.fetch_add(1, Ordering::SeqCst) == self.at {
            let file = self.memory.open(path, Open::ReadWrite).unwrap();
            file.set_len(0).unwrap();
            file.write_all_at(LATER, 0).unwrap();
        }
        Ok(())
    }
}

fn meddled(at: u64) -> (MemoryFs, Option<Ran>) {
    let memory = fresh();
    let meddler = Meddler { memory: memory.clone(), at, seen: AtomicU64::new(0) };
    let layer = Arc::new(Layer::over(Arc::new(memory.clone()), meddler));
    let lab = Lab::through(&memory, Arc::clone(&layer) as Arc<dyn Fs>);
    let ran = lab.attempt(&lab.pipeline(), &RunOptions::default()).unwrap();
    let struck = layer.interceptor().seen.load(Ordering::SeqCst) > at;
    (memory, struck.then_some(ran))
}

#[test]
fn a_source_that_changes_at_any_moment_is_never_mixed() {
    let (old, new) = ("MOIN! MOIN!", "COMPLETELY OTHER! COMPLETELY OTHER!");
    let mut moments = 0;
    for at in 0.. {
        let (memory, Some(ran)) = meddled(at) else { break };
        let lab = Lab::in_memory(&memory);
        let own = lab.read("out/ben1.txt");
        let own = own.as_deref();
        assert!(own.is_none() || own == Some(old) || own == Some(new), "{at}: {own:?}");
        if ran.status == Status::Done {
            let all = lab.read("out/all.txt").unwrap();
            let line = format!("ben1: {}\n", own.unwrap());
            assert!(all.contains(&line), "moment {at}: {all}");
        }
        assert_eq!(lab.run().status, Status::Done);
        assert_eq!(lab.read("out/ben1.txt").as_deref(), Some(new), "moment {at}");
        assert_eq!(lab.exports().len(), TEXTS.len() + 1);
        moments += 1;
    }
    assert!(moments >= 5, "{moments} moments");
}
