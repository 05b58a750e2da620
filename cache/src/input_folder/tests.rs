#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::VerifyOptions;
use crate::fs::RealFs;

struct Place {
    dir: tempfile::TempDir,
    cache: Cache,
}

impl Place {
    /// None where the file system may lose writes, since no folder is kept there.
    fn new() -> Option<Place> {
        let dir = tempfile::tempdir().unwrap();
        let path = Utf8Path::from_path(dir.path()).unwrap().join("cache");
        let cache = Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap();
        let is_kept = cache.input_folder(&name()).unwrap().is_some();
        if !is_kept {
            println!("skipped: the folder for temporary files is on no local disk");
        }
        is_kept.then_some(Place { dir, cache })
    }

    fn outside(&self) -> Utf8PathBuf {
        Utf8Path::from_path(self.dir.path()).unwrap().join("outside")
    }

    fn folder(&self) -> InputFolder {
        self.cache.input_folder(&name()).unwrap().unwrap()
    }

    /// Lays these inputs out as a stage does. Returns their paths, and the number of files written.
    fn lay_out(&self, folder: &mut InputFolder, texts: &[String]) -> (Vec<Utf8PathBuf>, usize) {
        let wanted: Vec<WantedInput> = texts.iter().map(|text| wanted(text)).collect();
        let paths = folder.keep_only(&wanted).unwrap();
        let write = |at: usize| folder.write(&wanted[at], "txt", texts[at].as_bytes()).unwrap();
        let missing = (0..texts.len()).filter(|at| paths[*at].is_none());
        let written: Vec<(usize, WrittenInput)> = missing.map(|at| (at, write(at))).collect();
        let mut all = paths;
        written.iter().for_each(|(at, file)| all[*at] = Some(file.path.clone()));
        let count = written.len();
        folder.record(written.into_iter().map(|(_, file)| file)).unwrap();
        (all.into_iter().flatten().collect(), count)
    }
}

fn name() -> Digest {
    Digest::of(b"a stage")
}

fn wanted(text: &str) -> WantedInput {
    let extension = Some("txt".to_owned());
    WantedInput { digest: Digest::of(text.as_bytes()), label: "text".to_owned(), extension }
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("text {number:04}")).collect()
}

fn contents(paths: &[Utf8PathBuf]) -> Vec<String> {
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

fn files_below(folder: &Utf8Path) -> usize {
    let below = |entry: fs::DirEntry| {
        if entry.file_type().unwrap().is_dir() {
            files_below(Utf8Path::from_path(&entry.path()).unwrap())
        } else {
            1
        }
    };
    fs::read_dir(folder).unwrap().map(|entry| below(entry.unwrap())).sum()
}

#[test]
fn a_changed_input_costs_one_file() {
    let Some(place) = Place::new() else { return };
    let mut texts = texts(100);
    let mut folder = place.folder();
    let (first, written) = place.lay_out(&mut folder, &texts);
    assert_eq!((contents(&first), written), (texts.clone(), 100));
    let changed_at = |paths: &[Utf8PathBuf]| -> Vec<(i64, i64)> {
        let stats = paths.iter().map(|path| fs::metadata(path).unwrap());
        stats.map(|stat| (stat.ctime(), stat.ctime_nsec())).collect()
    };
    let (old, before) = (folder.path().to_owned(), changed_at(&first));
    folder.keep();
    texts[7] = "another text".to_owned();
    let mut folder = place.folder();
    let (second, written) = place.lay_out(&mut folder, &texts);
    assert_eq!((contents(&second), written), (texts, 1));
    let now = changed_at(&second);
    let same = |at: &usize| before[*at] == now[*at];
    assert_eq!((0..100).filter(same).count(), 99);
    // The record is one more. A process of the first program does not find the folder.
    assert_eq!((files_below(folder.path()), old.exists()), (101, false));
}

#[test]
fn the_next_program_sees_nothing_of_what_a_program_did() {
    type Change = fn(&[Utf8PathBuf], &Utf8Path);
    let changes: [(&str, Change); 9] = [
        ("the same size and the old times", |files, _| {
            let old = fs::metadata(&files[3]).unwrap();
            let times = FileTimes::new();
            let times = times.set_accessed(old.accessed().unwrap());
            fs::write(&files[3], "tixt 0003").unwrap();
            let file = File::options().write(true).open(&files[3]).unwrap();
            file.set_times(times.set_modified(old.modified().unwrap())).unwrap();
        }),
        ("longer", |files, _| fs::write(&files[3], "longer than before").unwrap()),
        ("gone", |files, _| fs::remove_file(&files[3]).unwrap()),
        ("other permissions", |files, _| {
            fs::set_permissions(&files[3], Permissions::from_mode(0o000)).unwrap();
        }),
        ("a link", |files, outside| {
            fs::remove_file(&files[3]).unwrap();
            symlink(outside.join("file"), &files[3]).unwrap();
        }),
        ("a folder", |files, _| {
            fs::remove_file(&files[3]).unwrap();
            fs::create_dir_all(files[3].join("with/more")).unwrap();
        }),
        ("a linked folder", |files, outside| {
            let share = files[3].parent().unwrap();
            fs::rename(share, outside.join("moved")).unwrap();
            symlink(outside, share).unwrap();
        }),
        ("a foreign file", |files, _| {
            fs::write(files[3].with_file_name("foreign"), "x").unwrap();
        }),
        ("a foreign folder", |files, _| {
            let folder = files[3].parent().unwrap().parent().unwrap();
            fs::create_dir_all(folder.join("9/more")).unwrap();
        }),
    ];
    for (change, apply) in changes {
        let Some(place) = Place::new() else { return };
        let outside = place.outside();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "text 0003").unwrap();
        let texts = texts(20);
        let mut folder = place.folder();
        let (files, _) = place.lay_out(&mut folder, &texts);
        apply(&files, &outside);
        folder.keep();
        let mut folder = place.folder();
        let (files, _) = place.lay_out(&mut folder, &texts);
        assert_eq!(contents(&files), texts, "{change}");
        assert!(files.iter().all(|file| file.symlink_metadata().unwrap().is_file()), "{change}");
        assert_eq!(files_below(folder.path()), 21, "{change}");
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "text 0003", "{change}");
    }
}

