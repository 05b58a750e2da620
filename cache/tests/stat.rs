//! The stat index detects every change that the file system can show.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used)]

use std::fs::{self, File, FileTimes};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use cache::fs::{Call, Fs, Interceptor, Layer, MemoryFs, RealFs};
use cache::stat::{
    NewContent, Section, StatEntry, StatIndex, What, check, check_through, differing, hash_again,
    hash_file,
};
use cache::{Access, Cache, CacheError, Digest};
use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::FileType;

const KEY: Digest = Digest::from_bytes([1; 32]);

struct Folder {
    _guard: tempfile::TempDir,
    base: Utf8PathBuf,
    cache: Cache,
}

impl Folder {
    fn new() -> Folder {
        let guard = tempfile::tempdir().unwrap();
        let base = Utf8Path::from_path(guard.path()).unwrap().to_owned();
        let cache = Cache::open(&base.join("cache"), Arc::new(RealFs), Access::ReadWrite).unwrap();
        Folder { _guard: guard, base, cache }
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    }

    /// The entry of a file as if it had been hashed an hour after it was written.
    fn entry(&self, path: &str) -> StatEntry {
        let (_, mut entry) = hash_file(&RealFs, &self.base.join(path)).unwrap();
        entry.path = path.to_owned();
        entry.hashed_ns += 3_600_000_000_000;
        entry
    }

    /// The paths that a check finds different, after saving and loading.
    fn different(&self, entries: Vec<StatEntry>) -> Vec<String> {
        let mut index = StatIndex::default();
        index.put_section(KEY, entries);
        index.save(&self.cache).unwrap();
        self.different_now()
    }

    fn different_now(&self) -> Vec<String> {
        let index = StatIndex::load(&self.cache).unwrap();
        let section = index.section(&KEY).unwrap();
        let found: Vec<usize> = check(&self.base, section, 2).iter().map(|one| one.index).collect();
        assert_eq!(found, check_through(&RealFs, &self.base, section).unwrap());
        found.iter().map(|at| section.get(*at).unwrap().path).collect()
    }
}

#[test]
fn untouched_files_are_the_same_and_changed_ones_are_not() {
    let folder = Folder::new();
    let names: Vec<String> = (0..2000).map(|n| format!("wavs/{}/{n}.wav", n % 7)).collect();
    for name in &names {
        folder.write(name, name.as_bytes());
    }
    let mut entries: Vec<_> = names.iter().map(|name| folder.entry(name)).collect();
    entries.push(StatEntry::absent("wavs/none.wav".into(), KEY));
    assert_eq!(folder.different(entries), [""; 0]);
    folder.write(&names[5], b"longer than before, surely");
    fs::remove_file(folder.base.join(&names[6])).unwrap();
    folder.write("wavs/none.wav", b"now there is one");
    let mut found = folder.different_now();
    found.sort();
    let mut expected = vec![names[5].clone(), names[6].clone(), "wavs/none.wav".to_owned()];
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn an_edit_that_keeps_size_and_mtime_shows_in_the_ctime() {
    let folder = Folder::new();
    folder.write("a.wav", b"one");
    let entry = folder.entry("a.wav");
    std::thread::sleep(Duration::from_millis(30));
    let path = folder.base.join("a.wav");
    let mtime = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, b"two").unwrap();
    let times = FileTimes::new().set_modified(mtime);
    File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), mtime);
    assert_eq!(folder.different(vec![entry]), ["a.wav"]);
}

#[test]
fn a_file_that_was_hashed_when_it_was_young_is_hashed_again() {
    let folder = Folder::new();
    folder.write("a.wav", b"one");
    let (_, mut entry) = hash_file(&RealFs, &folder.base.join("a.wav")).unwrap();
    entry.path = "a.wav".into();
    assert!(!entry.trusted());
    assert_eq!(folder.different(vec![entry]), ["a.wav"]);
}

