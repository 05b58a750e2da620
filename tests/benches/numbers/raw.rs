//! The capabilities of the machine: the same files, two threads, only the system calls.

use std::fs;
use std::path::{Path, PathBuf};

use cache::Digest;

/// Bare stat of all files on two threads.
pub fn stat(paths: &[PathBuf]) {
    in_two(paths, |path| {
        fs::metadata(path).unwrap();
    });
}

/// Read and blake3 of all files on two threads.
pub fn hash(paths: &[PathBuf]) {
    in_two(paths, |path| {
        std::hint::black_box(Digest::of(&fs::read(path).unwrap()));
    });
}

fn in_two(paths: &[PathBuf], work: impl Fn(&PathBuf) + Sync) {
    std::thread::scope(|scope| {
        for half in paths.chunks(paths.len().div_ceil(2).max(1)) {
            scope.spawn(|| half.iter().for_each(&work));
        }
    });
}

/// Writes files with this content, and removes them.
pub fn files(folder: &Path, count: usize, content: &[u8]) {
    let folder = folder.join("files");
    fs::create_dir(&folder).unwrap();
    let name = |number: usize| folder.join(format!("{number:06}.wav"));
    (0..count).for_each(|number| fs::write(name(number), content).unwrap());
    (0..count).for_each(|number| fs::remove_file(name(number)).unwrap());
    fs::remove_dir(&folder).unwrap();
}
