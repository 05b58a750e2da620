//! Open folders, and the states of files, in the terms of [`crate::fs`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;

use super::regular::Links;
use crate::fs::link_on_path::link_on_path;
use crate::fs::{DirEntry, FileKind, Metadata};

#[allow(clippy::unnecessary_cast, reason = "the types of these fields differ between systems")]
pub fn of(found: &Stat) -> Metadata {
    const WRITE: u32 = 0o222;
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
    Metadata {
        kind: kind_of(FileType::from_raw_mode(found.st_mode)),
        size: found.st_size as u64,
        mtime_ns: nanoseconds(found.st_mtime as i64, found.st_mtime_nsec as i64),
        ctime_ns: nanoseconds(found.st_ctime as i64, found.st_ctime_nsec as i64),
        inode: found.st_ino as u64,
        readonly: found.st_mode & WRITE == 0,
    }
}

fn kind_of(kind: FileType) -> FileKind {
    match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

/// Opens a folder, to list or to sync it.
pub fn open_folder(folder: BorrowedFd<'_>, name: &str, links: Links) -> io::Result<OwnedFd> {
    open_as(folder, name, OFlags::RDONLY, links)
}

/// Opens a folder as one that names are found from.
pub fn enter(folder: BorrowedFd<'_>, name: &str, links: Links) -> io::Result<OwnedFd> {
    open_as(folder, name, OFlags::PATH, links)
}

fn open_as(folder: BorrowedFd<'_>, name: &str, how: OFlags, links: Links) -> io::Result<OwnedFd> {
    let no_link = match links {
        Links::Followed => OFlags::empty(),
        Links::Refused => OFlags::NOFOLLOW,
    };
    let flags = how | no_link | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP if links == Links::Refused && is_link(folder, name) => {
            link_on_path()
        }
        error => error.into(),
    })
}

fn is_link(folder: BorrowedFd<'_>, name: &str) -> bool {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

/// The entries of a folder, sorted by name.
pub fn list(folder: OwnedFd) -> io::Result<Vec<DirEntry>> {
    let (mut folder, mut entries) = (Dir::new(folder)?, Vec::new());
    while let Some(entry) = folder.read() {
        let entry = entry?;
        let kind = match entry.file_type() {
            // Not every file system tells the kind.
            FileType::Unknown => {
                let found = statat(folder.fd()?, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(found.st_mode)
            }
            kind => kind,
        };
        match entry.file_name().to_str() {
            Ok("." | "..") => {}
            Ok(name) => entries.push(DirEntry { name: name.to_owned(), kind: kind_of(kind) }),
            Err(_) => {
                let name = entry.file_name().to_bytes().escape_ascii().to_string();
                entries.push(DirEntry { name, kind: FileKind::Unnameable });
            }
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Makes the names in a folder durable.
pub fn sync(folder: impl AsFd) -> io::Result<()> {
    match rustix::fs::fsync(folder) {
        // Some network file systems cannot sync a folder; nothing more can be done there.
        Err(Errno::INVAL) => Ok(()),
        result => Ok(result?),
    }
}