#[test]
fn trust_needs_a_margin_that_fits_the_resolution_of_the_times() {
    let second = 1_000_000_000i64;
    let mut entry = StatEntry::absent("a".into(), KEY);
    entry.what = What::File;
    let mut trusted = |mtime: i64, ctime: i64, hashed: i64| {
        (entry.mtime_ns, entry.ctime_ns, entry.hashed_ns) = (mtime, ctime, hashed);
        entry.trusted()
    };
    let fine = 50 * second + 7;
    assert!(trusted(fine, fine, fine + second / 10));
    assert!(!trusted(fine, fine, fine + second / 10 - 1));
    assert!(!trusted(50 * second, 50 * second, 50 * second + second));
    assert!(trusted(50 * second, 50 * second, 52 * second));
    assert!(!trusted(fine, fine + 2 * second, fine + second), "changed after the hashing");
    assert!(!trusted(fine + 9 * second, fine, fine + second), "from the future");
    assert!(!trusted(i64::MAX, i64::MAX, i64::MIN));
    assert!(trusted(i64::MIN + 1, 0, i64::MAX));
}

#[test]
fn a_clock_that_jumps_back_only_costs_hashing() {
    let fs = MemoryFs::new();
    fs.write_new("/a".into(), b"one").unwrap();
    fs.set_clock(0);
    let (digest, entry) = hash_file(&fs, "/a".into()).unwrap();
    assert_eq!(digest, Digest::of(b"one"));
    assert!(!entry.trusted());
}

#[test]
fn a_folder_entry_shows_new_and_lost_names() {
    let folder = Folder::new();
    folder.write("wavs/a.wav", b"one");
    let metadata = RealFs.metadata(&folder.base.join("wavs")).unwrap();
    let later = metadata.ctime_ns + 3_600_000_000_000;
    let entry = StatEntry::new("wavs".into(), &metadata, later, KEY, What::Dir);
    assert_eq!(folder.different(vec![entry]), [""; 0]);
    std::thread::sleep(Duration::from_millis(30));
    folder.write("wavs/b.wav", b"two");
    assert_eq!(folder.different_now(), ["wavs"]);
}

#[test]
fn a_replaced_file_has_another_inode() {
    let folder = Folder::new();
    folder.write("a.wav", b"one");
    folder.write("b.wav", b"two");
    let old = SystemTime::now() - Duration::from_secs(5000);
    for name in ["a.wav", "b.wav"] {
        let file = File::options().write(true).open(folder.base.join(name)).unwrap();
        file.set_times(FileTimes::new().set_modified(old)).unwrap();
    }
    let mut entry = folder.entry("a.wav");
    fs::rename(folder.base.join("b.wav"), folder.base.join("a.wav")).unwrap();
    // Even if the renaming had left no trace in the ctime.
    entry.ctime_ns = folder.entry("a.wav").ctime_ns;
    assert_eq!(folder.different(vec![entry]), ["a.wav"]);
}

#[test]
fn paths_come_back_as_they_were_and_are_found() {
    let paths = ["a", "b/c", "b/c/d", "b-c/d", "b/ä", "/etc/hosts", "/x", "z/y/x", "b/c.wav"];
    let entries = paths.map(|path| StatEntry::absent(path.into(), Digest::of(path.as_bytes())));
    let mut index = StatIndex::default();
    index.put_section(KEY, entries.to_vec());
    let section: &Section = index.section(&KEY).unwrap();
    assert_eq!(section.len(), paths.len());
    for path in paths {
        assert_eq!(section.find(path).unwrap().digest, Digest::of(path.as_bytes()));
        assert_eq!(index.lookup(path).unwrap().path, path);
    }
    assert!(section.find("b").is_none());
    let mut listed: Vec<String> = section.iter().map(|entry| entry.path).collect();
    listed.sort();
    let mut expected = paths.to_vec();
    expected.sort();
    assert_eq!(listed, expected);
}

