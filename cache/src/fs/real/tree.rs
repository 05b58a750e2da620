//! Removes a folder with everything in it. No link is followed, whoever exchanges folders
//! meanwhile.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use camino::Utf8Path;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::fs::{Call, FsError, FsResult};

/// The bits of a mode that are permissions, and those that give the owner access to a folder.
const PERMISSIONS: u32 = 0o7777;
const OWNER: u32 = 0o700;

/// Removes a folder, or a link to one; it may be missing. Names need not be UTF-8, and folders
/// without permissions for their owner get them. Entries that cannot be removed stay, and the first
/// error is returned. `shown` is the path for messages.
pub fn remove(folder: BorrowedFd<'_>, name: &str, shown: &Utf8Path) -> FsResult<()> {
    let failed = |call, error: Errno| FsError::new(call, shown, error.into());
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(Call::RemoveDir, error)),
        Ok(found) => match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => remove_folder(folder, name, shown),
            FileType::Symlink => gone(unlinkat(folder, name, AtFlags::empty()))
                .map_err(|error| failed(Call::RemoveFile, error)),
            _ => Err(failed(Call::RemoveDir, Errno::NOTDIR)),
        },
    }
}

fn gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

fn remove_folder(above: BorrowedFd<'_>, name: impl Arg + Copy, shown: &Utf8Path) -> FsResult<()> {
    let failed = |call| move |error: Errno| FsError::new(call, shown, error.into());
    let mut all = match open(above, name) {
        Ok(folder) => remove_entries(folder, shown),
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => Err(failed(Call::ReadDir)(error)),
    };
    if all.is_ok() {
        all = gone(unlinkat(above, name, AtFlags::REMOVEDIR)).map_err(failed(Call::RemoveDir));
    }
    all
}

/// An unreadable folder is made readable first.
fn open(above: BorrowedFd<'_>, name: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    let open = |how| {
        let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(above, name, flags, Mode::empty())
    };
    match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            let closed = open(OFlags::PATH)?;
            let mode = Mode::from_raw_mode(fstat(&closed)?.st_mode & PERMISSIONS | OWNER);
            // Such a handle has no other way to the mode.
            let handle = format!("/proc/self/fd/{}", closed.as_raw_fd());
            rustix::fs::chmod(handle, mode).map_err(|_| Errno::ACCESS)?;
            open(OFlags::RDONLY)
        }
        opened => opened,
    }
}

fn remove_entries(folder: OwnedFd, shown: &Utf8Path) -> FsResult<()> {
    make_writable(&folder);
    let failed = |error: Errno| FsError::new(Call::ReadDir, shown, error.into());
    let mut entries = Dir::new(folder).map_err(failed)?;
    let mut all = Ok(());
    while let Some(entry) = entries.read() {
        let (entry, folder) = match (entry, entries.fd()) {
            (Ok(entry), Ok(folder)) => (entry, folder),
            (Err(error), _) | (_, Err(error)) => return all.and(Err(failed(error))),
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let inner = shown.join(&*name.to_string_lossy());
        all = all.and(remove_entry(folder, name, entry.file_type(), &inner));
    }
    all
}

fn remove_entry(
    folder: BorrowedFd<'_>,
    name: &CStr,
    kind: FileType,
    shown: &Utf8Path,
) -> FsResult<()> {
    if kind == FileType::Directory {
        return remove_folder(folder, name, shown);
    }
    match gone(unlinkat(folder, name, AtFlags::empty())) {
        // Not every file system tells the kind of an entry.
        Err(Errno::ISDIR) => remove_folder(folder, name, shown),
        removed => removed.map_err(|error| FsError::new(Call::RemoveFile, shown, error.into())),
    }
}

/// Nothing can be removed from a folder that its owner may not write to. If the mode cannot be
/// changed, removing its entries fails and reports it.
fn make_writable(folder: &OwnedFd) {
    let mode = fstat(folder).map_or(OWNER, |found| found.st_mode & PERMISSIONS);
    if mode & OWNER != OWNER {
        let _ = fchmod(folder, Mode::from_raw_mode(mode | OWNER));
    }
}
