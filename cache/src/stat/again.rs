//! Hashes files that differ from their entries, in as few calls as possible: the comparison has
//! seen each file, and that is its state before it is read.

use std::ops::Range;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::pread;

use super::entry::{StatEntry, What};
use super::folder::{Folder, nanoseconds};
use super::section::Section;
use crate::fs::Fs;
use crate::{hash_parts, in_shares};

/// The time for which the look of the comparison counts as the one before the file is opened.
const FRESH: Duration = Duration::from_secs(1);
/// The number of files that a thread takes at a time: few large ones, or many small ones.
const LEAST: usize = 8;
const MOST: usize = 512;
const SHARES_OF_A_THREAD: usize = 16;

/// An entry that differs from its file, or cannot be trusted.
#[derive(Debug)]
pub struct Differing {
    /// The position of the entry in its section, from 0.
    pub index: usize,
    found: Option<CurrentFile>,
}

/// The file as the comparison found it.
#[derive(Debug)]
struct CurrentFile {
    stat: Stat,
    at: Instant,
}

impl Differing {
    /// The file was not looked at, or cannot be.
    pub fn unseen(index: usize) -> Differing {
        Differing { index, found: None }
    }

    /// All entries of a section, none of which was looked at.
    pub fn all(section: &Section) -> Vec<Differing> {
        (0..section.len()).map(Differing::unseen).collect()
    }

    pub(super) fn seen(index: usize, stat: Stat) -> Differing {
        Differing { index, found: Some(CurrentFile { stat, at: Instant::now() }) }
    }
}

/// The new entries of regular files, by their place in the list. None for everything else: for a
/// file that cannot be read or that changes meanwhile, and on a file system that is not the
/// machine's. [`hash_file`](super::hash_file) gives the reason.
pub fn hash_again(
    fs: &dyn Fs,
    base: &Utf8Path,
    section: &Section,
    differing: &[Differing],
    threads: usize,
) -> Vec<Option<StatEntry>> {
    let nothing = || differing.iter().map(|_| None).collect();
    if !fs.is_direct() {
        return nothing();
    }
    let share = (differing.len() / (threads.max(1) * SHARES_OF_A_THREAD)).clamp(LEAST, MOST);
    let work = |range: Range<usize>| {
        let mut folder = Folder::new(base);
        let hash = |one| hash_one(fs, section, one, &mut folder);
        differing[range].iter().map(hash).collect()
    };
    in_shares(differing.len(), share, threads, work).unwrap_or_else(nothing)
}

#[allow(clippy::unnecessary_cast, reason = "the types of these fields differ between systems")]
fn hash_one(
    fs: &dyn Fs,
    section: &Section,
    differing: &Differing,
    folder: &mut Folder<'_>,
) -> Option<StatEntry> {
    let row = section.row(differing.index).filter(|row| row.what() == What::File)?;
    let found = differing.found.as_ref()?;
    let hashed_ns = fs.now();
    let before =
        if found.at.elapsed() < FRESH { found.stat } else { folder.stat(section, &row).ok()? };
    // Files that the kernel generates occupy no blocks.
    let is_on_disk = is_regular(&before) && before.st_blocks as u64 > 0;
    let file = is_on_disk.then(|| folder.open(section, &row))?.ok()?;
    let size = before.st_size as u64;
    let (digest, read) = hash_parts(size, |part, at| pread(&file, part, at)).ok()?;
    let after = fstat(&file).ok()?;
    if !is_same(&before, &after) || read != size {
        return None;
    }
    Some(StatEntry {
        path: section.path(&row),
        size,
        mtime_ns: nanoseconds(after.st_mtime as i64, after.st_mtime_nsec as i64),
        ctime_ns: nanoseconds(after.st_ctime as i64, after.st_ctime_nsec as i64),
        inode: after.st_ino as u64,
        hashed_ns,
        digest,
        what: What::File,
        by_digest: false,
    })
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn is_same(before: &Stat, after: &Stat) -> bool {
    let state = |stat: &Stat| {
        let times = [stat.st_mtime, stat.st_ctime];
        let parts = [stat.st_mtime_nsec, stat.st_ctime_nsec];
        (stat.st_dev, stat.st_ino, stat.st_mode, stat.st_size, times, parts)
    };
    state(before) == state(after)
}