#[test]
fn sections_saved_by_others_meanwhile_stay() {
    let folder = Folder::new();
    let keys = [1, 2, 3].map(|byte| Digest::from_bytes([byte; 32]));
    let entry = |byte: u8| vec![StatEntry::absent(format!("{byte}"), KEY)];
    let mut first = StatIndex::load(&folder.cache).unwrap();
    let mut second = StatIndex::load(&folder.cache).unwrap();
    first.put_section(keys[0], entry(1));
    first.put_section(keys[2], entry(3));
    second.put_section(keys[1], entry(2));
    first.save(&folder.cache).unwrap();
    second.save(&folder.cache).unwrap();
    first.remove_section(&keys[2]);
    first.save(&folder.cache).unwrap();
    let loaded = StatIndex::load(&folder.cache).unwrap();
    assert_eq!(keys.map(|key| loaded.section(&key).is_some()), [true, true, false]);
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    #[derive(Debug)]
    struct Writes(MemoryFs);
    impl cache::fs::Interceptor for Writes {
        fn before(&self, call: cache::fs::Call, path: &Utf8Path) -> std::io::Result<()> {
            if call == cache::fs::Call::Read {
                self.0.overwrite(path, b"other").map_err(|error| error.source)?;
                self.0
                    .open(path, cache::fs::Open::ReadWrite)
                    .and_then(|file| file.set_len(3))
                    .unwrap();
            }
            Ok(())
        }
    }
    let below = MemoryFs::new();
    below.write_new("/a".into(), b"one").unwrap();
    let fs = cache::fs::Layer::over(Arc::new(below.clone()), Writes(below));
    let error = hash_file(&fs, "/a".into()).unwrap_err();
    assert!(matches!(error, CacheError::Changed { .. }), "{error:?}");
}

/// What hashing differing files again gives for each path, after an edit that comes between the
/// comparison and the hashing.
fn again(
    folder: &Folder,
    entries: Vec<StatEntry>,
    edit: impl FnOnce(),
) -> Vec<(String, Option<StatEntry>)> {
    let section = Section::from(entries);
    let found = differing(&RealFs, &folder.base, &section, 2);
    edit();
    let hashed = hash_again(&RealFs, &folder.base, &section, &found, 2);
    assert_eq!(hashed.len(), found.len());
    let path = |at: usize| section.get(at).unwrap().path;
    found.iter().zip(hashed).map(|(one, entry)| (path(one.index), entry)).collect()
}

#[test]
fn a_file_is_hashed_again_as_it_would_be_alone() {
    let folder = Folder::new();
    let large = vec![7; 600_000];
    for (path, bytes) in [("a/one", &b"one"[..]), ("a/two", &large[..]), ("three", b"three")] {
        folder.write(path, bytes);
    }
    let mut entries = ["a/one", "a/two", "three"].map(|path| folder.entry(path)).to_vec();
    for entry in &mut entries {
        entry.mtime_ns -= 1;
    }
    let hashed = again(&folder, entries, || {});
    assert_eq!(hashed.len(), 3);
    for (path, entry) in hashed {
        let mut entry = entry.unwrap();
        let (_, expected) = hash_file(&RealFs, &folder.base.join(&path)).unwrap();
        entry.hashed_ns = expected.hashed_ns;
        assert_eq!(entry, StatEntry { path, ..expected });
    }
}

#[test]
fn what_is_no_file_or_changes_meanwhile_is_left_to_a_closer_look() {
    let folder = Folder::new();
    let paths =
        ["edited", "replaced", "gone", "piped", "folder", "device", "empty", "pipe", "good"];
    for path in paths {
        folder.write(path, path.as_bytes());
    }
    let entries = paths.map(|path| folder.entry(path)).to_vec();
    let at = |path: &str| folder.base.join(path);
    let pipe = |path: &str| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        fs::remove_file(at(path)).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at(path).as_str(), FileType::Fifo, mode, 0).unwrap();
    };
    // Before the comparison.
    fs::remove_file(at("folder")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    fs::remove_file(at("device")).unwrap();
    std::os::unix::fs::symlink("/dev/null", at("device")).unwrap();
    pipe("pipe");
    folder.write("empty", b"");
    for path in ["edited", "replaced", "gone", "piped", "good"] {
        folder.write(path, format!("new {path}").as_bytes());
    }
    // After it. Opening a pipe without a writer would wait for ever.
    let edit = || {
        folder.write("edited", b"newer edited");
        folder.write("other", b"new replaced");
        fs::rename(at("other"), at("replaced")).unwrap();
        fs::remove_file(at("gone")).unwrap();
        pipe("piped");
    };
    let hashed = again(&folder, entries, edit);
    let mut hashed: Vec<(String, bool)> =
        hashed.into_iter().map(|(path, entry)| (path, entry.is_some())).collect();
    hashed.sort();
    let mut expected = paths.map(|path| (path.to_owned(), path == "good")).to_vec();
    expected.sort();
    assert_eq!(hashed, expected);
}

