//! Compares a section with the present files: one stat per file, relative to the handle of its
//! folder, on several threads.

use std::ops::Range;
use std::os::fd::OwnedFd;

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use super::entry::What;
use super::row::Row;
use super::section::Section;
use crate::fs::{Fs, FsError, Metadata};
use crate::in_shares;

/// The number of entries that a thread takes at a time.
const SHARE: usize = 512;

/// The result of [`check`], computed in the fastest way that the file system allows. Inaccessible
/// files count as different.
pub fn differing(fs: &dyn Fs, base: &Utf8Path, section: &Section, threads: usize) -> Vec<usize> {
    if fs.is_direct() {
        return check(base, section, threads);
    }
    check_through(fs, base, section).unwrap_or_else(|_| (0..section.len()).collect())
}

/// The indices of the entries that differ from the files, or cannot be trusted.
pub fn check(base: &Utf8Path, section: &Section, threads: usize) -> Vec<usize> {
    let work = |rows: Range<usize>| {
        let mut folder = Folder::new(base);
        rows.filter(|index| differs(section, *index, &mut folder)).collect()
    };
    // If a thread panicked, everything is checked again.
    in_shares(section.len(), SHARE, threads, work).unwrap_or_else(|| (0..section.len()).collect())
}

/// The same through any file system, one file after the other.
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

/// The folder of the last entry, kept open for the next ones.
struct Folder<'a> {
    base: &'a Utf8Path,
    open: Option<(usize, Result<OwnedFd, Errno>)>,
}

impl<'a> Folder<'a> {
    fn new(base: &'a Utf8Path) -> Folder<'a> {
        Folder { base, open: None }
    }

    fn stat(&mut self, section: &Section, row: &Row<'_>) -> Result<Stat, Errno> {
        let index = row.dir();
        if self.open.as_ref().is_none_or(|(of, _)| *of != index) {
            let path = self.base.join(section.dir(index));
            let path = if path.as_str().is_empty() { Utf8Path::new(".") } else { &path };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.open = Some((index, openat(CWD, path.as_str(), flags, Mode::empty())));
        }
        let Some((_, Ok(folder))) = &self.open else {
            return Err(self
                .open
                .as_ref()
                .and_then(|(_, open)| open.as_ref().err().copied())
                .unwrap_or(Errno::IO));
        };
        let name = section.name(row);
        statat(folder, if name.is_empty() { "." } else { name }, AtFlags::empty())
    }
}

fn differs(section: &Section, index: usize, folder: &mut Folder<'_>) -> bool {
    let Some(row) = section.row(index) else {
        return true;
    };
    match folder.stat(section, &row) {
        Ok(stat) => !row.trusted() || !is(&row, &stat),
        Err(Errno::NOENT | Errno::NOTDIR) => row.what() != What::Absent,
        Err(_) => true,
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
    let time = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
    same_kind
        && stat.st_size as u64 == row.size()
        && stat.st_ino as u64 == row.inode()
        && time(stat.st_mtime as i64, stat.st_mtime_nsec as i64) == row.mtime_ns()
        && time(stat.st_ctime as i64, stat.st_ctime_nsec as i64) == row.ctime_ns()
}
