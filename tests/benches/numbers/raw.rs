//! The capabilities of the machine: the same files, two threads, only the system calls.

use std::path::PathBuf;

use cache::Digest;

/// Bare stat of all files on two threads.
pub fn stat(paths: &[PathBuf]) {
    in_two(paths, |path| {
        std::fs::metadata(path).unwrap();
    });
}

/// Read and blake3 of all files on two threads.
pub fn hash(paths: &[PathBuf]) {
    in_two(paths, |path| {
        std::hint::black_box(Digest::of(&std::fs::read(path).unwrap()));
    });
}

fn in_two(paths: &[PathBuf], work: impl Fn(&PathBuf) + Sync) {
    std::thread::scope(|scope| {
        for half in paths.chunks(paths.len().div_ceil(2).max(1)) {
            scope.spawn(|| half.iter().for_each(&work));
        }
    });
}