fn noted(path: &str, content: u8) -> StatEntry {
    StatEntry::absent(path.into(), Digest::from_bytes([content; 32]))
}

#[test]
fn of_several_entries_about_a_path_the_last_counts() {
    let section = Section::from(vec![noted("b", 1), noted("a", 2), noted("b", 3), noted("b", 4)]);
    let listed: Vec<StatEntry> = section.iter().collect();
    assert_eq!(listed, [noted("a", 2), noted("b", 4)]);
}

#[test]
fn the_content_of_a_section_depends_on_what_was_seen_and_not_on_its_order_or_times() {
    let section = |entries: Vec<StatEntry>| Section::from(entries).content();
    let later = StatEntry { mtime_ns: 7, hashed_ns: 9, inode: 5, ..noted("b/c", 2) };
    let content = section(vec![noted("b-c/d", 1), noted("b/c", 2)]);
    assert_eq!(section(vec![later, noted("b-c/d", 1)]), content);
    assert_ne!(section(vec![noted("b-c/d", 1), noted("b/c", 3)]), content);
    assert_ne!(section(vec![noted("b-c/d", 1), noted("b/d", 2)]), content);
    assert_ne!(section(vec![noted("b-c/d", 1)]), content);
}

#[test]
fn the_changes_between_sections_are_those_of_content() {
    let old = Section::from(vec![noted("a", 1), noted("b/x", 2), noted("c", 3), noted("e", 5)]);
    let moved = StatEntry { inode: 9, ..noted("c", 3) };
    let new = Section::from(vec![noted("b/x", 4), moved, noted("d", 6), noted("e", 5)]);
    let changes = [
        (Some(noted("a", 1)), None),
        (None, Some(noted("d", 6))),
        (Some(noted("b/x", 2)), Some(noted("b/x", 4))),
    ];
    assert_eq!(new.changes_from(&old), changes);
    assert_eq!(old.changes_from(&old), []);
}

/// A file with only its digest requested.
fn file(path: &str, content: u8) -> StatEntry {
    let size = u64::from(content);
    StatEntry { what: What::File, by_digest: true, size, ..noted(path, content) }
}

#[test]
fn new_contents_of_files_give_the_section_that_a_new_look_would_give() {
    let old = Section::from(vec![file("a/x", 1), file("a/y", 2), noted("b", 3), file("c", 4)]);
    // Two files are swapped, and so are their digests.
    let (section, contents) = old.with_new_contents(&[file("a/x", 2), file("a/y", 1)]).unwrap();
    let looked = vec![file("a/x", 2), file("a/y", 1), noted("b", 3), file("c", 4)];
    assert_eq!(section, Section::from(looked));
    let new = |old: u8, new: u8| {
        let digest = |content| Digest::from_bytes([content; 32]);
        NewContent { old: digest(old), new: digest(new), size: u64::from(new) }
    };
    assert_eq!(contents, [new(1, 2), new(2, 1)]);
    let changes = [
        (Some(file("a/x", 1)), Some(file("a/x", 2))),
        (Some(file("a/y", 2)), Some(file("a/y", 1))),
    ];
    assert_eq!(section.changes_from(&old), changes);
}

#[test]
fn new_contents_need_a_new_look_where_it_could_find_something_else() {
    let read = StatEntry { by_digest: false, ..file("read", 2) };
    let old = Section::from(vec![file("a", 1), read, noted("gone", 3), file("b", 4), file("c", 4)]);
    assert!(old.with_new_contents(&[file("a", 9)]).is_some());
    for (what, entry) in [
        ("was read", file("read", 9)),
        ("was not there", file("gone", 9)),
        ("is not there any more", noted("a", 9)),
        ("had the content of another file", file("b", 9)),
        ("was not asked for", file("d", 9)),
    ] {
        assert!(old.with_new_contents(&[entry]).is_none(), "{what}");
    }
}

