//! Compares a section with the present files: one stat per file, relative to the handle of its
//! folder, on several threads.

use std::ops::Range;

use camino::Utf8Path;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::again::Differing;
use super::entry::What;
use super::folder::{Folder, nanoseconds};
use super::row::Row;
use super::section::Section;
use crate::fs::{Fs, FsError, Metadata};
use crate::in_shares;

/// The number of entries that a thread takes at a time.
const SHARE: usize = 512;

/// The result of [`check`], computed in the fastest way that the file system allows. Inaccessible
/// files count as different.
pub fn differing(
    fs: &dyn Fs,
    base: &Utf8Path,
    section: &Section,
    threads: usize,
) -> Vec<Differing> {
    if fs.is_direct() {
        return check(base, section, threads);
    }
    match check_through(fs, base, section) {
        Ok(different) => different.into_iter().map(Differing::unseen).collect(),
        Err(_) => Differing::all(section),
    }
}

/// The entries that differ from the files, or cannot be trusted.
pub fn check(base: &Utf8Path, section: &Section, threads: usize) -> Vec<Differing> {
    let work = |rows: Range<usize>| {
        let mut folder = Folder::new(base);
        rows.filter_map(|index| compare(section, index, &mut folder)).collect()
    };
    // If a thread panicked, everything is checked again.
    in_shares(section.len(), SHARE, threads, work).unwrap_or_else(|| Differing::all(section))
}

/// The same through any file system, one file after the other.
///
/// # Errors
///
/// If the metadata of a path cannot be read for another reason than that it is missing.
pub fn check_through(
    fs: &dyn Fs,
    base: &Utf8Path,
    section: &Section,
) -> Result<Vec<usize>, FsError> {
    let mut different = Vec::new();
    for index in 0..section.len() {
        let Some(row) = section.row(index) else {
            continue;
        };
        let path = base.join(section.dir(row.dir())).join(section.name(&row));
        let same = match fs.metadata(&path) {
            Ok(metadata) => row.trusted() && describes(&row, &metadata),
            Err(error) if error.is_not_found() => row.what() == What::Absent,
            Err(error) => return Err(error),
        };
        if !same {
            different.push(index);
        }
    }
    Ok(different)
}

fn describes(row: &Row<'_>, metadata: &Metadata) -> bool {
    let kind = match row.what() {
        What::File => metadata.is_file(),
        What::Dir => metadata.is_dir(),
        What::Absent | What::Unusable => false,
    };
    kind && metadata.size == row.size()
        && metadata.mtime_ns == row.mtime_ns()
        && metadata.ctime_ns == row.ctime_ns()
        && metadata.inode == row.inode()
}

fn compare(section: &Section, index: usize, folder: &mut Folder<'_>) -> Option<Differing> {
    let unseen = Some(Differing::unseen(index));
    let Some(row) = section.row(index) else {
        return unseen;
    };
    match folder.stat(section, &row) {
        Ok(stat) if row.trusted() && is(&row, &stat) => None,
        Ok(stat) => Some(Differing::seen(index, stat)),
        Err(Errno::NOENT | Errno::NOTDIR) if row.what() == What::Absent => None,
        Err(_) => unseen,
    }
}

#[allow(clippy::unnecessary_cast, reason = "the types of these fields differ between systems")]
fn is(row: &Row<'_>, stat: &Stat) -> bool {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let same_kind = match row.what() {
        What::File => kind == FileType::RegularFile,
        What::Dir => kind == FileType::Directory,
        What::Absent | What::Unusable => false,
    };
    same_kind
        && stat.st_size as u64 == row.size()
        && stat.st_ino as u64 == row.inode()
        && nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64) == row.mtime_ns()
        && nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64) == row.ctime_ns()
}
