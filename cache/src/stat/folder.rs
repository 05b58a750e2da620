//! The folder of entries, kept open: the files in it are found by their names alone.

use std::os::fd::OwnedFd;

use camino::Utf8Path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use super::row::Row;
use super::section::Section;

/// The folder of the last entry, kept open for the next ones.
pub struct Folder<'a> {
    base: &'a Utf8Path,
    open: Option<(usize, Result<OwnedFd, Errno>)>,
}

impl<'a> Folder<'a> {
    pub fn new(base: &'a Utf8Path) -> Folder<'a> {
        Folder { base, open: None }
    }

    /// Follows links.
    pub fn stat(&mut self, section: &Section, row: &Row<'_>) -> Result<Stat, Errno> {
        statat(self.of(section, row)?, name(section, row), AtFlags::empty())
    }

    /// Opens a file for reading; never blocks. The caller knows that it is no device.
    pub fn open(&mut self, section: &Section, row: &Row<'_>) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        openat(self.of(section, row)?, name(section, row), flags, Mode::empty())
    }

    fn of(&mut self, section: &Section, row: &Row<'_>) -> Result<&OwnedFd, Errno> {
        let index = row.dir();
        if self.open.as_ref().is_none_or(|(of, _)| *of != index) {
            let path = self.base.join(section.dir(index));
            let path = if path.as_str().is_empty() { Utf8Path::new(".") } else { &path };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            self.open = Some((index, openat(CWD, path.as_str(), flags, Mode::empty())));
        }
        match &self.open {
            Some((_, Ok(folder))) => Ok(folder),
            Some((_, Err(error))) => Err(*error),
            None => Err(Errno::IO),
        }
    }
}

fn name<'a>(section: &'a Section, row: &Row<'_>) -> &'a str {
    let name = section.name(row);
    if name.is_empty() { "." } else { name }
}

pub fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000) + rest
}