#[test]
fn a_file_that_was_read_and_asked_for_by_its_digest_was_read() {
    let read = StatEntry { by_digest: false, ..file("a", 1) };
    for entries in [vec![read.clone(), file("a", 1)], vec![file("a", 1), read]] {
        assert!(Section::from(entries).with_new_contents(&[file("a", 2)]).is_none());
    }
}

/// Lets another process save a section of its own just before this one writes.
#[derive(Debug)]
struct Between {
    fs: MemoryFs,
    other: Mutex<Option<JoinHandle<()>>>,
}

const OTHER: Digest = Digest::from_bytes([2; 32]);

fn save(fs: Arc<dyn Fs>, section: Digest) {
    let cache = Cache::open("/cache".into(), fs, Access::ReadWrite).unwrap();
    let mut index = StatIndex::load(&cache).unwrap();
    index.put_section(section, vec![StatEntry::absent("a".to_owned(), section)]);
    index.save(&cache).unwrap();
}

impl Interceptor for Between {
    fn before(&self, call: Call, path: &Utf8Path) -> std::io::Result<()> {
        let mut other = self.other.lock().unwrap();
        let is_memo = path.file_name().is_some_and(|name| name.starts_with(".throstle-"));
        if call == Call::Create
            && is_memo
            && other.is_none()
            && path.parent() == Some("/cache".into())
        {
            let fs = Arc::new(self.fs.clone());
            let saving = std::thread::spawn(move || save(fs, OTHER));
            // It has to wait for this one, so this thread must not wait for it.
            let begun = std::time::Instant::now();
            while !saving.is_finished() && begun.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_millis(1));
            }
            *other = Some(saving);
        }
        Ok(())
    }
}

#[test]
fn of_two_that_save_at_once_both_are_kept() {
    let fs = MemoryFs::new();
    drop(Cache::open("/cache".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap());
    let between = Between { fs: fs.clone(), other: Mutex::default() };
    let layer = Arc::new(Layer::over(Arc::new(fs.clone()), between));
    save(Arc::clone(&layer) as Arc<dyn Fs>, KEY);
    layer.interceptor().other.lock().unwrap().take().expect("nobody came between").join().unwrap();
    let cache = Cache::open("/cache".into(), Arc::new(fs), Access::ReadWrite).unwrap();
    let index = StatIndex::load(&cache).unwrap();
    assert!(index.section(&KEY).is_some() && index.section(&OTHER).is_some());
}

fn opened(fs: &MemoryFs) -> Cache {
    Cache::open("/cache".into(), Arc::new(fs.clone()), Access::ReadWrite).unwrap()
}

fn memo(fs: &MemoryFs) -> Vec<u8> {
    fs.read("/cache/stat.idx".into()).unwrap()
}

/// The entries of the section, as a process that has just begun finds them.
fn found(fs: &MemoryFs) -> Option<Vec<StatEntry>> {
    let index = StatIndex::load(&opened(fs)).unwrap();
    index.section(&KEY).map(|section| section.iter().collect())
}

fn put(cache: &Cache, entries: &[StatEntry]) {
    let mut index = StatIndex::load(cache).unwrap();
    index.put_section(KEY, entries.to_vec());
    index.save(cache).unwrap();
}

#[test]
fn a_few_changes_are_appended_and_many_are_written_anew() {
    let fs = MemoryFs::new();
    let cache = opened(&fs);
    let mut entries: Vec<StatEntry> =
        (0..2_000).map(|number| file(&format!("wavs/{number:04}"), 1)).collect();
    put(&cache, &entries);
    let whole = memo(&fs);
    for round in 2..9 {
        let before = memo(&fs);
        let at = 100 * usize::from(round);
        entries[at] = file(&format!("wavs/{at:04}"), round);
        put(&cache, &entries);
        let after = memo(&fs);
        assert!(after.starts_with(&before), "change {round} rewrote the memo");
        assert!(after.len() - before.len() < 256, "{}", after.len() - before.len());
        assert_eq!(found(&fs).as_ref(), Some(&entries));
    }
    // Nothing new is nothing to write.
    let before = memo(&fs);
    put(&cache, &entries);
    assert!(memo(&fs) == before);
    entries.iter_mut().for_each(|entry| entry.size += 1);
    put(&cache, &entries);
    assert_eq!(memo(&fs).len(), whole.len());
    assert_eq!(found(&fs).as_ref(), Some(&entries));
    entries.push(file("wavs/more", 1));
    put(&cache, &entries);
    assert_eq!(found(&fs), Some(entries));
}

#[test]
fn a_damaged_change_leaves_those_before_it_and_is_written_over() {
    let fs = MemoryFs::new();
    let path = Utf8Path::new("/cache/stat.idx");
    let mut entries = vec![file("a", 1), file("b", 1), file("c", 1)];
    let (mut states, mut lengths) = (Vec::new(), Vec::new());
    for at in 0..3 {
        entries[at].digest = Digest::from_bytes([at as u8 + 7; 32]);
        put(&opened(&fs), &entries);
        states.push(entries.clone());
        lengths.push(memo(&fs).len());
    }
    let bytes = memo(&fs);
    let cut = |length: usize| bytes[..length].to_vec();
    let flipped = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        bytes
    };
    for at in lengths[0]..bytes.len() {
        let whole = lengths.iter().filter(|length| **length <= at).count();
        for damaged in [cut(at), flipped(at)] {
            fs.overwrite(path, &damaged).unwrap();
            assert_eq!(found(&fs).as_ref(), Some(&states[whole - 1]), "byte {at}");
            let next = vec![file("a", 5), file("b", 1), file("c", 1)];
            put(&opened(&fs), &next);
            assert_eq!(found(&fs), Some(next), "byte {at}");
        }
    }
}