#[test]
fn a_change_in_the_same_tick_of_the_clock_is_seen() {
    let Some(place) = Place::new() else { return };
    let texts = texts(2);
    for round in 0..50 {
        let mut folder = place.folder();
        let (files, _) = place.lay_out(&mut folder, &texts);
        assert_eq!(contents(&files), texts, "round {round}");
        fs::write(&files[1], "tixt 0001").unwrap();
        folder.keep();
    }
}

#[test]
fn a_record_of_another_boot_counts_for_nothing() {
    let Some(place) = Place::new() else { return };
    let texts = texts(10);
    let mut folder = place.folder();
    place.lay_out(&mut folder, &texts);
    let path = folder.path().join(RECORD);
    let mut record: FolderRecord = postcard::from_bytes(&fs::read(&path).unwrap()).unwrap();
    record.boot = Boot::default();
    fs::write(&path, postcard::to_stdvec(&record).unwrap()).unwrap();
    folder.keep();
    assert_eq!(place.lay_out(&mut place.folder(), &texts).1, 10);
}

#[test]
fn one_program_at_a_time_has_a_folder_and_it_goes_unless_it_is_kept() {
    let Some(place) = Place::new() else { return };
    let mut folder = place.folder();
    place.lay_out(&mut folder, &texts(10));
    assert!(place.cache.input_folder(&name()).unwrap().is_none());
    assert!(place.cache.idle_inputs().unwrap().is_empty());
    let path = folder.path().to_owned();
    drop(folder);
    assert!(!path.exists());
    assert!(place.cache.input_folder(&name()).unwrap().is_some());
}

#[test]
fn idle_folders_are_counted_and_removed() {
    let Some(place) = Place::new() else { return };
    let mut folder = place.folder();
    place.lay_out(&mut folder, &texts(10));
    folder.keep();
    let idle = place.cache.idle_inputs().unwrap();
    let bytes = place.cache.stats().unwrap().input_bytes;
    assert!(bytes > 90 && idle.len() == 1 && idle[0].bytes == bytes, "{idle:?} {bytes}");
    let folder = place.folder();
    assert_eq!(place.cache.remove_idle_inputs(&idle).unwrap(), 0, "it is in use");
    folder.keep();
    let idle = place.cache.idle_inputs().unwrap();
    assert_eq!(place.cache.remove_idle_inputs(&idle).unwrap(), bytes);
    assert_eq!(place.cache.stats().unwrap().input_bytes, 0);
}

#[test]
fn verify_finds_a_copy_that_differs_from_its_original() {
    let Some(place) = Place::new() else { return };
    let mut folder = place.folder();
    let good = texts(3);
    let wanted: Vec<WantedInput> = good.iter().map(|text| wanted(text)).collect();
    folder.keep_only(&wanted).unwrap();
    let written = ["text 0000", "damaged", "text 0002"];
    let written = wanted.iter().zip(written);
    let written: Vec<WrittenInput> =
        written.map(|(one, text)| folder.write(one, "txt", text.as_bytes()).unwrap()).collect();
    folder.record(written).unwrap();
    folder.keep();
    let verify = |repair| {
        let options = VerifyOptions { repair, read_data: true };
        place.cache.verify(options, &|_, _| {}).unwrap().damages.len()
    };
    assert_eq!([verify(false), verify(true), verify(false)], [1, 1, 0]);
    let (files, written) = place.lay_out(&mut place.folder(), &good);
    assert_eq!((files.len(), written), (3, 1));
}