#[test]
fn what_another_process_appends_is_seen() {
    let fs = MemoryFs::new();
    let (one, other) = (opened(&fs), opened(&fs));
    for content in 1..5 {
        let (own, others) = ([file("a", content)], [file("a", content + 100)]);
        for (cache, entries) in [(&one, own), (&other, others)] {
            put(cache, &entries);
            for cache in [&one, &other] {
                let index = StatIndex::load(cache).unwrap();
                assert_eq!(index.section(&KEY).unwrap().get(0).as_ref(), entries.first());
            }
        }
    }
}

#[test]
fn a_damaged_memo_is_told_once_and_written_anew() {
    let fs = MemoryFs::new();
    let entries = vec![file("a", 1)];
    put(&opened(&fs), &entries);
    let mut bytes = memo(&fs);
    bytes[60] ^= 1;
    fs.overwrite("/cache/stat.idx".into(), &bytes).unwrap();
    let cache = opened(&fs);
    assert!(StatIndex::load(&cache).unwrap().section(&KEY).is_none());
    let told = StatIndex::take_trouble(&cache);
    assert_eq!(told.as_deref(), Some("the stat index `/cache/stat.idx` is damaged"));
    assert_eq!(StatIndex::take_trouble(&cache), None);
    put(&cache, &entries);
    assert_eq!(found(&fs), Some(entries));
}

/// Denies this process to open the memo for reading.
#[derive(Debug)]
struct Unreadable(i32);

impl Interceptor for Unreadable {
    fn before(&self, call: Call, path: &Utf8Path) -> std::io::Result<()> {
        if call == Call::Open && path.file_name() == Some("stat.idx") {
            Err(std::io::Error::from_raw_os_error(self.0))
        } else {
            Ok(())
        }
    }
}

#[test]
fn an_unreadable_memo_counts_as_missing() {
    use cache::fs::fault::{EACCES, EIO, EMFILE};
    let fs = MemoryFs::new();
    put(&opened(&fs), &[file("a", 1)]);
    let cache = |error| {
        let layer = Layer::over(Arc::new(fs.clone()), Unreadable(error));
        Cache::open("/cache".into(), Arc::new(layer), Access::ReadWrite).unwrap()
    };
    for error in [EACCES, EIO] {
        let cache = cache(error);
        assert!(StatIndex::load(&cache).unwrap().section(&KEY).is_none());
        let told = StatIndex::take_trouble(&cache).unwrap();
        assert!(told.starts_with("the stat index `/cache/stat.idx` cannot be read ("), "{told}");
        let entries = vec![file("b", error as u8)];
        put(&cache, &entries);
        assert_eq!(found(&fs), Some(entries));
    }
    // A process without a free file says nothing about the memo.
    assert!(StatIndex::load(&cache(EMFILE)).is_err());
}
